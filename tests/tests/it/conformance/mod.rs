//! One list of behaviours, run against a real API server and against the simulator: they have to say
//! the same.

mod behaviours;
mod client;
mod clients;
mod normal;

use anyhow::{Context, Result};
use futures_util::future::{self, LocalBoxFuture};
use futures_util::{StreamExt, stream};
use kelpie_e2e::{ControlPlane, Credentials, Simulated};
use kelpie_sim::server::Hooks;
use serde_json::{Value, json};

use client::Client;
use normal::Normal;

/// Behaviours that are tried side by side: each has a namespace of its own.
const AT_ONCE: usize = 4;

/// Where a behaviour is tried: an API server with a namespace for this behaviour alone.
#[derive(Clone)]
struct Stage {
    admin: Client,
    stranger: Client,
    nobody: Client,
    namespace: String,
}

/// A behaviour: what it is called, and what gives a record of it.
type Behaviour = (
    &'static str,
    fn(Stage) -> LocalBoxFuture<'static, Result<Value>>,
);

impl Stage {
    /// Where objects of the core group are in the namespace.
    fn core(&self, plural: &str) -> String {
        format!("/api/v1/namespaces/{}/{plural}", self.namespace)
    }

    /// Where objects of another group are in the namespace.
    fn at(&self, group_version: &str, plural: &str) -> String {
        format!(
            "/apis/{group_version}/namespaces/{}/{plural}",
            self.namespace
        )
    }

    fn configs(&self) -> String {
        self.core("configmaps")
    }
}

fn named(name: &str) -> Value {
    json!({ "metadata": { "name": name } })
}

/// What a behaviour looks like on each server.
async fn record(stage: &Stage, (name, run): &Behaviour) -> Result<Value> {
    let mut stage = stage.clone();
    stage.namespace = name.replace("::", "-").replace('_', "-");
    stage.namespace.truncate(60);
    let namespace = named(&stage.namespace);
    stage
        .admin
        .post("/api/v1/namespaces", &namespace)
        .await?
        .ok()?;
    let record = run(stage).await.with_context(|| (*name).to_owned())?;
    Ok(Normal::of(&record))
}

#[tokio::test]
async fn the_simulator_behaves_like_a_real_api_server() {
    let plane = ControlPlane::start().await.unwrap();
    let api = &plane.api;
    let simulated = Simulated::start(Hooks::default()).await.unwrap();
    let stage = |url: &str, authority: &str| {
        let client = |who: &Credentials| Client::new(url, authority, who).unwrap();
        Stage {
            admin: client(&Credentials::admin()),
            stranger: client(&Credentials::stranger()),
            nobody: client(&Credentials::Token("no-such-token".into())),
            namespace: String::new(),
        }
    };
    let real = stage(api.url(), &api.authority());
    let ours = stage(&simulated.url(), &simulated.authority());
    let differences = stream::iter(behaviours::all())
        .map(async |behaviour| {
            let records = (record(&real, &behaviour), record(&ours, &behaviour));
            let (expected, found) = tokio::join!(records.0, records.1);
            difference(behaviour.0, expected, found)
        })
        .buffered(AT_ONCE);
    let differences: Vec<String> = differences.filter_map(future::ready).collect().await;
    // Their logs would bury what is to be read.
    drop((plane, simulated));
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
}

/// What to say about a behaviour that is not the same.
fn difference(name: &str, expected: Result<Value>, found: Result<Value>) -> Option<String> {
    let (expected, found) = match (expected, found) {
        (Ok(expected), Ok(found)) if expected == found => return None,
        (Ok(expected), Ok(found)) => {
            let all = differing("", &expected, &found).join("\n");
            return Some(format!("{name}:\n{all}"));
        }
        other => other,
    };
    let told = |record: Result<Value>| match record {
        Ok(_) => "done".to_owned(),
        Err(error) => format!("{error:#}"),
    };
    let (expected, found) = (told(expected), told(found));
    Some(format!("{name}:\n  real: {expected}\n  ours: {found}"))
}

/// Where two records differ, for people.
fn differing(path: &str, real: &Value, ours: &Value) -> Vec<String> {
    match (real, ours) {
        (Value::Object(a), Value::Object(b)) => {
            let mut fields: Vec<&String> = a.keys().chain(b.keys()).collect();
            fields.sort();
            fields.dedup();
            let absent = Value::from("(absent)");
            let below = fields.into_iter().flat_map(|field| {
                let of = |map: &serde_json::Map<String, Value>| {
                    map.get(field).unwrap_or(&absent).clone()
                };
                differing(&format!("{path}/{field}"), &of(a), &of(b))
            });
            below.collect()
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let pairs = a.iter().zip(b).enumerate();
            let below = pairs.flat_map(|(n, (a, b))| differing(&format!("{path}/{n}"), a, b));
            below.collect()
        }
        _ if real == ours => Vec::new(),
        _ => vec![format!("  {path}\n    real: {real}\n    ours: {ours}")],
    }
}
