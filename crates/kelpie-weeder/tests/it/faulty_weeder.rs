//! A weeder that deletes healthy pods: the auditor has to report it.

use std::time::Duration;

use axum::body::Bytes;
use axum::http::Request;
use fastrand::Rng;
use kelpie_chaos::{ChaosRun, Subject};
use kelpie_sim::resource::PODS;
use kelpie_sim::scenario::{Fault, Scenario};
use kelpie_sim::{Landscape, LandscapePlan, ObjectSelector, SimProcess};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::auditor::Auditor;
use crate::decoys::DECOY_PREFIX;

/// The seconds at which it deletes: during the first window, and long after it.
const DELETE_AT: [u64; 2] = [60, 700];

struct FaultyWeeder;

impl Subject for FaultyWeeder {
    type Exposed = ();
    type Auditor = Auditor;
    const NAME: &'static str = "faulty-weeder";
    const LEASE: &'static str = "none";
    const FAULT_INTERVAL: Duration = Duration::MAX;

    fn random_fault(_: &mut Rng) -> Fault {
        Fault::WatchDrop
    }

    fn start(landscape: &Landscape, name: &str, _: bool) -> SimProcess<()> {
        let link = landscape.link(name);
        let (started, landscape, name) = (Instant::now(), landscape.clone(), name.to_owned());
        let work = async move {
            for second in DELETE_AT {
                sleep_until(started + Duration::from_secs(second)).await;
                delete(&landscape, &name).await;
            }
        };
        SimProcess::start(link, CancellationToken::new(), (), work)
    }

    fn leftovers((): &()) -> Vec<String> {
        Vec::new()
    }
}

/// Deletes the API server's pod of the first cluster.
async fn delete(landscape: &Landscape, user: &str) {
    let (seed, cluster) = (landscape.seed(), LandscapePlan::default().cluster_name(0));
    let (pods, _) = seed.store().list(&PODS, &ObjectSelector::all()).unwrap();
    let mut names = pods.iter().filter_map(|pod| {
        let is_there = pod["metadata"]["namespace"] == *cluster;
        pod["metadata"]["name"].as_str().filter(|_| is_there)
    });
    let name = names.find(|name| !name.starts_with(DECOY_PREFIX)).unwrap();
    let request = Request::delete(format!("/api/v1/namespaces/{cluster}/pods/{name}"))
        .header("authorization", format!("Bearer {user}"))
        .body(Bytes::from(r#"{"gracePeriodSeconds":0}"#));
    let response = seed.respond(request.unwrap(), None).await;
    assert_eq!(response.unwrap().status(), 200);
}

#[test]
fn deleting_healthy_pods_is_reported() {
    let chaos = |watchdogs| ChaosRun {
        plan: LandscapePlan::with_size(1, 2),
        scenario: Scenario {
            length: Duration::from_mins(15),
            ..Scenario::default()
        },
        watchdogs,
    };
    assert_eq!(
        chaos(0).run::<FaultyWeeder>().unwrap().violations,
        Vec::<String>::new()
    );
    let violations = chaos(1).run::<FaultyWeeder>().unwrap().violations;
    for (text, count) in [
        ("was deleted while healthy", 2),
        ("was deleted without evidence", 2),
        ("was deleted outside of a window", 1),
    ] {
        let found = violations.iter().filter(|line| line.contains(text)).count();
        assert_eq!(found, count, "{text}: {violations:?}");
    }
}
