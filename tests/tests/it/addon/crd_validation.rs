//! Defaults and validation of the CRD on a real API server.

use kelpie_e2e::landscape::rest;
use serde_json::json;

use super::fixture::{NAME, SpokeFixture, component_condition, crd_yaml};

#[tokio::test]
async fn crd_sets_defaults_and_rejects_invalid_values() {
    let fixture = SpokeFixture::without_crd().await;
    let spoke = &fixture.spoke;
    spoke.install_crd(&crd_yaml().await).await;

    let addon = spoke.create_addon(&json!({})).await;
    let expected = json!({
        "enableMetrics": true,
        "interval": 300,
        "scrapeSizeLimitBytes": 1_073_741_824,
        "workers": 1,
    });
    assert_eq!(addon["spec"], expected);

    for spec in [
        json!({ "interval": 14 }),
        json!({ "interval": 3601 }),
        json!({ "workers": 0 }),
        json!({ "workers": 70_000 }),
        json!({ "scrapeSizeLimitBytes": 0 }),
        json!({ "enableMetrics": "yes" }),
        json!({ "resources": { "limits": { "memory": "much" } } }),
    ] {
        let patch = json!({ "spec": spec });
        let rejected = rest::merge_patch(&spoke.client, &spoke.addon_path(), &patch).await;
        assert!(rejected.is_err(), "{spec} was accepted");
    }
    let patch = json!({ "spec": { "interval": 15, "resources": { "limits": { "cpu": 1 } } } });
    rest::merge_patch(&spoke.client, &spoke.addon_path(), &patch)
        .await
        .unwrap();

    let conditions = [component_condition("A", "a"), component_condition("A", "b")];
    let duplicate = json!({ "status": { "conditions": conditions } });
    let path = format!("{}/status", spoke.addon_path());
    let rejected = rest::merge_patch(&spoke.client, &path, &duplicate).await;
    assert!(rejected.is_err(), "a duplicate type was accepted");

    spoke
        .merge_status(&json!({ "conditions": [
        component_condition("MetricsCollectorStatus", "ForwardSuccessful"),
        component_condition("Available", "ForwardSuccessful"),
    ] }))
        .await;
    let table = spoke
        .api
        .kubectl(&[
            "--namespace",
            "open-cluster-management-addon-observability",
            "get",
            "oba",
        ])
        .await
        .unwrap();
    let lines: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        lines[0],
        [
            "NAME",
            "AVAILABLE",
            "DEGRADED",
            "DISABLED",
            "NOTSUPPORTED",
            "PROGRESSING",
            "PLATFORM",
            "UWL",
            "AGE"
        ]
    );
    assert_eq!(lines[1][..3], [NAME, "True", "ForwardSuccessful"]);
}
