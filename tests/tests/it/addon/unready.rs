//! Collectors whose pods do not come up, under Kubernetes' own controllers; we are the kubelet.

use kelpie_e2e::landscape::rest;
use kelpie_e2e::{ControllerManager, poll};
use serde_json::{Value, json};

use super::collectors::{
    PLATFORM, core, operator, speak, spoke, until_deployment, until_passes, until_reason,
};
use super::stage::{Cluster, M, PATIENCE};

/// The shortest interval there is; twice that is the shortest patience.
const INTERVAL: u64 = 15;

async fn pod(spoke: &Cluster) -> String {
    let label = format!("?labelSelector=app.kubernetes.io/name%3D{PLATFORM}");
    let path = format!("{}{label}", core("pods"));
    let name = poll::until("a pod", PATIENCE, async || {
        let pods = rest::read(&spoke.client, &path).await?;
        let name = pods["items"][0]["metadata"]["name"].as_str();
        Ok(name.map(str::to_owned))
    });
    name.await.unwrap()
}

/// What the kubelet says of a pod.
async fn say(spoke: &Cluster, pod: &str, ready: bool, state: &Value) {
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
    let path = format!("{}/{pod}/status", core("pods"));
    rest::merge(&spoke.client, &path, &status).await.unwrap();
}

fn seconds(condition: &Value) -> i64 {
    let time = condition["lastTransitionTime"].as_str().unwrap();
    time.parse::<k8s_openapi::jiff::Timestamp>()
        .unwrap()
        .as_second()
}

#[tokio::test]
async fn a_collector_without_a_ready_pod_fails_with_the_pods_reason_until_it_is_ready() {
    let stage = spoke().await;
    let spoke = &stage.spoke;
    let controllers = ["deployment-controller", "replicaset-controller"];
    let manager = ControllerManager::start(&spoke.api, &controllers, &[]).await;
    let _manager = manager.unwrap();
    let patch = json!({ "spec": { "interval": INTERVAL } });
    rest::merge(&spoke.client, &spoke.path(), &patch)
        .await
        .unwrap();
    let history = spoke.history().await;
    let _status = stage.status(&[]).await;
    let flags = ["--ready-within=1s", "--resync=1h"];
    let first = operator(spoke, &flags).await;
    spoke.until("Progressing").await;
    let announced = until_reason(spoke, M, "UpdateSuccessful").await;
    let deployment = until_deployment(spoke, PLATFORM, |_| true).await;
    let pod = pod(spoke).await;
    let waiting =
        json!({ "waiting": { "reason": "ImagePullBackOff", "message": "no such image" } });
    say(spoke, &pod, false, &waiting).await;

    let failed = until_reason(spoke, M, "UpdateFailure").await;
    assert_eq!(
        failed["message"],
        format!("no pod is ready of Deployment {PLATFORM}: ImagePullBackOff: no such image")
    );
    // Times in a status have no fractions.
    let took = seconds(&failed) - seconds(&announced);
    assert!(took >= i64::try_from(2 * INTERVAL).unwrap() - 1, "{took} s");
    spoke.until("Degraded").await;
    // Nobody has forgotten it who starts anew, and the pod has no say.
    first.stop().await.unwrap();
    let second = operator(spoke, &["--ready-within=1s", "--resync=300ms"]).await;
    until_passes(&second, 3.0).await;
    let (code, said) = speak(spoke, "platform", "ForwardSuccessful", &deployment).await;
    assert_eq!(code, Some(3), "{said}");
    until_reason(spoke, M, "UpdateFailure").await;

    let running = json!({ "running": { "startedAt": "2023-11-14T22:13:20Z" } });
    say(spoke, &pod, true, &running).await;
    until_reason(spoke, M, "UpdateSuccessful").await;
    spoke.until("Progressing").await;
    let (code, said) = speak(spoke, "platform", "ForwardSuccessful", &deployment).await;
    assert_eq!(code, Some(0), "{said}");
    let last = spoke.until("Available").await;
    until_passes(&second, 3.0).await;
    history.until_seen(&last).await;
    let seen = ["-", "Progressing", "Degraded", "Progressing", "Available"];
    assert_eq!(history.standings(), seen);
}
