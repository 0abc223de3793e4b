//! Watchdogs who do what must not be done: the auditor has to say so.

use std::marker::PhantomData;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::Request;
use fastrand::Rng;
use kelpie_sim::chaos::{Chaos, Subject};
use kelpie_sim::scenario::{Fault, Incident, Nodes, Scenario};
use kelpie_sim::{Landscape, Plan, Process};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::auditor::{Auditor, MARKER, RECORD};
use crate::replica::LEASE;

/// From when to when all nodes are cut off, in seconds.
const CUT: (u64, u64) = (300, 600);

/// Fences at the first of these seconds, releases at the second, fences at the third, and so on.
trait Deeds {
    const AT: &'static [u64];
    /// What it takes for the usual count.
    const COUNT: u32 = 1;
}

struct Culprit<D>(PhantomData<D>);

impl<D: Deeds> Subject for Culprit<D> {
    type Shows = ();
    type Auditor = Auditor;
    const NAME: &'static str = "culprit";
    const LEASE: &'static str = LEASE;
    const PAUSE: Duration = Duration::MAX;

    fn fault(_: &Plan, _: &mut Rng) -> Fault {
        Fault::WatchDrop
    }

    fn start(landscape: &Landscape, name: &str, _: bool) -> Process<()> {
        let link = landscape.link(name);
        let (begun, seed, name) = (Instant::now(), landscape.clone(), name.to_owned());
        let work = async move {
            for (index, second) in D::AT.iter().enumerate() {
                sleep_until(begun + Duration::from_secs(*second)).await;
                let fences = index % 2 == 0;
                let mark = if fences { json!("") } else { Value::Null };
                let annotations =
                    json!({ "annotations": { MARKER: mark, RECORD: D::COUNT.to_string() } });
                let mark = json!({ "metadata": annotations });
                let scale = json!({ "spec": { "replicas": if fences { 0 } else { D::COUNT } } });
                let steps = if fences { [mark, scale] } else { [scale, mark] };
                for step in steps {
                    patch(&seed, &name, &step).await;
                }
            }
        };
        Process::start(link, CancellationToken::new(), (), work)
    }

    fn leftovers((): &()) -> Vec<String> {
        Vec::new()
    }
}

/// Changes the kube-controller-manager of the first cluster.
async fn patch(landscape: &Landscape, who: &str, patch: &Value) {
    let cluster = Plan::default().cluster_name(0);
    let [kcm, ..] = Plan::CONTROLLERS;
    let path = format!("/apis/apps/v1/namespaces/{cluster}/deployments/{kcm}");
    let request = Request::patch(path)
        .header("authorization", format!("Bearer {who}"))
        .header("content-type", "application/merge-patch+json")
        .body(Bytes::from(patch.to_string()));
    let answer = landscape.seed().respond(request.unwrap(), None).await;
    assert_eq!(answer.unwrap().status(), 200);
}

/// What is wrong, without when, if this happens beside the partition.
fn wrong<D: Deeds>(beside: &[Incident]) -> Vec<String> {
    let (begin, end) = CUT;
    let lasts = Duration::from_secs(end - begin);
    let partition = Fault::Partition(Nodes::All);
    let partition = Incident::new(Duration::from_secs(begin), Some(lasts), partition);
    let chaos = Chaos {
        plan: Plan::of(1, 5),
        scenario: Scenario {
            length: Duration::from_secs(end),
            incidents: [beside, &[partition]].concat(),
            ..Scenario::default()
        },
        watchdogs: 1,
    };
    let wrong = chaos.endure::<Culprit<D>>().unwrap().wrong;
    let text = |line: &String| line.split_once(") ").unwrap().1.to_owned();
    wrong.iter().map(text).collect()
}

/// Somebody wants another count of kube-controller-managers, long before the partition.
fn scale(replicas: u32) -> Incident {
    let controller = Plan::CONTROLLERS[0].to_owned();
    let fault = Fault::Scale {
        controller,
        replicas,
    };
    Incident::new(Duration::from_secs(30), None, fault)
}

fn has(wrong: &[String], text: &str) -> bool {
    wrong.iter().any(|line| line.contains(text))
}

struct Careful;

impl Deeds for Careful {
    const AT: &'static [u64] = &[325, 620];
}

/// Nothing breaks: a kube-controller-manager that is stopped before it has been there for the grace
/// period gives nobody up.
struct Hasty;

impl Deeds for Hasty {
    const AT: &'static [u64] = &[325, 350, 365, 620];
}

struct Idle;

impl Deeds for Idle {
    const AT: &'static [u64] = &[];
}

struct OfTwo;

impl Deeds for OfTwo {
    const AT: &'static [u64] = Careful::AT;
    const COUNT: u32 = 2;
}

struct Forgetful;

impl Deeds for Forgetful {
    const AT: &'static [u64] = &[325];
    const COUNT: u32 = 2;
}

#[test]
fn who_fences_in_time_and_releases_when_the_nodes_are_back_does_nothing_wrong() {
    assert_eq!(wrong::<Careful>(&[]), Vec::<String>::new());
}

#[test]
fn who_releases_in_the_midst_of_a_partition_is_found_out() {
    let cluster = Plan::default().cluster_name(0);
    let [kcm, ..] = Plan::CONTROLLERS;
    let text = format!("{cluster}: {kcm} scaled up while its nodes are still silent");
    assert_eq!(wrong::<Hasty>(&[]), [text]);
}

#[test]
fn what_somebody_has_scaled_is_restored_as_they_wanted_it() {
    assert_eq!(wrong::<OfTwo>(&[scale(2)]), Vec::<String>::new());
    let forgotten = wrong::<Forgetful>(&[scale(2)]);
    assert!(has(&forgotten, "is not as it was"), "{forgotten:?}");
}

#[test]
fn a_cluster_in_which_somebody_has_scaled_has_deadlines_again_some_time_later() {
    for beside in [vec![], vec![scale(2)]] {
        let wrong = wrong::<Idle>(&beside);
        assert!(has(&wrong, "turned Unknown in spite of"), "{wrong:?}");
        assert!(has(&wrong, "not fenced during"), "{wrong:?}");
    }
}
