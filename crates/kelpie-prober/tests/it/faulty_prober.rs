//! Probers that violate an invariant on purpose: the auditor has to report them.

use std::marker::PhantomData;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::Request;
use fastrand::Rng;
use kelpie_chaos::{ChaosRun, Subject};
use kelpie_sim::scenario::{Fault, Incident, NodeSelection, Scenario};
use kelpie_sim::{Landscape, LandscapePlan, SimProcess};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::auditor::{Auditor, MARKER, RECORD};
use crate::replica::LEASE;

/// The start and end of the partition of all nodes, in seconds.
const PARTITION: (u64, u64) = (300, 600);

/// The seconds at which a faulty prober acts: it fences at the first, releases at the second,
/// fences at the third, and so on.
trait Schedule {
    const AT: &'static [u64];
    /// The replica count that it records and restores.
    const COUNT: u32 = 1;
    /// Writes annotations and replicas together.
    const IN_ONE_WRITE: bool = false;
    /// The number of replicas, none of which ever holds the Lease if there are several.
    const WATCHDOGS: usize = 1;
}

struct FaultyProber<S>(PhantomData<S>);

impl<S: Schedule> Subject for FaultyProber<S> {
    type Exposed = ();
    type Auditor = Auditor;
    const NAME: &'static str = "faulty-prober";
    const LEASE: &'static str = LEASE;
    const FAULT_INTERVAL: Duration = Duration::MAX;

    fn random_fault(_: &mut Rng) -> Fault {
        Fault::WatchDrop
    }

    fn start(landscape: &Landscape, name: &str, _: bool) -> SimProcess<()> {
        let link = landscape.link(name);
        let (started, seed, name) = (Instant::now(), landscape.clone(), name.to_owned());
        let work = async move {
            for (index, second) in S::AT.iter().enumerate() {
                sleep_until(started + Duration::from_secs(*second)).await;
                let fences = index % 2 == 0;
                let mark = if fences { json!("") } else { Value::Null };
                let annotations =
                    json!({ "annotations": { MARKER: mark, RECORD: S::COUNT.to_string() } });
                let mark = json!({ "metadata": annotations });
                let scale = json!({ "spec": { "replicas": if fences { 0 } else { S::COUNT } } });
                let steps = match (S::IN_ONE_WRITE, fences) {
                    (true, _) => {
                        vec![json!({ "metadata": mark["metadata"], "spec": scale["spec"] })]
                    }
                    (false, true) => vec![mark, scale],
                    (false, false) => vec![scale, mark],
                };
                for step in steps {
                    patch(&seed, &name, &step).await;
                }
            }
        };
        SimProcess::start(link, CancellationToken::new(), (), work)
    }

    fn leftovers((): &()) -> Vec<String> {
        Vec::new()
    }
}

/// Patches the kube-controller-manager of the first cluster.
async fn patch(landscape: &Landscape, user: &str, patch: &Value) {
    let cluster = LandscapePlan::default().cluster_name(0);
    let [kcm, ..] = LandscapePlan::CONTROLLERS;
    let path = format!("/apis/apps/v1/namespaces/{cluster}/deployments/{kcm}");
    let request = Request::patch(path)
        .header("authorization", format!("Bearer {user}"))
        .header("content-type", "application/merge-patch+json")
        .body(Bytes::from(patch.to_string()));
    let response = landscape.seed().respond(request.unwrap(), None).await;
    assert_eq!(response.unwrap().status(), 200);
}

/// Returns the violations, without their times, of a run with the partition and `extra` incidents.
fn violations<S: Schedule>(extra: &[Incident]) -> Vec<String> {
    let (begin, end) = PARTITION;
    let lasts = Duration::from_secs(end - begin);
    let partition = Fault::Partition(NodeSelection::All);
    let partition = Incident::new(Duration::from_secs(begin), Some(lasts), partition);
    let chaos = ChaosRun {
        plan: LandscapePlan::with_size(1, 5),
        scenario: Scenario {
            length: Duration::from_secs(end),
            incidents: [extra, &[partition]].concat(),
            ..Scenario::default()
        },
        watchdogs: S::WATCHDOGS,
    };
    let violations = chaos.run::<FaultyProber<S>>().unwrap().violations;
    let text = |line: &String| line.split_once(") ").unwrap().1.to_owned();
    violations.iter().map(text).collect()
}

