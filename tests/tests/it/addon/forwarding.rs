//! The collector itself, started as its Deployment says, and its word in the status.

use kelpie_e2e::Kelpie;
use serde_json::{Value, json};

use super::collectors::{
    PLATFORM, allowlist, container, environment, hub_info, operator, prometheus, until_deployment,
    until_reason,
};
use super::stage::{Alone, Cluster, M, PATIENCE, condition, definition};
use crate::collector::stage::{Scripted, lines, now_ms, until_ticks};

/// The command line of a Deployment's pod, with an address and credentials that work here.
async fn start(spoke: &Cluster, deployment: &Value, rollout: &str) -> Kelpie {
    let arguments = container(deployment)["args"].as_array().unwrap().iter();
    let mut arguments: Vec<String> = arguments
        .filter_map(Value::as_str)
        .filter(|argument| !argument.starts_with("--listen"))
        .map(str::to_owned)
        .collect();
    arguments.extend([
        "--listen=127.0.0.1:0".to_owned(),
        "--degrade-after=4s".to_owned(),
        "--log-level=debug".to_owned(),
        format!("--kubeconfig={}", spoke.kubeconfig().display()),
        format!("--rollout={rollout}"),
        format!("--uid={}", environment(deployment, "KELPIE_ADDON_UID")),
    ]);
    // A pod's interval is 15 s at least.
    for argument in &mut arguments {
        if argument.starts_with("--interval=") {
            "--interval=2s".clone_into(argument);
        }
    }
    Kelpie::start(&arguments).await.unwrap()
}

#[tokio::test]
async fn a_collector_started_as_its_deployment_says_makes_the_addon_available_and_degraded() {
    let source = Scripted::start(|_| (200, lines("up", 3, now_ms()))).await;
    let hub = Scripted::start(|_| (204, String::new())).await;
    let stage = Alone::bare().await;
    let spoke = &stage.spoke;
    spoke.install(&definition().await).await;
    spoke.namespace("openshift-monitoring").await;
    spoke.namespace("openshift-user-workload-monitoring").await;
    let endpoint = format!("{}/api/v1/receive", hub.url());
    let info = format!("cluster-name: spoke-1\nobservatorium-api-endpoint: {endpoint}\n");
    hub_info(spoke, &info).await;
    allowlist(spoke).await;
    prometheus(spoke).await;
    spoke.create_addon(&json!({})).await;
    let _status = stage.status(&[]).await;
    let from = format!("--platform-url={}", source.url());
    let _operator = operator(spoke, &[&from, "--resync=1s"]).await;
    let deployment = until_deployment(spoke, PLATFORM, |_| true).await;
    until_reason(spoke, M, "UpdateSuccessful").await;
    spoke.until("Progressing").await;

    // The pod of an older rollout forwards, and has no say.
    let old = start(spoke, &deployment, "0123456789abcdef").await;
    until_ticks(&old, "success", 2.0).await;
    old.until_line(&["was not taken"], PATIENCE).await.unwrap();
    let reason = condition(&spoke.addon().await, M)["reason"].clone();
    assert_eq!(reason, "UpdateSuccessful");
    drop(old);

    let rollout = environment(&deployment, "KELPIE_ADDON_ROLLOUT");
    let collector = start(spoke, &deployment, rollout).await;
    let available = spoke.until("Available").await;
    let said = &condition(&available, M)["message"];
    assert_eq!(said, "metrics reach the hub");

    // A success says the same at every tick: nothing is written.
    let version = |addon: &Value| addon["metadata"]["resourceVersion"].clone();
    until_ticks(&collector, "success", 3.0).await;
    assert_eq!(version(&spoke.addon().await), version(&available));

    hub.change(|_| (404, "no receiver".to_owned()));
    let degraded = spoke.until("Degraded").await;
    let now = condition(&degraded, M);
    assert_eq!(now["reason"], "ForwardFailure");
    assert_eq!(now["message"], "the hub: it answered 404: no receiver");
    let failed = collector
        .metric("kelpie_collector_ticks_total{result=\"failure\"}")
        .await
        .unwrap();
    assert!(failed >= 3.0, "{failed}");

    hub.change(|_| (204, String::new()));
    spoke.until("Available").await;
    assert_eq!(collector.stop().await.unwrap().code, Some(0));
}
