//! Defaults and validation of the CRD, and objects that are older than it.

use kelpie_e2e::landscape::rest;
use serde_json::json;

use super::fixture::status_history::assert_valid;
use super::fixture::{
    NAME, PLATFORM_STATUS, SpokeFixture, component_condition, condition, crd_yaml, true_conditions,
};

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

#[tokio::test]
async fn legacy_duplicate_conditions_are_repaired() {
    let fixture = SpokeFixture::without_crd().await;
    // In the older CRD the list of conditions is atomic, so that duplicates are accepted.
    let current = crd_yaml().await;
    let atomic = with_atomic_conditions(&current).unwrap();
    fixture.spoke.install_crd(&atomic).await;
    fixture.spoke.create_addon(&json!({})).await;
    let mut older = component_condition(PLATFORM_STATUS, "UpdateFailure");
    older["lastTransitionTime"] = json!("2020-01-01T00:00:00Z");
    fixture
        .spoke
        .merge_status(&json!({ "conditions": [
            older,
            component_condition(PLATFORM_STATUS, "ForwardSuccessful"),
            component_condition("Available", "ForwardSuccessful"),
            component_condition("Progressing", "UpdateSuccesful"),
            component_condition("Progressing", "UpdateSuccesful"),
            component_condition("Foreign", "Kept"),
        ] }))
        .await;
    assert_eq!(true_conditions(&fixture.spoke.addon().await).len(), 3);
    fixture.spoke.install_crd(&current).await;
    let _status = fixture.start_status(&[]).await;
    let addon = fixture.spoke.until_condition("Available").await;
    assert_valid(&addon);
    assert_eq!(condition(&addon, "Foreign")["reason"], "Kept");
    assert_eq!(
        condition(&addon, PLATFORM_STATUS)["reason"],
        "ForwardSuccessful"
    );
    assert_eq!(condition(&addon, "Progressing")["status"], "False");
}

/// Returns the CRD with an atomic list of conditions.
fn with_atomic_conditions(crd: &str) -> Option<String> {
    let start = crd.find("x-kubernetes-list-map-keys:")?;
    let line = crd[..start].rfind('\n')? + 1;
    let after = crd[start..].find("- type\n")? + start + "- type\n".len();
    let text = format!("{}{}", &crd[..line], &crd[after..]);
    Some(text.replace(
        "x-kubernetes-list-type: map",
        "x-kubernetes-list-type: atomic",
    ))
}
