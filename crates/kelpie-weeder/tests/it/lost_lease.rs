//! A replica that loses its Lease and gets it back.

use std::time::Duration;

use kelpie_kube::leader::ElectionSettings;
use kelpie_sim::resource::PODS;
use kelpie_sim::scenario::{Fault, FaultSite, Incident, Scenario};
use kelpie_sim::{Landscape, LandscapePlan, WriteScope};
use kelpie_weeder::WeederOptions;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::fixture::Fixture;
use crate::replica::{single_replica, weeder};

const SECOND: Duration = Duration::from_secs(1);

/// Creates a pod that depends on etcd and crash-loops whether etcd is there or not. Returns false
/// if it already exists.
fn create_crashing_pod(landscape: &Landscape) -> bool {
    let pod = json!({
        "metadata": {
            "name": "hopeless-0",
            "labels": { "gardener.cloud/role": "controlplane", "role": "apiserver" },
            "ownerReferences": [{
                "apiVersion": "apps/v1",
                "kind": "StatefulSet",
                "name": "hopeless",
                "uid": "hopeless",
                "controller": true,
            }],
        },
        "spec": { "containers": [{ "name": "main", "image": "main" }] },
    });
    let (seed, namespace) = (landscape.seed(), LandscapePlan::default().cluster_name(0));
    if seed.store().create(&PODS, &namespace, pod).is_err() {
        return false;
    }
    let crash = |pod: &mut Value| {
        pod["status"]["containerStatuses"] = json!([{
            "name": "main",
            "restartCount": 7,
            "state": { "waiting": { "reason": "CrashLoopBackOff" } },
        }]);
    };
    let scope = WriteScope::Status;
    let updated = seed
        .store()
        .modify(&PODS, &namespace, "hopeless-0", scope, crash);
    updated.is_ok()
}

/// Recreates the pod for as long as it lasts, and returns how often it was deleted.
async fn recreate(landscape: &Landscape, time: Duration) -> usize {
    let start = Instant::now();
    let mut deletions = 0;
    while start.elapsed() < time {
        sleep(SECOND).await;
        deletions += usize::from(create_crashing_pod(landscape));
    }
    deletions
}

#[tokio::test(start_paused = true)]
async fn short_loss_keeps_the_cap() {
    let fixture = Fixture::new(1);
    // Longer than the renew deadline.
    let outage = |at| {
        Incident::new(
            at * SECOND,
            Some(14 * SECOND),
            Fault::Outage(FaultSite::Seed),
        )
    };
    fixture.landscape.play(&Scenario {
        incidents: [100, 130, 160, 190, 400, 430].map(outage).into(),
        ..Scenario::default()
    });
    create_crashing_pod(&fixture.landscape);
    let options = WeederOptions {
        election: Some(ElectionSettings {
            namespace: "garden".into(),
            name: "dwd-weeder-leader-election".into(),
            identity: "weeder-0".into(),
            lease_duration: 15 * SECOND,
            renew_deadline: 10 * SECOND,
            retry_period: 2 * SECOND,
        }),
        ..single_replica("weeder-0")
    };
    let weeder = weeder(&fixture.landscape, options);
    assert_eq!(
        recreate(&fixture.landscape, 90 * SECOND).await,
        3,
        "the cap"
    );
    let later = recreate(&fixture.landscape, 600 * SECOND).await;
    assert_eq!(later, 0, "the service has not recovered again");
    weeder.stop().await.unwrap();
}
