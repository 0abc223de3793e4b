//! A collector with the arguments of its Deployment, and its reports in the addon's status.

use kelpie_e2e::Kelpie;
use serde_json::Value;

use super::fixture::operator::{
    PLATFORM_COLLECTOR, container, create_inputs_with_hub_info, env_var, start_operator,
    until_deployment, until_reason,
};
use super::fixture::{AddonCluster, PLATFORM_STATUS, SpokeFixture, TIMEOUT, condition};
use crate::collector::fixture::{ScriptedServer, exposition, now_ms, until_ticks};

/// Starts the process of a Deployment's pod with an address and credentials that work in the test.
async fn start(spoke: &AddonCluster, deployment: &Value, rollout: &str) -> Kelpie {
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
        format!("--uid={}", env_var(deployment, "KELPIE_ADDON_UID")),
    ]);
    // An addon's interval is at least 15 s.
    for argument in &mut arguments {
        if argument.starts_with("--interval=") {
            "--interval=2s".clone_into(argument);
        }
    }
    Kelpie::start(&arguments).await.unwrap()
}

#[tokio::test]
async fn forwarding_decides_available_and_degraded() {
    let source = ScriptedServer::start(|_| (200, exposition("up", 3, now_ms()))).await;
    let hub = ScriptedServer::start(|_| (204, String::new())).await;
    let fixture = SpokeFixture::without_crd().await;
    let spoke = &fixture.spoke;
    let endpoint = format!("{}/api/v1/receive", hub.url());
    let info = format!("cluster-name: spoke-1\nobservatorium-api-endpoint: {endpoint}\n");
    create_inputs_with_hub_info(spoke, &info).await;
    let _status = fixture.start_status(&[]).await;
    let from = format!("--platform-url={}", source.url());
    let _operator = start_operator(spoke, &[&from, "--resync=1s"]).await;
    let deployment = until_deployment(spoke, PLATFORM_COLLECTOR, |_| true).await;
    until_reason(spoke, PLATFORM_STATUS, "UpdateSuccessful").await;
    spoke.until_condition("Progressing").await;

    // The pod of an older rollout forwards metrics, but its reports are ignored.
    let old = start(spoke, &deployment, "0123456789abcdef").await;
    until_ticks(&old, "success", 2.0).await;
    old.until_line(&["was not written"], TIMEOUT).await.unwrap();
    let reason = condition(&spoke.addon().await, PLATFORM_STATUS)["reason"].clone();
    assert_eq!(reason, "UpdateSuccessful");
    drop(old);

    let rollout = env_var(&deployment, "KELPIE_ADDON_ROLLOUT");
    let collector = start(spoke, &deployment, rollout).await;
    let available = spoke.until_condition("Available").await;
    let message = &condition(&available, PLATFORM_STATUS)["message"];
    assert_eq!(message, "metrics reach the hub");

    // Every tick reports the same success, so nothing is written.
    let version = |addon: &Value| addon["metadata"]["resourceVersion"].clone();
    until_ticks(&collector, "success", 3.0).await;
    assert_eq!(version(&spoke.addon().await), version(&available));

    hub.set_script(|_| (404, "no receiver".to_owned()));
    let degraded = spoke.until_condition("Degraded").await;
    let now = condition(&degraded, PLATFORM_STATUS);
    assert_eq!(now["reason"], "ForwardFailure");
    assert_eq!(now["message"], "hub: HTTP 404: no receiver");
    let failed = collector
        .metric("kelpie_collector_ticks_total{result=\"failure\"}")
        .await
        .unwrap();
    assert!(failed >= 3.0, "{failed}");

    hub.set_script(|_| (204, String::new()));
    spoke.until_condition("Available").await;
    assert_eq!(collector.stop().await.unwrap().code, Some(0));
}
