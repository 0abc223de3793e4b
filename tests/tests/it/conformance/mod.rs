//! One list of API behaviours, run against a real API server and against the simulator. Both have
//! to respond alike.

mod behaviours;
mod clients;
mod normalize;
mod raw_client;

use anyhow::{Context, Result};
use futures_util::future::{self, LocalBoxFuture};
use futures_util::{StreamExt, stream};
use kelpie_e2e::{ControlPlane, Credentials, SimApiServer};
use kelpie_sim::server::ServerHooks;
use serde_json::{Value, json};

use normalize::Normalizer;
use raw_client::RawClient;

/// The number of behaviours that run concurrently. Each has its own namespace.
const CONCURRENCY: usize = 4;

/// The clients of one API server, and a namespace for one behaviour alone.
#[derive(Clone)]
struct Fixture {
    admin: RawClient,
    unprivileged: RawClient,
    unauthenticated: RawClient,
    namespace: String,
}

/// The name of a behaviour, and the function that records it on one server.
type Behaviour = (
    &'static str,
    fn(Fixture) -> LocalBoxFuture<'static, Result<Value>>,
);

impl Fixture {
    /// The path of a resource of the core group in the namespace.
    fn core_path(&self, plural: &str) -> String {
        format!("/api/v1/namespaces/{}/{plural}", self.namespace)
    }

    /// The path of a resource of another group in the namespace.
    fn group_path(&self, group_version: &str, plural: &str) -> String {
        format!(
            "/apis/{group_version}/namespaces/{}/{plural}",
            self.namespace
        )
    }

    fn config_maps(&self) -> String {
        self.core_path("configmaps")
    }
}

/// An object with nothing but a name.
fn named(name: &str) -> Value {
    json!({ "metadata": { "name": name } })
}

/// Records a behaviour on one server.
async fn record(fixture: &Fixture, (name, run): &Behaviour) -> Result<Value> {
    let mut fixture = fixture.clone();
    fixture.namespace = name.replace("::", "-").replace('_', "-");
    fixture.namespace.truncate(60);
    let namespace = named(&fixture.namespace);
    fixture
        .admin
        .post("/api/v1/namespaces", &namespace)
        .await?
        .ok()?;
    let record = run(fixture).await.with_context(|| (*name).to_owned())?;
    Ok(Normalizer::normalize(&record))
}

#[tokio::test]
async fn simulator_matches_real_api_server() {
    let plane = ControlPlane::start().await.unwrap();
    let api = &plane.api;
    let simulated = SimApiServer::start(ServerHooks::default()).await.unwrap();
    let fixture = |url: &str, ca_certificate: &str| {
        let client = |user: &Credentials| RawClient::new(url, ca_certificate, user).unwrap();
        Fixture {
            admin: client(&Credentials::admin()),
            unprivileged: client(&Credentials::unprivileged()),
            unauthenticated: client(&Credentials::Token("no-such-token".into())),
            namespace: String::new(),
        }
    };
    let real = fixture(api.url(), &api.ca_certificate());
    let simulator = fixture(&simulated.url(), &simulated.ca_certificate());
    let differences = stream::iter(behaviours::all())
        .map(async |behaviour| {
            let records = (record(&real, &behaviour), record(&simulator, &behaviour));
            let (expected, found) = tokio::join!(records.0, records.1);
            difference(behaviour.0, expected, found)
        })
        .buffered(CONCURRENCY);
    let differences: Vec<String> = differences.filter_map(future::ready).collect().await;
    // A panic would print their logs and bury the differences.
    drop((plane, simulated));
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
}

/// Describes how a behaviour differs; `None` if it does not.
fn difference(name: &str, expected: Result<Value>, found: Result<Value>) -> Option<String> {
    let (expected, found) = match (expected, found) {
        (Ok(expected), Ok(found)) if expected == found => return None,
        (Ok(expected), Ok(found)) => {
            let all = differences("", &expected, &found).join("\n");
            return Some(format!("{name}:\n{all}"));
        }
        other => other,
    };
    let outcome = |record: Result<Value>| match record {
        Ok(_) => "succeeded".to_owned(),
        Err(error) => format!("{error:#}"),
    };
    let (expected, found) = (outcome(expected), outcome(found));
    Some(format!("{name}:\n  real: {expected}\n  simulator: {found}"))
}

/// Lists the fields in which two records differ.
fn differences(path: &str, real: &Value, simulator: &Value) -> Vec<String> {
    match (real, simulator) {
        (Value::Object(a), Value::Object(b)) => {
            let mut fields: Vec<&String> = a.keys().chain(b.keys()).collect();
            fields.sort();
            fields.dedup();
            let absent = Value::from("(absent)");
            let below = fields.into_iter().flat_map(|field| {
                let of = |map: &serde_json::Map<String, Value>| {
                    map.get(field).unwrap_or(&absent).clone()
                };
                differences(&format!("{path}/{field}"), &of(a), &of(b))
            });
            below.collect()
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let pairs = a.iter().zip(b).enumerate();
            let below = pairs.flat_map(|(n, (a, b))| differences(&format!("{path}/{n}"), a, b));
            below.collect()
        }
        _ if real == simulator => Vec::new(),
        _ => vec![format!(
            "  {path}\n    real: {real}\n    simulator: {simulator}"
        )],
    }
}
