//! The status controller aggregates the components' conditions into the standard conditions.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::fixture::*;

#[tokio::test(start_paused = true)]
async fn progressing_until_both_collectors_forward() {
    let fixture = Fixture::start();
    let Fixture { spoke, hub } = &fixture;
    let mut history = spoke.history();
    let _status = fixture.start_status(RESYNC);
    let both =
        [PLATFORM_STATUS, UWL_STATUS].map(|kind| component_condition(kind, "UpdateSuccessful"));
    spoke.merge_status(&json!({ "conditions": both }));
    spoke.until_condition("Progressing").await;
    spoke.report(PLATFORM, SUCCESS, "sent").await.unwrap();
    // The message of Progressing contains the collector's new state.
    until("the new message", || {
        let addon = spoke.addon();
        let message = message(&addon, "Progressing");
        message
            .contains("platform collector: ForwardSuccessful")
            .then_some(())
    })
    .await;
    spoke.report(UWL, SUCCESS, "").await.unwrap();
    let last = spoke.until_condition("Available").await;
    let transitions = ["-", "Progressing", "Available"];
    assert_eq!(history.checked_transitions(), transitions);
    let hub = hub.until_condition("Available").await;
    assert_eq!(hub["status"]["conditions"], last["status"]["conditions"]);
}

#[tokio::test(start_paused = true)]
async fn failed_update_stays_degraded() {
    let Fixture { spoke, .. } = Fixture::start();
    let _status = start_status(&spoke, RESYNC);
    let conditions = [component_condition(PLATFORM_STATUS, "UpdateFailure")];
    spoke.merge_status(&json!({ "conditions": conditions }));
    spoke.until_condition("Degraded").await;
    let mut history = spoke.history();
    for _ in 0..5 {
        assert_refused(&spoke.report(PLATFORM, SUCCESS, "").await);
    }
    // Reports of the other collector do not change the condition.
    for round in 0..5 {
        let message = round.to_string();
        spoke.report(UWL, SUCCESS, &message).await.unwrap();
    }
    let last = until("the last report in the message", || {
        let addon = spoke.addon();
        let is_last = message(&addon, "Degraded").contains("ForwardSuccessful (4)");
        is_last.then_some(addon)
    })
    .await;
    assert_eq!(history.checked_transitions(), ["Degraded"]);
    assert_eq!(condition(&last, "Degraded")["reason"], "UpdateFailure");
}

#[tokio::test(start_paused = true)]
async fn earlier_reports_are_aggregated_at_startup() {
    let Fixture { spoke, .. } = Fixture::start();
    spoke.report(PLATFORM, FAILURE, "503").await.unwrap();
    let _status = start_status(&spoke, RESYNC);
    let addon = spoke.until_condition("Degraded").await;
    let expected = "platform collector: ForwardFailure (503)";
    assert_eq!(message(&addon, "Degraded"), expected);
}

#[tokio::test(start_paused = true)]
async fn own_writes_cause_no_reconcile() {
    let Fixture { spoke, .. } = Fixture::start();
    // Only events trigger a reconcile, not resyncs.
    let status = start_status(&spoke, Duration::from_hours(1));
    let mut history = spoke.history();
    for (forward, kind) in [
        (SUCCESS, "Available"),
        (FAILURE, "Degraded"),
        (SUCCESS, "Available"),
    ] {
        spoke.report(PLATFORM, forward, "").await.unwrap();
        spoke.until_condition(kind).await;
    }
    let transitions = ["-", "Available", "Degraded", "Available"];
    assert_eq!(history.checked_transitions(), transitions);
    // A condition of another writer causes none either.
    let mut conditions = spoke.addon()["status"]["conditions"].clone();
    let foreign = component_condition("Foreign", "Passes");
    conditions.as_array_mut().unwrap().push(foreign);
    spoke.merge_status(&json!({ "conditions": conditions }));
    sleep(Duration::from_secs(10)).await;
    let state = status.state().await;
    assert!(state.to_string().contains("Foreign"), "{state}");
    assert_eq!(
        status.metric("status_reconciles_total{result=\"changed\"}"),
        3
    );
    // One reconcile for the initial list, in which the addon has no component.
    let unchanged = status.metric("status_reconciles_total{result=\"unchanged\"}");
    assert_eq!(unchanged, 1);
}

