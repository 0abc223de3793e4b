//! `kelpie addon status`: the standard conditions are aggregated from those of the components.

use std::time::Duration;

use kelpie_e2e::{landscape::rest, poll};
use serde_json::json;

use super::fixture::{
    Fixture, NAMESPACE, PLATFORM_STATUS, SpokeFixture, TIMEOUT, UWL_STATUS, component_condition,
    condition, crd_yaml, report, true_conditions,
};

#[tokio::test]
async fn progressing_until_both_collectors_forward() {
    let fixture = Fixture::start().await;
    let history = fixture.spoke.status_history().await;
    let _status = fixture.start_status(&[]).await;
    let both = [
        component_condition(PLATFORM_STATUS, "UpdateSuccessful"),
        component_condition(UWL_STATUS, "UpdateSuccessful"),
    ];
    fixture
        .spoke
        .merge_status(&json!({ "conditions": both }))
        .await;
    fixture.spoke.until_condition("Progressing").await;
    report(
        &fixture.spoke,
        "platform",
        "ForwardSuccessful",
        &["--message=sent"],
    )
    .await;
    // The message of Progressing contains the collector's new state.
    poll::until("the new message", TIMEOUT, async || {
        let addon = fixture.spoke.addon().await;
        let message = condition(&addon, "Progressing")["message"]
            .as_str()
            .unwrap_or_default();
        Ok(message
            .contains("platform collector: ForwardSuccessful")
            .then_some(()))
    })
    .await
    .unwrap();
    report(&fixture.spoke, "uwl", "ForwardSuccessful", &[]).await;
    let last = fixture.spoke.until_condition("Available").await;
    history.until_recorded(&last).await;
    assert_eq!(
        history.checked_transitions(),
        ["-", "Progressing", "Available"]
    );
    let hub = fixture.hub.until_condition("Available").await;
    assert_eq!(hub["status"]["conditions"], last["status"]["conditions"]);
}

#[tokio::test]
async fn failed_update_stays_degraded() {
    let fixture = SpokeFixture::start().await;
    let _status = fixture.start_status(&[]).await;
    let conditions = [component_condition(PLATFORM_STATUS, "UpdateFailure")];
    fixture
        .spoke
        .merge_status(&json!({ "conditions": conditions }))
        .await;
    fixture.spoke.until_condition("Degraded").await;
    let history = fixture.spoke.status_history().await;
    for _ in 0..5 {
        let (code, output) = report(&fixture.spoke, "platform", "ForwardSuccessful", &[]).await;
        assert_eq!(code, Some(3), "{output}");
    }
    // Reports of the other collector do not change the condition.
    for round in 0..5 {
        let message = format!("--message={round}");
        report(&fixture.spoke, "uwl", "ForwardSuccessful", &[&message]).await;
    }
    let last = poll::until("the last report in the message", TIMEOUT, async || {
        let addon = fixture.spoke.addon().await;
        let message = condition(&addon, "Degraded")["message"]
            .as_str()
            .unwrap_or_default();
        Ok(message
            .contains("ForwardSuccessful (4)")
            .then(|| addon.clone()))
    });
    let last = last.await.unwrap();
    history.until_recorded(&last).await;
    assert_eq!(history.checked_transitions(), ["Degraded"]);
    assert_eq!(condition(&last, "Degraded")["reason"], "UpdateFailure");
}

#[tokio::test]
async fn earlier_reports_are_aggregated_at_startup() {
    let fixture = SpokeFixture::start().await;
    report(
        &fixture.spoke,
        "platform",
        "ForwardFailure",
        &["--message=503"],
    )
    .await;
    let _status = fixture.start_status(&[]).await;
    let addon = fixture.spoke.until_condition("Degraded").await;
    let message = "platform collector: ForwardFailure (503)";
    assert_eq!(condition(&addon, "Degraded")["message"], message);
}

