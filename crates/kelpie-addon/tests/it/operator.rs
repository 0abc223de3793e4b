//! The collectors that the operator deploys, and the status that it reports.

use std::time::Duration;

use kelpie_addon::OperatorOptions;
use kelpie_sim::resource::{CONFIG_MAPS, DEPLOYMENTS, SECRETS, SERVICES};
use kelpie_sim::server::FaultInjection;
use kelpie_sim::{StatusError, StatusReason, WriteScope};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::fixture::*;

const SECOND: Duration = Duration::from_secs(1);

/// The counter of reconciles without an error.
const CLEAN: &str = "operator_reconciles_total{result=\"clean\"}";

/// Starts a spoke with all inputs of the operator except user workloads.
fn spoke_with_inputs() -> ApiServer {
    let Fixture { spoke, .. } = Fixture::without_addons();
    spoke.create_inputs();
    spoke
}

#[tokio::test(start_paused = true)]
async fn startup_ends_available_and_then_writes_nothing() {
    let fixture = Fixture::without_addons();
    let Fixture { spoke, hub } = &fixture;
    spoke.create_inputs();
    spoke.create_uwl_prometheus();
    hub.create_addon(&json!({}));
    let mut history = spoke.history();
    let status = fixture.start_status(SECOND);
    let operator = start_operator(spoke, SECOND);
    spoke.until_condition("Progressing").await;
    let platform = spoke.until_deployment(PLATFORM_COLLECTOR, |_| true).await;
    let uwl = spoke.until_deployment(UWL_COLLECTOR, |_| true).await;
    let arguments = arguments(&platform);
    assert_eq!(
        arguments[..3],
        ["addon", "collector", "--component=platform"]
    );
    for argument in [
        "--to-upload=https://hub.example/api/v1/write",
        "--interval=300s",
        "--label=cluster=spoke-1",
        "--match={__name__=\"up\"}",
        "--match={__name__=~\"apiserver.*\"}",
    ] {
        assert!(arguments.contains(&argument), "{arguments:?}");
    }
    for (component, deployment) in [(PLATFORM, &platform), (UWL, &uwl)] {
        let written = spoke.report_from_pod(component, SUCCESS, deployment).await;
        written.unwrap();
    }
    spoke.until_condition("Available").await;
    hub.until_condition("Available").await;
    assert_eq!(
        history.checked_transitions(),
        ["-", "Progressing", "Available"]
    );

    // Pending work is done after two more reconciles.
    operator.until_grown(CLEAN, 2).await;
    let versions = || (spoke.store().version(), hub.store().version());
    let unchanged = "status_reconciles_total{result=\"unchanged\"}";
    let equal = "hub_syncs_total{result=\"equal\"}";
    let reconciles = || {
        [
            operator.metric(CLEAN),
            status.metric(unchanged),
            status.metric(equal),
        ]
    };
    let (version, before) = (versions(), reconciles());
    let since = [spoke, hub].map(ApiServer::request_count);
    sleep(5 * 60 * SECOND).await;
    // The Lease of the addon is renewed every minute.
    let renewals = 5;
    assert_eq!(versions(), (version.0 + renewals, version.1));
    for (before, now) in before.iter().zip(reconciles()) {
        assert!(now > before + 250, "{now} after {before}");
    }
    for (server, since) in [spoke, hub].into_iter().zip(since) {
        let requests = server.requests_since(since);
        let is_other_write = |request: &&_| is_write(request) && !is_apply(request);
        let writes: Vec<_> = requests.iter().filter(is_other_write).collect();
        assert!(writes.is_empty(), "{writes:?}");
        assert!(requests.len() > 250, "{}", requests.len());
    }
}

/// The operator's applies change nothing, but they are requests.
fn is_apply(request: &kelpie_sim::server::RequestInfo) -> bool {
    request.verb == "patch"
}

