//! Clusters of Cluster API: their MachineHealthChecks are paused while nodes are cut off.

use std::time::Duration;

use kelpie_sim::resource::HEALTH_CHECKS;
use kelpie_sim::scenario::{Fault, FaultSite, Incident, NodeSelection};
use kelpie_sim::{Landscape, LandscapePlan, Platform, WriteScope};
use serde_json::Value;
use tokio::time::sleep;

use crate::one_cluster::{SECOND, incident, landscape_of};
use crate::replica::{prober, prober_with_guard};

const PAUSED: &str = "cluster.x-k8s.io/paused";
const NAMESPACE: &str = "fleet";

/// The pauses of a cluster's MachineHealthChecks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pauses {
    /// That of the one that replaces machines.
    workers: Option<&'static str>,
    /// That of the one that its owner has paused.
    trial: Option<&'static str>,
}

/// The pauses before a fence, and after the restore.
pub(crate) const UNTOUCHED: Pauses = Pauses {
    workers: None,
    trial: Some("other"),
};
const PAUSED_BY_US: Pauses = Pauses {
    workers: Some("ours"),
    ..UNTOUCHED
};

/// Returns the pauses of a cluster's MachineHealthChecks.
pub(crate) fn pauses(landscape: &Landscape, cluster: &str) -> Pauses {
    let pause = |name: &str| {
        let check = check(landscape, &format!("{cluster}-{name}"));
        let pause = check["metadata"]["annotations"].get(PAUSED)?.as_str()?;
        let is_ours = pause.starts_with("kelpie/silent-nodes/20");
        Some(if is_ours { "ours" } else { "other" })
    };
    Pauses {
        workers: pause("workers"),
        trial: pause("trial"),
    }
}

fn check(landscape: &Landscape, name: &str) -> Value {
    let seed = landscape.seed();
    seed.store().get(&HEALTH_CHECKS, NAMESPACE, name).unwrap()
}

/// Changes the pause of a MachineHealthCheck as another client does.
fn set_pause(landscape: &Landscape, name: &str, pause: Option<&str>) {
    let change = |check: &mut Value| {
        let annotations = &mut check["metadata"]["annotations"];
        match (pause, annotations.as_object_mut()) {
            (Some(pause), _) => annotations[PAUSED] = pause.into(),
            (None, Some(annotations)) => _ = annotations.remove(PAUSED),
            (None, None) => {}
        }
    };
    let seed = landscape.seed();
    let store = seed.store();
    store
        .modify(&HEALTH_CHECKS, NAMESPACE, name, WriteScope::Object, change)
        .unwrap();
}

fn plan(clusters: usize) -> LandscapePlan {
    LandscapePlan {
        platform: Platform::ClusterApi,
        ..LandscapePlan::with_size(clusters, 5)
    }
}

fn name(number: usize) -> String {
    plan(1).cluster_name(number)
}

fn partition(begin: u32, end: u32) -> Incident {
    incident(begin, end, Fault::Partition(NodeSelection::All))
}

#[tokio::test(start_paused = true)]
async fn unprotected_machines_are_replaced() {
    let landscape = landscape_of(&plan(1), vec![partition(120, 900)]);
    sleep(1_000 * SECOND).await;
    assert!(landscape.damage().machines_replaced > 0);
}

