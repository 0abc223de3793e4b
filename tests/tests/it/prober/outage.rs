//! All clusters of a seed are cut off in the same second.

use std::time::Duration;

use kelpie_e2e::landscape::{Canary, Pace, Prober, ProberConfig};
use kelpie_e2e::outage::load::Meter;
use kelpie_e2e::outage::{Extent, Outage};

use super::stage::*;

const CLUSTERS: usize = 40;

/// `cargo xtask bench outage` is the large one, in the pace of the real world.
#[tokio::test]
async fn every_cluster_is_fenced_before_its_deadline_and_restored_exactly() {
    let pace = Pace {
        grace: Duration::from_secs(24),
        renewal: Duration::from_secs(1),
        reserve: Duration::from_secs(3),
        interval: Duration::from_secs(5),
    };
    let extent = Extent {
        clusters: CLUSTERS,
        nodes: 12,
        pace,
        pod_stop: Duration::from_millis(500),
        simulated: false,
    };
    let outage = Outage::prepare(extent).await.unwrap();
    let canary = Canary::start(&outage.seed.client).await.unwrap();
    let config = ProberConfig::shipped(pace);
    let kubeconfig = outage.kubeconfig().unwrap();
    let prober = Prober::start(&kubeconfig, &config, &[]).await.unwrap();
    for (shoot, _) in outage.shoots() {
        until_well(&prober, shoot).await;
    }

    let process = prober.kelpie.process();
    let before = Meter::read(&outage, process).await.unwrap();
    let struck = outage.strike().await.unwrap();
    let fences = outage.fenced(&struck).await.unwrap();
    let restores = outage.recover().await.unwrap();
    let load = before.until(Meter::read(&outage, process).await.unwrap());
    println!("{fences}\n{restores}\n{load}");

    let end = fences.end().unwrap();
    let machine = canary.longest(struck.cut, end, PATIENCE).await;
    assert_eq!(fences.count(), CLUSTERS);
    // What the same calls of somebody else take at the same time is not held against a fence.
    let late = fences.worst_delay();
    assert!(late <= machine, "{late:?}, others {machine:?}");
    assert!(load.throttled() < 0.5, "{load}");
    for (shoot, counts) in outage.shoots() {
        assert_each_target_went_down_and_up_once(&outage, &shoot.name, counts);
    }
}

/// By two writes each way and no other.
fn assert_each_target_went_down_and_up_once(
    outage: &Outage,
    shoot: &str,
    counts: [(&'static str, u32); 3],
) {
    let entries = outage.timeline.of(shoot);
    for (name, count) in counts {
        let count = i32::try_from(count).unwrap();
        let steps: Vec<_> = entries
            .iter()
            .filter(|entry| entry.name == name)
            .map(|entry| (entry.replicas, entry.marked, entry.recorded.clone()))
            .collect();
        let record = Some(count.to_string());
        let expected = [
            (count, false, None),
            (count, true, record.clone()),
            (0, true, record.clone()),
            (count, true, record.clone()),
            (count, false, record),
        ];
        assert_eq!(steps, expected, "{name} of {shoot}");
    }
}