#[tokio::test(start_paused = true)]
async fn only_template_changes_start_rollouts() {
    let spoke = spoke_with_inputs();
    let operator = start_operator(&spoke, SECOND);
    let first = spoke.until_deployment(PLATFORM_COLLECTOR, |_| true).await;
    spoke
        .until_reason(PLATFORM_STATUS, "UpdateSuccessful")
        .await;
    let success = async |deployment: &Value| {
        let written = spoke.report_from_pod(PLATFORM, SUCCESS, deployment).await;
        written.unwrap();
    };
    success(&first).await;

    // A deleted Service is recreated, and the status does not change.
    spoke.delete(&SERVICES, PLATFORM_COLLECTOR);
    until("the Service", || spoke.get(&SERVICES, PLATFORM_COLLECTOR)).await;
    operator.until_grown(CLEAN, 2).await;
    let reason = || condition(&spoke.addon(), PLATFORM_STATUS)["reason"].clone();
    assert_eq!(reason(), "ForwardSuccessful");

    // A new interval starts a rollout, which a report of the old pod does not complete.
    spoke.modify_addon(|addon| addon["spec"]["interval"] = json!(60));
    spoke
        .until_reason(PLATFORM_STATUS, "UpdateSuccessful")
        .await;
    let second = spoke.until_deployment(PLATFORM_COLLECTOR, |deployment| {
        env_var(deployment, "KELPIE_ADDON_ROLLOUT") != env_var(&first, "KELPIE_ADDON_ROLLOUT")
    });
    let second = second.await;
    assert_refused(&spoke.report_from_pod(PLATFORM, SUCCESS, &first).await);
    success(&second).await;
    assert_eq!(reason(), "ForwardSuccessful");

    // A manual edit of the Deployment is reverted, which replaces the pods again.
    let image = container(&second)["image"].clone();
    let edit = |deployment: &mut Value| {
        deployment["spec"]["template"]["spec"]["containers"][0]["image"] = json!("mine");
    };
    let (store, scope) = (spoke.store(), WriteScope::Object);
    store
        .modify(&DEPLOYMENTS, NAMESPACE, PLATFORM_COLLECTOR, scope, edit)
        .unwrap();
    spoke
        .until_reason(PLATFORM_STATUS, "UpdateSuccessful")
        .await;
    let third = spoke.deployment(PLATFORM_COLLECTOR).unwrap();
    assert_eq!(container(&third)["image"], image);
    success(&third).await;
    operator.until_grown(CLEAN, 2).await;
    assert_eq!(reason(), "ForwardSuccessful");
}

#[tokio::test(start_paused = true)]
async fn disabled_metrics_stop_the_collector() {
    let spoke = spoke_with_inputs();
    let _status = start_status(&spoke, RESYNC);
    let _operator = start_operator(&spoke, RESYNC);
    let deployment = spoke.until_deployment(PLATFORM_COLLECTOR, |_| true).await;
    spoke.forward_until_available(&deployment).await;

    let enable = |on: bool| spoke.modify_addon(|addon| addon["spec"]["enableMetrics"] = json!(on));
    let with_replicas = |count| move |deployment: &Value| deployment["spec"]["replicas"] == count;
    enable(false);
    spoke.until_condition("Disabled").await;
    spoke
        .until_deployment(PLATFORM_COLLECTOR, with_replicas(0))
        .await;
    // Reports of the terminating pod are ignored.
    assert_refused(&spoke.report_from_pod(PLATFORM, FAILURE, &deployment).await);
    enable(true);
    spoke.until_condition("Progressing").await;
    let again = spoke.until_deployment(PLATFORM_COLLECTOR, with_replicas(1));
    let again = again.await;
    spoke
        .report_from_pod(PLATFORM, SUCCESS, &again)
        .await
        .unwrap();
    spoke.until_condition("Available").await;
}

