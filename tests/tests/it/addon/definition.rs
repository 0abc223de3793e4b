//! The kind as a real API server takes it.

use kelpie_e2e::landscape::rest;
use serde_json::json;

use super::stage::{Alone, NAME, component, definition};

#[tokio::test]
async fn the_api_server_fills_defaults_in_keeps_to_the_ranges_and_refuses_new_duplicates() {
    let stage = Alone::bare().await;
    let spoke = &stage.spoke;
    spoke.install(&definition().await).await;

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
        let refused = rest::merge(&spoke.client, &spoke.path(), &patch).await;
        assert!(refused.is_err(), "{spec} was accepted");
    }
    let patch = json!({ "spec": { "interval": 15, "resources": { "limits": { "cpu": 1 } } } });
    rest::merge(&spoke.client, &spoke.path(), &patch)
        .await
        .unwrap();

    let twice = json!({ "status": { "conditions": [component("A", "a"), component("A", "b")] } });
    let path = format!("{}/status", spoke.path());
    let refused = rest::merge(&spoke.client, &path, &twice).await;
    assert!(refused.is_err(), "a type twice was accepted");

    spoke
        .merge_status(&json!({ "conditions": [
        component("MetricsCollectorStatus", "ForwardSuccessful"),
        component("Available", "ForwardSuccessful"),
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