#[tokio::test]
async fn own_writes_cause_no_reconcile() {
    let fixture = SpokeFixture::start().await;
    // Only events trigger a reconcile, not resyncs.
    let status = fixture.start_status(&["--resync=1h"]).await;
    let reconciles = async || {
        let metric =
            |result: &str| format!("kelpie_addon_status_reconciles_total{{result=\"{result}\"}}");
        let changed = status.metric(&metric("changed")).await.unwrap();
        (changed, status.metric(&metric("unchanged")).await.unwrap())
    };
    let history = fixture.spoke.status_history().await;
    let mut last = json!(null);
    for (reason, condition) in [
        ("ForwardFailure", "Degraded"),
        ("ForwardSuccessful", "Available"),
        ("ForwardFailure", "Degraded"),
    ] {
        report(&fixture.spoke, "platform", reason, &[]).await;
        last = fixture.spoke.until_condition(condition).await;
    }
    // A foreign condition is added after the controller's last write. Watch events arrive in order,
    // so once the controller has seen this one, it has seen its own write too.
    let path = format!("{}/status", fixture.spoke.addon_path());
    let mut conditions = last["status"]["conditions"].as_array().unwrap().clone();
    conditions.push(component_condition("Foreign", "Passes"));
    let patch = json!({ "status": { "conditions": conditions } });
    let patched = rest::merge_patch(&fixture.spoke.client, &path, &patch)
        .await
        .unwrap();
    history.until_recorded(&patched).await;
    poll::until(
        "the foreign condition to be observed",
        TIMEOUT,
        async || {
            let state = status.get("/debug/state").await?;
            Ok(state.body.contains("Foreign").then_some(()))
        },
    )
    .await
    .unwrap();
    // At most one reconcile for the initial list, in which the addon has no component.
    let (changed, unchanged) = reconciles().await;
    assert_eq!(changed.to_string(), "3");
    assert!(unchanged <= 1.0, "{unchanged}");
}

#[tokio::test]
async fn resync_restores_removed_condition() {
    let fixture = SpokeFixture::start().await;
    report(&fixture.spoke, "platform", "ForwardSuccessful", &[]).await;
    let _status = fixture.start_status(&["--resync=300ms"]).await;
    let addon = fixture.spoke.until_condition("Available").await;
    let own = condition(&addon, PLATFORM_STATUS).clone();
    fixture
        .spoke
        .merge_status(&json!({ "conditions": [own] }))
        .await;
    fixture.spoke.until_condition("Available").await;
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
    super::fixture::status_history::assert_valid(&addon);
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

#[tokio::test]
async fn dry_run_reports_and_writes_nothing() {
    let fixture = SpokeFixture::start().await;
    report(&fixture.spoke, "platform", "ForwardSuccessful", &[]).await;
    let before = fixture.spoke.addon().await;
    let status = fixture.start_status(&["--dry-run", "--resync=200ms"]).await;
    poll::until("the dry run to be logged", TIMEOUT, async || {
        Ok(status
            .process()
            .log()
            .contains("dry run: the addon would be Available")
            .then_some(()))
    })
    .await
    .unwrap();
    assert_eq!(fixture.spoke.addon().await["metadata"], before["metadata"]);
    let state = status.get("/debug/state").await.unwrap();
    assert!(state.body.contains("\"dryRun\":true"), "{}", state.body);
}

#[tokio::test]
async fn restarted_spoke_is_watched_again() {
    let mut fixture = Fixture::start().await;
    report(&fixture.spoke, "platform", "ForwardSuccessful", &[]).await;
    let status = fixture.start_status(&["--resync=1s"]).await;
    fixture.hub.until_condition("Available").await;
    fixture.spoke.api.kill();
    poll::until(
        "the outage to be noticed",
        Duration::from_mins(2),
        async || {
            let log = status.process().log();
            Ok((log.contains("check the API server")).then_some(()))
        },
    )
    .await
    .unwrap();
    fixture.spoke.api.restart().await.unwrap();
    report(&fixture.spoke, "platform", "ForwardFailure", &[]).await;
    fixture.spoke.until_condition("Degraded").await;
    fixture.hub.until_condition("Degraded").await;
    let describe = ["describe", "observabilityaddons", "--namespace", NAMESPACE];
    poll::until("the Event", TIMEOUT, async || {
        let output = fixture.spoke.api.kubectl(&describe).await?;
        Ok(output.contains("Warning  Degraded").then_some(()))
    })
    .await
    .unwrap();
}