/// Another client scales kube-controller-manager, long before the partition.
fn scale(replicas: u32) -> Incident {
    let controller = LandscapePlan::CONTROLLERS[0].to_owned();
    let fault = Fault::Scale {
        controller,
        replicas,
    };
    Incident::new(Duration::from_secs(30), None, fault)
}

fn contains(violations: &[String], text: &str) -> bool {
    violations.iter().any(|line| line.contains(text))
}

struct Correct;

impl Schedule for Correct {
    const AT: &'static [u64] = &[325, 620];
}

/// Causes no damage: a kube-controller-manager that is stopped before the grace period has passed
/// marks no node as Unknown.
struct ReleasesEarly;

impl Schedule for ReleasesEarly {
    const AT: &'static [u64] = &[325, 350, 365, 620];
}

struct InOneWrite;

impl Schedule for InOneWrite {
    const AT: &'static [u64] = Correct::AT;
    const IN_ONE_WRITE: bool = true;
}

struct Standby;

impl Schedule for Standby {
    const AT: &'static [u64] = Correct::AT;
    const WATCHDOGS: usize = 2;
}

struct EarlyStandby;

impl Schedule for EarlyStandby {
    const AT: &'static [u64] = &[200, 620];
    const WATCHDOGS: usize = 2;
}

struct NeverFences;

impl Schedule for NeverFences {
    const AT: &'static [u64] = &[];
}

struct RestoresTwo;

impl Schedule for RestoresTwo {
    const AT: &'static [u64] = Correct::AT;
    const COUNT: u32 = 2;
}

struct NeverReleases;

impl Schedule for NeverReleases {
    const AT: &'static [u64] = &[325];
    const COUNT: u32 = 2;
}

#[test]
fn timely_fence_and_release_pass() {
    assert_eq!(violations::<Correct>(&[]), Vec::<String>::new());
}

#[test]
fn record_may_come_with_the_scale() {
    assert_eq!(violations::<InOneWrite>(&[]), Vec::<String>::new());
}

#[test]
fn standby_may_fence_but_not_restore() {
    let found = violations::<Standby>(&[]);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found.iter().all(|line| line.contains("is not the leader")));
    let found = violations::<EarlyStandby>(&[]);
    assert!(contains(&found, "no node was cut off"), "{found:?}");
    assert_eq!(
        found
            .iter()
            .filter(|line| line.contains("is not the leader"))
            .count(),
        3
    );
}

#[test]
fn early_release_is_reported() {
    let cluster = LandscapePlan::default().cluster_name(0);
    let [kcm, ..] = LandscapePlan::CONTROLLERS;
    let text = format!("{cluster}: {kcm} scaled up while its nodes are still silent");
    assert_eq!(violations::<ReleasesEarly>(&[]), [text]);
}

#[test]
fn fence_restores_scale_by_others() {
    assert_eq!(violations::<RestoresTwo>(&[scale(2)]), Vec::<String>::new());
    let violations = violations::<NeverReleases>(&[scale(2)]);
    assert!(
        contains(&violations, "is not in its original state"),
        "{violations:?}"
    );
}

#[test]
fn missing_fence_is_reported_despite_earlier_scale() {
    for extra in [vec![], vec![scale(2)]] {
        let violations = violations::<NeverFences>(&extra);
        assert!(
            contains(&violations, "turned Unknown during"),
            "{violations:?}"
        );
        assert!(contains(&violations, "not fenced during"), "{violations:?}");
    }
}
