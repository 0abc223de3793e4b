//! Inputs of the operator that are broken, or that cannot be read for a while.

use std::time::Duration;

use kelpie_sim::resource::{CONFIG_MAPS, SECRETS};
use kelpie_sim::server::FaultInjection;
use kelpie_sim::{GroupResource, StatusError, StatusReason};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::fixture::*;

/// Rejects all requests of the operator for this resource.
fn reject(spoke: &ApiServer, resource: GroupResource, reason: StatusReason) {
    spoke.set_rule(move |request| {
        let is_rejected =
            request.user.name == "operator" && request.resource.as_ref() == Some(&resource);
        if is_rejected && request.verb == "get" {
            FaultInjection::reject(StatusError::new(reason, "injected"))
        } else {
            FaultInjection::default()
        }
    });
}

/// Breaks an input of the operator.
type Breakage = fn(&ApiServer);

/// Starts a spoke whose addon is Available.
async fn available_spoke() -> (ApiServer, [Process; 2]) {
    let Fixture { spoke, .. } = Fixture::without_addons();
    spoke.create_inputs();
    let processes = [start_status(&spoke, RESYNC), start_operator(&spoke, RESYNC)];
    make_available(&spoke).await;
    (spoke, processes)
}

async fn make_available(spoke: &ApiServer) {
    let with_replica = |found: &serde_json::Value| found["spec"]["replicas"] == 1;
    let deployment = spoke.until_deployment(PLATFORM_COLLECTOR, with_replica);
    let deployment = deployment.await;
    spoke.set_pod_ready(PLATFORM_COLLECTOR, true);
    spoke.forward_until_available(&deployment).await;
}

#[tokio::test(start_paused = true)]
async fn disabled_collector_stops_with_broken_inputs() {
    let breakages: [(&str, Breakage); 5] = [
        ("no hub", |spoke| spoke.delete(&SECRETS, HUB_INFO_SECRET)),
        ("no allowlist", |spoke| {
            spoke.delete(&CONFIG_MAPS, ALLOWLIST);
        }),
        ("no Prometheus", ApiServer::delete_prometheus),
        ("no permission", |spoke| {
            reject(spoke, SECRETS, StatusReason::Forbidden);
        }),
        ("no answer", |spoke| {
            reject(spoke, CONFIG_MAPS, StatusReason::ServiceUnavailable);
        }),
    ];
    for (name, breakage) in breakages {
        let (spoke, _processes) = available_spoke().await;
        let mut history = spoke.history();
        breakage(&spoke);
        spoke.modify_addon(|addon| addon["spec"]["enableMetrics"] = json!(false));
        let is_stopped = |found: &serde_json::Value| found["spec"]["replicas"] == 0;
        spoke.until_deployment(PLATFORM_COLLECTOR, is_stopped).await;
        spoke.until_condition("Disabled").await;
        sleep(2 * RESYNC).await;
        let transitions = history.checked_transitions();
        assert_eq!(transitions, ["Available", "Disabled"], "{name}");
        let deployment = spoke.deployment(PLATFORM_COLLECTOR).unwrap();
        assert!(is_stopped(&deployment), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn disabled_collector_starts_again() {
    let (spoke, _processes) = available_spoke().await;
    spoke.modify_addon(|addon| addon["spec"]["enableMetrics"] = json!(false));
    spoke.until_condition("Disabled").await;
    let is_stopped = |found: &serde_json::Value| found["spec"]["replicas"] == 0;
    spoke.until_deployment(PLATFORM_COLLECTOR, is_stopped).await;
    spoke.modify_addon(|addon| {
        addon["spec"]["enableMetrics"] = json!(true);
        addon["spec"]["interval"] = json!(60);
    });
    make_available(&spoke).await;
    let deployment = spoke.deployment(PLATFORM_COLLECTOR).unwrap();
    assert!(arguments(&deployment).contains(&"--interval=60s"));
}

#[tokio::test(start_paused = true)]
async fn lasting_error_of_an_input_is_reported() {
    let (spoke, _processes) = available_spoke().await;
    let started = Instant::now();
    reject(&spoke, SECRETS, StatusReason::InternalError);
    let failed = spoke.until_reason(PLATFORM_STATUS, "UpdateFailure");
    let failed = tokio::time::timeout(Duration::from_mins(20), async {
        sleep(Duration::from_mins(10)).await;
        failed.await
    });
    let failed = failed.await.unwrap();
    let text = failed["message"].as_str().unwrap();
    assert!(text.contains("Secret"), "{text}");
    assert!(started.elapsed() >= Duration::from_mins(10));
    spoke.until_condition("Degraded").await;
    spoke.clear_rule();
    make_available(&spoke).await;
}