#[tokio::test(start_paused = true)]
async fn machines_outlive_a_partition() {
    let landscape = landscape_of(&plan(1), vec![partition(120, 900)]);
    let prober = prober(&landscape, "one", true);
    sleep(110 * SECOND).await;
    assert_eq!(pauses(&landscape, &name(0)), UNTOUCHED);
    sleep(50 * SECOND).await;
    assert_eq!(pauses(&landscape, &name(0)), PAUSED_BY_US);
    sleep(740 * SECOND).await;
    assert_eq!(pauses(&landscape, &name(0)), PAUSED_BY_US);
    sleep(100 * SECOND).await;
    assert_eq!(pauses(&landscape, &name(0)), UNTOUCHED);
    let damage = landscape.damage();
    assert_eq!((damage.nodes_unknown, damage.machines_replaced), (5, 0));
    assert!(
        landscape.snapshot()[0].ready == 5,
        "Ready before the health checks resume"
    );
    prober.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn guard_and_pause_leave_no_trace() {
    let landscape = landscape_of(&plan(3), vec![partition(120, 900)]);
    let prober = prober_with_guard(&landscape, "one", true);
    sleep(1_000 * SECOND).await;
    let damage = landscape.damage();
    assert_eq!((damage.nodes_unknown, damage.machines_replaced), (0, 0));
    for number in 0..3 {
        assert_eq!(pauses(&landscape, &name(number)), UNTOUCHED, "{number}");
    }
    prober.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn only_the_cluster_that_is_cut_off_is_paused() {
    let cut_off = kelpie_sim::scenario::ClusterSelection::Numbers(vec![1]);
    let landscape = landscape_of(&plan(3), vec![partition(120, 400).in_clusters(cut_off)]);
    let prober = prober(&landscape, "one", true);
    sleep(200 * SECOND).await;
    let found: Vec<Pauses> = (0..3)
        .map(|number| pauses(&landscape, &name(number)))
        .collect();
    assert_eq!(found, [UNTOUCHED, PAUSED_BY_US, UNTOUCHED]);
    prober.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn pause_that_is_undone_is_made_again() {
    let landscape = landscape_of(&plan(1), vec![partition(120, 600)]);
    let prober = prober(&landscape, "one", true);
    sleep(200 * SECOND).await;
    let workers = format!("{}-workers", name(0));
    set_pause(&landscape, &workers, None);
    sleep(15 * SECOND).await;
    assert_eq!(pauses(&landscape, &name(0)), PAUSED_BY_US);
    // A client that replaces our pause owns it.
    set_pause(&landscape, &workers, Some("maintenance"));
    sleep(600 * SECOND).await;
    let kept = Pauses {
        workers: Some("other"),
        ..UNTOUCHED
    };
    assert_eq!(pauses(&landscape, &name(0)), kept);
    prober.stop().await.unwrap();
}

/// The process is killed at any instant of the fence or of the restore, and another one follows.
#[tokio::test(start_paused = true)]
async fn successor_of_a_killed_process_restores_exactly() {
    for kill_at in (0..16)
        .map(|step| Duration::from_millis(147_000 + 600 * step))
        .chain((0..16).map(|step| Duration::from_millis(300_000 + 3_100 * step)))
    {
        let landscape = landscape_of(&plan(2), vec![partition(120, 300)]);
        let first = prober(&landscape, "one", false);
        sleep(kill_at).await;
        first.crash();
        let second = prober(&landscape, "two", false);
        sleep((600 * SECOND).saturating_sub(kill_at)).await;
        for number in 0..2 {
            let found = pauses(&landscape, &name(number));
            assert_eq!(found, UNTOUCHED, "killed at {kill_at:?}");
        }
        assert_eq!(
            landscape.damage().machines_replaced,
            0,
            "killed at {kill_at:?}"
        );
        second.stop().await.unwrap();
    }
}

/// Any call may fail, or its answer may be lost, from before the fence or the restore on.
#[tokio::test(start_paused = true)]
async fn failed_calls_restore_exactly() {
    let site = FaultSite::Seed;
    let refusal = |status| Fault::Refusal {
        site,
        status,
        share: 0.6,
    };
    let faults = [
        refusal(429),
        refusal(500),
        refusal(403),
        Fault::BodyCut { site, resets: true },
        Fault::Outage(site),
        Fault::Stall(site),
        Fault::WebhookOutage,
        Fault::WatchDrop,
        Fault::Latency(site, 5 * SECOND),
    ];
    for fault in faults {
        for (begin, end) in [(140, 170), (145, 155), (295, 345), (310, 330)] {
            let incidents = vec![partition(120, 300), incident(begin, end, fault.clone())];
            let landscape = landscape_of(&plan(2), incidents);
            let prober = prober(&landscape, "one", true);
            sleep(250 * SECOND).await;
            assert_eq!(
                pauses(&landscape, &name(0)),
                PAUSED_BY_US,
                "{fault} from {begin}"
            );
            sleep(350 * SECOND).await;
            for number in 0..2 {
                let found = pauses(&landscape, &name(number));
                assert_eq!(found, UNTOUCHED, "{fault} from {begin}");
            }
            assert_eq!(
                landscape.damage().machines_replaced,
                0,
                "{fault} from {begin}"
            );
            prober.stop().await.unwrap();
        }
    }
}
