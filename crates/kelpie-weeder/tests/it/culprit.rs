//! Somebody who deletes pods that are well: the auditor has to say so.

use std::time::Duration;

use axum::body::Bytes;
use axum::http::Request;
use fastrand::Rng;
use kelpie_sim::chaos::{Chaos, Subject};
use kelpie_sim::resource::PODS;
use kelpie_sim::scenario::{Fault, Scenario};
use kelpie_sim::{Landscape, Plan, Process, Selection};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::auditor::Auditor;
use crate::bait::BAIT;

/// In seconds: in the window of the start, and long after it.
const AT: [u64; 2] = [60, 700];

struct Culprit;

impl Subject for Culprit {
    type Shows = ();
    type Auditor = Auditor;
    const NAME: &'static str = "culprit";
    const LEASE: &'static str = "none";
    const PAUSE: Duration = Duration::MAX;

    fn fault(_: &Plan, _: &mut Rng) -> Fault {
        Fault::WatchDrop
    }

    fn start(landscape: &Landscape, name: &str, _: bool) -> Process<()> {
        let link = landscape.link(name);
        let (begun, landscape, name) = (Instant::now(), landscape.clone(), name.to_owned());
        let work = async move {
            for second in AT {
                sleep_until(begun + Duration::from_secs(second)).await;
                delete(&landscape, &name).await;
            }
        };
        Process::start(link, CancellationToken::new(), (), work)
    }

    fn leftovers((): &()) -> Vec<String> {
        Vec::new()
    }
}

/// Deletes the pod of the first cluster's API server.
async fn delete(landscape: &Landscape, who: &str) {
    let (seed, cluster) = (landscape.seed(), Plan::default().cluster_name(0));
    let (pods, _) = seed.store().list(&PODS, &Selection::all()).unwrap();
    let mut names = pods.iter().filter_map(|pod| {
        let is_there = pod["metadata"]["namespace"] == *cluster;
        pod["metadata"]["name"].as_str().filter(|_| is_there)
    });
    let name = names.find(|name| !name.starts_with(BAIT)).unwrap();
    let request = Request::delete(format!("/api/v1/namespaces/{cluster}/pods/{name}"))
        .header("authorization", format!("Bearer {who}"))
        .body(Bytes::from(r#"{"gracePeriodSeconds":0}"#));
    let answer = seed.respond(request.unwrap(), None).await;
    assert_eq!(answer.unwrap().status(), 200);
}

#[test]
fn who_deletes_what_is_well_and_without_reason_is_found_out() {
    let chaos = |watchdogs| Chaos {
        plan: Plan::of(1, 2),
        scenario: Scenario {
            length: Duration::from_mins(15),
            ..Scenario::default()
        },
        watchdogs,
    };
    assert_eq!(
        chaos(0).endure::<Culprit>().unwrap().wrong,
        Vec::<String>::new()
    );
    let wrong = chaos(1).endure::<Culprit>().unwrap().wrong;
    for (text, count) in [
        ("was deleted and was well", 2),
        ("was deleted without evidence", 2),
        ("was deleted when no window was open", 1),
    ] {
        let found = wrong.iter().filter(|line| line.contains(text)).count();
        assert_eq!(found, count, "{text}: {wrong:?}");
    }
}
