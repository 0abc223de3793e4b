//! Reports of collectors.

use kelpie_addon::{CollectorReporter, WriteError, WriteOutcome};
use kelpie_core::addon::CollectorReport;
use serde_json::json;

use crate::fixture::*;

#[tokio::test(start_paused = true)]
async fn newest_undelivered_report_is_kept() {
    let Fixture { spoke, .. } = Fixture::start();
    let mut reporter = CollectorReporter::new(spoke.status_writer(), None);
    spoke.set_up(false);
    for message in ["first", "second"] {
        let report = collector_report(PLATFORM, FAILURE, message);
        let written = reporter.report(report).await;
        assert!(matches!(written, Err(WriteError::Call(_))), "{written:?}");
    }
    assert_eq!(reporter.undelivered().unwrap().message, "second");
    spoke.set_up(true);
    assert_eq!(reporter.deliver().await, Ok(WriteOutcome::Changed));
    assert_eq!(reporter.undelivered(), None);
    assert_eq!(reporter.deliver().await, Ok(WriteOutcome::Unchanged));
    assert_eq!(message(&spoke.addon(), PLATFORM_STATUS), "second");
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
    let uid = spoke.addon()["metadata"]["uid"].as_str().map(str::to_owned);
    let report = async |rollout: &str, uid: Option<String>| {
        let rollout = Some(rollout.to_owned());
        let report = CollectorReport {
            rollout,
            ..collector_report(PLATFORM, FAILURE, "")
        };
        let mut reporter = CollectorReporter::new(spoke.status_writer(), uid);
        reporter.report(report).await
    };
    let old = report("old", uid.clone()).await;
    assert_refused(&old);
    assert!(old.unwrap_err().to_string().contains("rollout old"));
    assert_refused(&report("new", Some("another".into())).await);
    assert_eq!(report("new", uid).await, Ok(WriteOutcome::Changed));
}
