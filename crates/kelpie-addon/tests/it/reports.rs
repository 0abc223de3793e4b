//! Reports of collectors.

use kelpie_addon::{WriteError, WriteOutcome};
use kelpie_core::addon::CollectorReport;
use serde_json::json;

use crate::fixture::*;

#[tokio::test(start_paused = true)]
async fn undelivered_report_is_replaced_by_next() {
    let Fixture { spoke, .. } = Fixture::start();
    spoke.set_up(false);
    for message in ["first", "second"] {
        let written = spoke.report(PLATFORM, FAILURE, message).await;
        assert!(matches!(written, Err(WriteError::Call(_))), "{written:?}");
    }
    spoke.set_up(true);
    for outcome in [WriteOutcome::Changed, WriteOutcome::Unchanged] {
        let written = spoke.report(PLATFORM, FAILURE, "third").await;
        assert_eq!(written, Ok(outcome));
    }
    assert_eq!(message(&spoke.addon(), PLATFORM_STATUS), "third");
}

#[tokio::test(start_paused = true)]
async fn refused_report_writes_nothing() {
    let Fixture { spoke, .. } = Fixture::start();
    let first = spoke.report(PLATFORM, SUCCESS, "sent").await;
    assert_eq!(first, Ok(WriteOutcome::Changed));
    let before = spoke.addon();
    let second = spoke.report(PLATFORM, SUCCESS, "sent").await;
    assert_eq!(second, Ok(WriteOutcome::Unchanged));
    assert_eq!(version(&spoke.addon()), version(&before));
    for reason in [
        "UpdateFailure",
        "UpdateFailed",
        "DisabledMetrics",
        "NotSupported",
        "Foo",
    ] {
        let held = [component_condition(PLATFORM_STATUS, reason)];
        let before = spoke.merge_status(&json!({ "conditions": held }));
        let error = spoke.report(PLATFORM, SUCCESS, "").await.unwrap_err();
        let expected = format!(
            "refused: the platform collector is held at {reason} until the operator announces an \
             update"
        );
        assert_eq!(error.to_string(), expected);
        assert_eq!(version(&spoke.addon()), version(&before));
    }
}

#[tokio::test(start_paused = true)]
async fn report_of_another_rollout_or_addon_is_refused() {
    let Fixture { spoke, .. } = Fixture::start();
    spoke.merge_status(&json!({
        "conditions": [component_condition(PLATFORM_STATUS, "UpdateSuccesful")],
        "rollouts": { "platform": "new" },
    }));
    let addon = spoke.addon();
    let uid = addon["metadata"]["uid"].as_str().unwrap();
    let report = async |rollout: &str, uid: &str| {
        let rollout = Some(rollout.to_owned());
        let report = CollectorReport {
            rollout,
            ..collector_report(PLATFORM, FAILURE, "")
        };
        spoke.status_writer().report(Some(uid), &report).await
    };
    let old = report("old", uid).await;
    assert_refused(&old);
    assert!(old.unwrap_err().to_string().contains("rollout old"));
    assert_refused(&report("new", "another").await);
    assert_eq!(report("new", uid).await, Ok(WriteOutcome::Changed));
}