#[tokio::test(start_paused = true)]
async fn collectors_follow_their_prometheus() {
    let spoke = spoke_with_inputs();
    let _status = start_status(&spoke, RESYNC);
    let _operator = start_operator(&spoke, RESYNC);
    spoke.until_condition("Progressing").await;
    spoke.until_deployment(PLATFORM_COLLECTOR, |_| true).await;
    spoke.delete_prometheus();
    let addon = spoke.until_condition("NotSupported").await;
    let text = message(&addon, PLATFORM_STATUS);
    assert!(
        text.contains("prometheus-k8s in namespace openshift-monitoring"),
        "{text}"
    );
    let is_gone = |collector| spoke.deployment(collector).is_none();
    until("the collector's deletion", || {
        is_gone(PLATFORM_COLLECTOR).then_some(())
    })
    .await;
    spoke.create_prometheus();
    spoke.until_condition("Progressing").await;
    spoke.until_deployment(PLATFORM_COLLECTOR, |_| true).await;

    // User workloads are added and removed.
    spoke.create_uwl_prometheus();
    let uwl = spoke.until_deployment(UWL_COLLECTOR, |_| true).await;
    spoke.until_reason(UWL_STATUS, "UpdateSuccessful").await;
    spoke.report_from_pod(UWL, FAILURE, &uwl).await.unwrap();
    spoke.until_condition("Degraded").await;
    spoke.delete_uwl_prometheus();
    until("the removal of collector and condition", || {
        let addon = spoke.addon();
        let is_gone = is_gone(UWL_COLLECTOR) && condition(&addon, UWL_STATUS).is_null();
        (is_gone && addon["status"]["rollouts"].get("uwl").is_none()).then_some(())
    })
    .await;
    spoke.until_condition("Progressing").await;
}

#[tokio::test(start_paused = true)]
async fn missing_inputs_are_reported_until_fixed() {
    let spoke = spoke_with_inputs();
    spoke.delete(&SECRETS, HUB_INFO_SECRET);
    let _operator = start_operator(&spoke, RESYNC);
    let until_message = async |words: &str| {
        until(words, || {
            let addon = spoke.addon();
            let is_failure = condition(&addon, PLATFORM_STATUS)["reason"] == "UpdateFailure";
            (is_failure && message(&addon, PLATFORM_STATUS).contains(words)).then_some(())
        })
        .await;
    };
    until_message("there is no Secret hub-info-secret").await;
    assert_eq!(spoke.deployment(PLATFORM_COLLECTOR), None);
    spoke.create_hub_info("cluster-name: a\nobservatorium-api-endpoint: nonsense\n");
    until_message("is not an http(s) URL").await;
    spoke.delete(&SECRETS, HUB_INFO_SECRET);
    spoke.create_hub_info(HUB_INFO);
    spoke
        .until_reason(PLATFORM_STATUS, "UpdateSuccessful")
        .await;
    spoke.delete(&CONFIG_MAPS, ALLOWLIST);
    until_message("there is no ConfigMap observability-metrics-allowlist").await;
    let deployment = spoke.deployment(PLATFORM_COLLECTOR);
    assert!(deployment.is_some(), "the Deployment stays");
    spoke.create_allowlist();
    spoke
        .until_reason(PLATFORM_STATUS, "UpdateSuccessful")
        .await;
}

#[tokio::test(start_paused = true)]
async fn without_status_nothing_is_reported() {
    let spoke = spoke_with_inputs();
    let without_status = OperatorOptions {
        no_status: true,
        ..OperatorOptions::default()
    };
    let operator = start_operator_with(&spoke, options(SECOND), without_status);
    let deployment = spoke.until_deployment(PLATFORM_COLLECTOR, |_| true).await;
    let arguments = arguments(&deployment);
    assert!(arguments.contains(&"--no-status"), "{arguments:?}");
    operator.until_grown(CLEAN, 2).await;
    assert_eq!(spoke.addon().get("status"), None);
}

#[tokio::test(start_paused = true)]
async fn dry_run_writes_nothing() {
    let spoke = spoke_with_inputs();
    let operator = start_operator_with(&spoke, dry_run(SECOND), OperatorOptions::default());
    operator.until_grown(CLEAN, 2).await;
    // A missing permission is not reported in the status either.
    spoke.set_rule(|request| match &request.resource {
        Some(resource) if *resource == SECRETS => {
            FaultInjection::reject(StatusError::new(StatusReason::Forbidden, "injected"))
        }
        _ => FaultInjection::default(),
    });
    let failing = "operator_reconciles_total{result=\"failing\"}";
    operator.until_grown(failing, 2).await;
    let writes: Vec<_> = spoke
        .requests_since(0)
        .into_iter()
        .filter(is_write)
        .collect();
    assert!(writes.is_empty(), "{writes:?}");
    assert_eq!(spoke.addon().get("status"), None);
}
