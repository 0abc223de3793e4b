//! Addons under a CRD of another version: fields that it does not store, and values that Kelpie
//! cannot read.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use crate::fixture::*;

const SECOND: Duration = Duration::from_secs(1);

/// The gauges of the fields that cannot be used.
const IGNORED_IN_SPEC: &str = "operator_ignored_fields{part=\"spec\"}";
const IGNORED_IN_STATUS: &str = "operator_ignored_fields{part=\"status\"}";

async fn until_ignored(operator: &Process, series: &str, count: u64) {
    until(series, || (operator.metric(series) == count).then_some(())).await;
}

#[tokio::test(start_paused = true)]
async fn schema_without_rollouts_does_not_flap() {
    let Fixture { spoke, .. } = Fixture::without_addons();
    spoke.modify_schema(|properties| {
        let status = properties["status"]["properties"].as_object_mut();
        status.unwrap().remove("rollouts").unwrap();
    });
    spoke.create_inputs();
    let _status = start_status(&spoke, RESYNC);
    let mut operator = start_operator(&spoke, SECOND);
    let first = spoke.until_deployment(PLATFORM_COLLECTOR, |_| true).await;
    spoke.forward_until_available(&first).await;
    assert_eq!(spoke.addon()["status"].get("rollouts"), None);
    until_ignored(&operator, IGNORED_IN_STATUS, 1).await;
    let state = operator.state().await;
    let warning = state["warnings"][0].as_str().unwrap();
    assert!(warning.contains("status.rollouts"), "{warning}");

    let mut history = spoke.history();
    for _restart in 0..3 {
        sleep(60 * SECOND).await;
        operator.stop().await;
        operator = start_operator(&spoke, SECOND);
    }
    sleep(60 * SECOND).await;
    assert_eq!(history.checked_transitions(), ["Available"]);

    // Real rollouts are announced all the same.
    spoke.modify_addon(|addon| addon["spec"]["interval"] = json!(60));
    spoke.until_condition("Progressing").await;
    let second = spoke.until_deployment(PLATFORM_COLLECTOR, |_| true).await;
    assert!(arguments(&second).contains(&"--interval=60s"));
    let written = spoke.report_from_pod(PLATFORM, SUCCESS, &second).await;
    written.unwrap();
    spoke.until_condition("Available").await;
}

#[tokio::test(start_paused = true)]
async fn unreadable_field_leaves_the_others() {
    let Fixture { spoke, .. } = Fixture::without_addons();
    spoke.create_inputs();
    spoke.modify_addon(|addon| {
        addon["spec"] = json!({
            "enableMetrics": true,
            "interval": 60,
            "scrapeSizeLimitBytes": -1,
            "workers": "many",
        });
    });
    let operator = start_operator(&spoke, RESYNC);
    let deployment = spoke.until_deployment(PLATFORM_COLLECTOR, |_| true).await;
    let arguments = arguments(&deployment);
    for argument in [
        "--interval=60s",
        "--limit-bytes=1073741824",
        "--worker-number=1",
    ] {
        assert!(arguments.contains(&argument), "{arguments:?}");
    }
    until_ignored(&operator, IGNORED_IN_SPEC, 2).await;
    let state = operator.state().await;
    let warnings = state["warnings"].to_string();
    assert!(
        warnings.contains("spec.workers is \\\"many\\\""),
        "{warnings}"
    );
}

#[tokio::test(start_paused = true)]
async fn disabled_metrics_survive_unreadable_fields() {
    let Fixture { spoke, .. } = Fixture::without_addons();
    spoke.create_inputs();
    spoke.modify_addon(|addon| {
        addon["spec"] = json!({ "enableMetrics": false, "scrapeSizeLimitBytes": -1 });
    });
    let _operator = start_operator(&spoke, RESYNC);
    spoke.until_reason(PLATFORM_STATUS, "DisabledMetrics").await;
    sleep(10 * SECOND).await;
    assert_eq!(spoke.deployment(PLATFORM_COLLECTOR), None);
}
