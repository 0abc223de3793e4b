//! OpenShift, which the operator detects by the version of the cluster.

use std::time::Duration;

use kelpie_sim::resource::DEFINITIONS;
use kelpie_sim::server::FaultInjection;
use kelpie_sim::{GroupResource, StatusError, StatusReason};
use serde_json::json;
use tokio::time::sleep;

use crate::fixture::*;

const SECOND: Duration = Duration::from_secs(1);

const VERSIONS: GroupResource =
    GroupResource::from_static("config.openshift.io", "clusterversions");

fn become_openshift(spoke: &ApiServer) {
    let crd = json!({
        "metadata": { "name": VERSIONS.to_string() },
        "spec": {
            "group": VERSIONS.group(),
            "names": { "kind": "ClusterVersion", "plural": VERSIONS.plural() },
            "scope": "Cluster",
            "versions": [{ "name": "v1", "served": true, "storage": true }],
        },
    });
    spoke.store().create(&DEFINITIONS, "", crd).unwrap();
    let version = json!({ "metadata": { "name": "version" }, "spec": { "clusterID": "6f1b" } });
    spoke.store().create(&VERSIONS, "", version).unwrap();
}

#[tokio::test(start_paused = true)]
async fn missing_service_and_failing_reads_change_nothing() {
    let Fixture { spoke, .. } = Fixture::without_addons();
    spoke.create_inputs();
    become_openshift(&spoke);
    let _status = start_status(&spoke, RESYNC);
    let _operator = start_operator(&spoke, SECOND);
    let first = spoke.until_deployment(PLATFORM_COLLECTOR, |_| true).await;
    let passed = arguments(&first);
    for argument in [
        "--label=cluster=spoke-1",
        "--label=clusterID=6f1b",
        "--from-query=https://thanos-querier.openshift-monitoring.svc:9091",
    ] {
        assert!(passed.contains(&argument), "{passed:?}");
    }
    spoke.set_pod_ready(PLATFORM_COLLECTOR, true);
    spoke.forward_until_available(&first).await;
    let mut history = spoke.history();
    for reason in [
        StatusReason::Forbidden,
        StatusReason::NotFound,
        StatusReason::ServiceUnavailable,
    ] {
        spoke.set_rule(move |request| match &request.resource {
            Some(resource) if *resource == VERSIONS => {
                FaultInjection::reject(StatusError::new(reason, "injected"))
            }
            _ => FaultInjection::default(),
        });
        sleep(5 * SECOND).await;
    }
    spoke.clear_rule();
    spoke.delete_prometheus();
    sleep(60 * SECOND).await;
    let last = spoke.deployment(PLATFORM_COLLECTOR).unwrap();
    assert_eq!(last["spec"], first["spec"]);
    assert_eq!(last["metadata"]["uid"], first["metadata"]["uid"]);
    assert_eq!(history.checked_transitions(), ["Available"]);
}

#[tokio::test(start_paused = true)]
async fn elsewhere_a_cluster_without_prometheus_is_not_supported() {
    let Fixture { spoke, .. } = Fixture::without_addons();
    spoke.create_inputs();
    let _status = start_status(&spoke, RESYNC);
    let _operator = start_operator(&spoke, SECOND);
    let deployment = spoke.until_deployment(PLATFORM_COLLECTOR, |_| true).await;
    assert!(arguments(&deployment).contains(&"--label=clusterID=spoke-1"));
    spoke.delete_prometheus();
    spoke.until_condition("NotSupported").await;
}

#[tokio::test(start_paused = true)]
async fn first_installation_without_a_ready_pod_is_degraded_after_five_minutes() {
    let Fixture { spoke, .. } = Fixture::without_addons();
    spoke.create_inputs();
    let _status = start_status(&spoke, RESYNC);
    let _operator = start_operator(&spoke, RESYNC);
    spoke.until_condition("Progressing").await;
    sleep(290 * SECOND).await;
    assert_eq!(true_conditions(&spoke.addon()), ["Progressing"]);
    sleep(20 * SECOND).await;
    assert_eq!(true_conditions(&spoke.addon()), ["Degraded"]);
}

#[tokio::test(start_paused = true)]
async fn lease_of_the_addon_is_renewed_every_minute() {
    let Fixture { spoke, .. } = Fixture::without_addons();
    let _status = start_status(&spoke, RESYNC);
    let renewed = || {
        let lease = spoke.get(&kelpie_sim::resource::LEASES, "observability-controller");
        lease.map(|lease| lease["spec"]["renewTime"].as_str().unwrap().to_owned())
    };
    sleep(SECOND).await;
    let mut last = renewed().unwrap();
    for _ in 0..3 {
        sleep(61 * SECOND).await;
        let now = renewed().unwrap();
        assert!(now > last, "{now} after {last}");
        last = now;
    }
}
