//! All clusters of a seed are cut off within the same second.

use std::time::Duration;

use kelpie_e2e::landscape::{Canary, ProberConfigFile, ProberProcess, Timings};
use kelpie_e2e::outage::load::LoadSnapshot;
use kelpie_e2e::outage::{Outage, OutageOptions};

use super::fixture::*;

const CLUSTERS: usize = 40;

/// `cargo xtask bench outage` is the full-size variant with real timings.
#[tokio::test]
async fn every_cluster_is_fenced_in_time_and_restored() {
    let timings = Timings {
        grace: Duration::from_secs(24),
        renewal: Duration::from_secs(1),
        reserve: Duration::from_secs(3),
        interval: Duration::from_secs(5),
    };
    let options = OutageOptions {
        clusters: CLUSTERS,
        nodes: 12,
        timings,
        pod_stop: Duration::from_millis(500),
        simulated: false,
    };
    let outage = Outage::prepare(options).await.unwrap();
    let canary = Canary::start(&outage.seed.client).await.unwrap();
    let config = ProberConfigFile::gardener_targets(timings);
    let kubeconfig = outage.kubeconfig().unwrap();
    let prober = ProberProcess::start(&kubeconfig, &config, &[])
        .await
        .unwrap();
    for (cluster, _) in outage.clusters() {
        until_healthy(&prober, cluster).await;
    }

    let process = prober.kelpie.process();
    let before = LoadSnapshot::take(&outage, process).await.unwrap();
    let start = outage.begin().await.unwrap();
    let fences = outage.until_fenced(&start).await.unwrap();
    let restores = outage.recover().await.unwrap();
    let load = before.until(LoadSnapshot::take(&outage, process).await.unwrap());
    println!("{fences}\n{restores}\n{load}");

    let end = fences.end().unwrap();
    let baseline = canary.longest(start.partitioned_at, end, TIMEOUT).await;
    assert_eq!(fences.count(), CLUSTERS);
    // A fence may be as late as the canary's calls were slow.
    let late = fences.worst_delay();
    assert!(late <= baseline, "{late:?}, canary {baseline:?}");
    assert!(load.throttled() < 0.5, "{load}");
    for (cluster, replicas) in outage.clusters() {
        assert_one_fence_cycle(&outage, &cluster.name, replicas);
    }
}

/// Asserts that each target was fenced and restored once, with one write in each direction and no
/// others.
fn assert_one_fence_cycle(outage: &Outage, shoot: &str, counts: [(&'static str, u32); 3]) {
    let entries = outage.timeline.changes(shoot);
    for (name, count) in counts {
        let count = i32::try_from(count).unwrap();
        let record = Some(count.to_string());
        let expected = [
            (count, false, None),
            (0, true, record.clone()),
            (count, false, record),
        ];
        assert_eq!(states_of(&entries, name), expected, "{name} of {shoot}");
    }
}
