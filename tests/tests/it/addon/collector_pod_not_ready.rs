//! Collectors whose pods do not become ready. Kubernetes' controllers are real, and the test plays
//! the kubelet.

use kelpie_e2e::landscape::rest;
use kelpie_e2e::{KubeControllerManager, poll};
use serde_json::{Value, json};

use super::fixture::operator::{
    PLATFORM_COLLECTOR, core_path, report_from_pod, spoke_with_inputs, start_operator,
    until_deployment, until_reason, until_reconciles,
};
use super::fixture::{AddonCluster, PLATFORM_STATUS, TIMEOUT};

/// The shortest interval that the CRD allows. The operator waits at least twice as long for a pod.
const INTERVAL: u64 = 15;

/// Waits for a pod of the platform collector, and returns its name.
async fn until_pod(spoke: &AddonCluster) -> String {
    let label = format!("?labelSelector=app.kubernetes.io/name%3D{PLATFORM_COLLECTOR}");
    let path = format!("{}{label}", core_path("pods"));
    let name = poll::until("a pod", TIMEOUT, async || {
        let pods = rest::get(&spoke.client, &path).await?;
        let name = pods["items"][0]["metadata"]["name"].as_str();
        Ok(name.map(str::to_owned))
    });
    name.await.unwrap()
}

/// Updates a pod's status as the kubelet would.
async fn set_pod_status(spoke: &AddonCluster, pod: &str, ready: bool, state: &Value) {
    let status = json!({ "status": {
        "phase": if ready { "Running" } else { "Pending" },
        "conditions": [{ "type": "Ready", "status": if ready { "True" } else { "False" } }],
        "containerStatuses": [{
            "name": "collector",
            "image": "kelpie:test",
            "imageID": "",
            "ready": ready,
            "restartCount": 0,
            "state": state,
        }],
    } });
    let path = format!("{}/{pod}/status", core_path("pods"));
    rest::merge_patch(&spoke.client, &path, &status)
        .await
        .unwrap();
}

fn seconds(condition: &Value) -> i64 {
    let time = condition["lastTransitionTime"].as_str().unwrap();
    time.parse::<k8s_openapi::jiff::Timestamp>()
        .unwrap()
        .as_second()
}

#[tokio::test]
async fn pod_that_is_not_ready_degrades_addon() {
    let fixture = spoke_with_inputs().await;
    let spoke = &fixture.spoke;
    let controllers = ["deployment-controller", "replicaset-controller"];
    let manager = KubeControllerManager::start(&spoke.api, &controllers, &[]).await;
    let _manager = manager.unwrap();
    let patch = json!({ "spec": { "interval": INTERVAL } });
    rest::merge_patch(&spoke.client, &spoke.addon_path(), &patch)
        .await
        .unwrap();
    let history = spoke.status_history().await;
    let _status = fixture.start_status(&[]).await;
    let flags = ["--ready-within=1s", "--resync=1h"];
    let first = start_operator(spoke, &flags).await;
    spoke.until_condition("Progressing").await;
    let announced = until_reason(spoke, PLATFORM_STATUS, "UpdateSuccessful").await;
    let deployment = until_deployment(spoke, PLATFORM_COLLECTOR, |_| true).await;
    let pod = until_pod(spoke).await;
    let waiting =
        json!({ "waiting": { "reason": "ImagePullBackOff", "message": "no such image" } });
    set_pod_status(spoke, &pod, false, &waiting).await;

    let failed = until_reason(spoke, PLATFORM_STATUS, "UpdateFailure").await;
    assert_eq!(
        failed["message"],
        format!(
            "no pod is ready of Deployment {PLATFORM_COLLECTOR}: ImagePullBackOff: no such image"
        )
    );
    // Timestamps in a status have no fractional seconds.
    let took = seconds(&failed) - seconds(&announced);
    assert!(took >= i64::try_from(2 * INTERVAL).unwrap() - 1, "{took} s");
    spoke.until_condition("Degraded").await;
    // A restarted operator keeps the failure, and the pod's reports are ignored.
    first.stop().await.unwrap();
    let second = start_operator(spoke, &["--ready-within=1s", "--resync=300ms"]).await;
    until_reconciles(&second, 3.0).await;
    let (code, output) = report_from_pod(spoke, "platform", "ForwardSuccessful", &deployment).await;
    assert_eq!(code, Some(3), "{output}");
    until_reason(spoke, PLATFORM_STATUS, "UpdateFailure").await;

    let running = json!({ "running": { "startedAt": "2023-11-14T22:13:20Z" } });
    set_pod_status(spoke, &pod, true, &running).await;
    until_reason(spoke, PLATFORM_STATUS, "UpdateSuccessful").await;
    spoke.until_condition("Progressing").await;
    let (code, output) = report_from_pod(spoke, "platform", "ForwardSuccessful", &deployment).await;
    assert_eq!(code, Some(0), "{output}");
    let last = spoke.until_condition("Available").await;
    until_reconciles(&second, 3.0).await;
    history.until_recorded(&last).await;
    let transitions = ["-", "Progressing", "Degraded", "Progressing", "Available"];
    assert_eq!(history.checked_transitions(), transitions);
}
