//! Collectors whose pods do not become ready. The test plays the kubelet and the Deployment
//! controller.

use std::time::Duration;

use kelpie_addon::OperatorOptions;
use kelpie_sim::WriteScope;
use kelpie_sim::resource::PODS;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::fixture::*;

/// The interval of the collectors. The operator waits at least twice as long for a pod.
const INTERVAL: Duration = Duration::from_secs(15);

const CLEAN: &str = "operator_reconciles_total{result=\"clean\"}";

#[tokio::test(start_paused = true)]
async fn pod_that_is_not_ready_degrades_addon() {
    let Fixture { spoke, .. } = Fixture::without_addons();
    spoke.create_inputs();
    spoke.modify_addon(|addon| addon["spec"]["interval"] = json!(INTERVAL.as_secs()));
    let mut history = spoke.history();
    let _status = start_status(&spoke, RESYNC);
    let operator = OperatorOptions {
        ready_within: Duration::from_secs(1),
        ..OperatorOptions::default()
    };
    let resync = options(Duration::from_hours(1));
    let first = start_operator_with(&spoke, resync, operator.clone());
    spoke.until_condition("Progressing").await;
    let deployment = spoke.until_deployment(PLATFORM_COLLECTOR, |_| true).await;
    spoke
        .until_reason(PLATFORM_STATUS, "UpdateSuccessful")
        .await;
    let started = Instant::now();
    let labels = &deployment["spec"]["template"]["metadata"]["labels"];
    spoke.create(
        &PODS,
        json!({ "metadata": { "name": "pod", "labels": labels } }),
    );
    let waiting = json!({ "reason": "ImagePullBackOff", "message": "no such image" });
    let set_status = |pod: &mut Value| {
        pod["status"]["containerStatuses"] = json!([{ "state": { "waiting": waiting } }]);
    };
    let (store, scope) = (spoke.store(), WriteScope::Status);
    store
        .modify(&PODS, NAMESPACE, "pod", scope, set_status)
        .unwrap();
    spoke.set_pod_ready(PLATFORM_COLLECTOR, false);

    let failed = spoke.until_reason(PLATFORM_STATUS, "UpdateFailure").await;
    let expected = format!(
        "no pod is ready of Deployment {PLATFORM_COLLECTOR}: ImagePullBackOff: no such image"
    );
    assert_eq!(failed["message"], expected);
    let took = started.elapsed();
    let second = Duration::from_secs(1);
    assert!(took.abs_diff(2 * INTERVAL) < second, "{took:?}");
    spoke.until_condition("Degraded").await;
    // A restarted operator keeps the failure, and the pod's reports are ignored.
    first.stop().await;
    let second = start_operator_with(&spoke, options(second), operator);
    second.until_grown(CLEAN, 3).await;
    assert_refused(&spoke.report_from_pod(PLATFORM, SUCCESS, &deployment).await);
    let reason = condition(&spoke.addon(), PLATFORM_STATUS)["reason"].clone();
    assert_eq!(reason, "UpdateFailure");

    spoke.set_pod_ready(PLATFORM_COLLECTOR, true);
    spoke
        .until_reason(PLATFORM_STATUS, "UpdateSuccessful")
        .await;
    spoke.until_condition("Progressing").await;
    let written = spoke.report_from_pod(PLATFORM, SUCCESS, &deployment).await;
    written.unwrap();
    spoke.until_condition("Available").await;
    second.until_grown(CLEAN, 3).await;
    let transitions = ["-", "Progressing", "Degraded", "Progressing", "Available"];
    assert_eq!(history.checked_transitions(), transitions);
}