#[tokio::test(start_paused = true)]
async fn resync_restores_removed_condition() {
    let Fixture { spoke, .. } = Fixture::start();
    spoke.report(PLATFORM, SUCCESS, "").await.unwrap();
    let _status = start_status(&spoke, RESYNC);
    let addon = spoke.until_condition("Available").await;
    let own = condition(&addon, PLATFORM_STATUS);
    let edited = spoke.merge_status(&json!({ "conditions": [own] }));
    assert_eq!(true_conditions(&edited), Vec::<&str>::new());
    spoke.until_condition("Available").await;
}

#[tokio::test(start_paused = true)]
async fn duplicate_conditions_are_repaired() {
    let Fixture { spoke, .. } = Fixture::start();
    let mut older = component_condition(PLATFORM_STATUS, "UpdateFailure");
    older["lastTransitionTime"] = json!("2020-01-01T00:00:00Z");
    spoke.merge_status(&json!({ "conditions": [
        older,
        component_condition(PLATFORM_STATUS, "ForwardSuccessful"),
        component_condition("Available", "ForwardSuccessful"),
        component_condition("Progressing", "UpdateSuccesful"),
        component_condition("Progressing", "UpdateSuccesful"),
        component_condition("Foreign", "Kept"),
    ] }));
    assert_eq!(true_conditions(&spoke.addon()).len(), 3);
    let _status = start_status(&spoke, RESYNC);
    let addon = spoke.until_condition("Available").await;
    assert_valid(&addon);
    assert_eq!(condition(&addon, "Foreign")["reason"], "Kept");
    let platform = condition(&addon, PLATFORM_STATUS);
    assert_eq!(platform["reason"], "ForwardSuccessful");
    assert_eq!(condition(&addon, "Progressing")["status"], "False");
}

#[tokio::test(start_paused = true)]
async fn dry_run_writes_nothing() {
    let fixture = Fixture::start();
    let spoke = &fixture.spoke;
    spoke.report(PLATFORM, SUCCESS, "").await.unwrap();
    let (before, since) = (spoke.addon(), spoke.request_count());
    let status = start_status_with(spoke, dry_run(Duration::from_secs(1)), None);
    sleep(Duration::from_secs(10)).await;
    assert_eq!(spoke.addon(), before);
    let requests = spoke.requests_since(since);
    assert!(!requests.is_empty());
    assert!(!requests.iter().any(is_write), "{requests:?}");
    let state = status.state().await;
    assert_eq!(
        (&state["dryRun"], &state["leads"]),
        (&json!(true), &json!(false))
    );
    assert_ne!(state["spoke"]["status"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn restarted_spoke_is_watched_again() {
    let fixture = Fixture::start();
    let Fixture { spoke, hub } = &fixture;
    spoke.report(PLATFORM, SUCCESS, "").await.unwrap();
    let status = fixture.start_status(RESYNC);
    hub.until_condition("Available").await;
    spoke.set_up(false);
    status.until_grown("watch_failures_total", 1).await;
    spoke.set_up(true);
    spoke.report(PLATFORM, FAILURE, "").await.unwrap();
    let addon = spoke.until_condition("Degraded").await;
    hub.until_condition("Degraded").await;
    // `kubectl describe` selects Events by UID.
    let uid = addon["metadata"]["uid"].as_str().unwrap();
    let event = ["Warning", "Degraded", uid].map(str::to_owned);
    until("the Event", || {
        spoke.events().contains(&event).then_some(())
    })
    .await;
}
