//! Reports of collectors: `kelpie addon report`, and reports that cannot be delivered.

use kelpie_addon::{CollectorReporter, WriteError, WriteOutcome};
use kelpie_core::addon::{AddonComponent, CollectorReport, ForwardOutcome};
use serde_json::{Value, json};

use super::fixture::{
    NAMESPACE, PLATFORM_STATUS, SpokeFixture, component_condition, condition, report,
    run_addon_command, status_writer,
};

fn version(addon: &Value) -> &Value {
    &addon["metadata"]["resourceVersion"]
}

#[tokio::test]
async fn report_is_written_once_or_rejected() {
    let fixture = SpokeFixture::start().await;
    let spoke = &fixture.spoke;

    let (code, output) = report(spoke, "platform", "ForwardSuccessful", &["--message=sent"]).await;
    assert_eq!(
        (code, output.as_str()),
        (Some(0), "the platform collector is now ForwardSuccessful\n")
    );
    let first = spoke.addon().await;
    assert_eq!(
        condition(&first, PLATFORM_STATUS)["reason"],
        "ForwardSuccessful"
    );
    assert_eq!(condition(&first, PLATFORM_STATUS)["message"], "sent");

    let (code, output) = report(spoke, "platform", "ForwardSuccessful", &["--message=sent"]).await;
    assert_eq!(
        (code, output.as_str()),
        (
            Some(0),
            "the platform collector was already ForwardSuccessful\n"
        )
    );
    assert_eq!(
        version(&spoke.addon().await),
        version(&first),
        "expected no write"
    );

    for reason in [
        "UpdateFailure",
        "UpdateFailed",
        "DisabledMetrics",
        "NotSupported",
        "Foo",
    ] {
        let before = spoke
            .merge_status(&json!({ "conditions": [component_condition(PLATFORM_STATUS, reason)] }))
            .await;
        let (code, output) = report(spoke, "platform", "ForwardSuccessful", &[]).await;
        assert_eq!(code, Some(3), "{output}");
        assert_eq!(
            output,
            format!(
                "refused: the platform collector is held at {reason} until the operator announces \
                 an update\n"
            )
        );
        assert_eq!(version(&spoke.addon().await), version(&before));
    }

    spoke
        .merge_status(&json!({
            "conditions": [component_condition(PLATFORM_STATUS, "UpdateSuccesful")],
            "rollouts": { "platform": "new" },
        }))
        .await;
    let (code, output) = report(spoke, "platform", "ForwardFailure", &["--rollout=old"]).await;
    assert_eq!(code, Some(3), "{output}");
    assert!(output.contains("rollout old"), "{output}");
    let (code, output) = report(spoke, "platform", "ForwardFailure", &["--uid=another"]).await;
    assert_eq!(code, Some(3), "{output}");
    let (code, output) = report(spoke, "platform", "ForwardFailure", &["--rollout=new"]).await;
    assert_eq!(code, Some(0), "{output}");

    let shown = run_addon_command(spoke, &["show"]).await;
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("expected Degraded"), "{shown}");
    assert!(
        shown.contains("ForwardFailure for 0s (decisive)") || shown.contains("(decisive)"),
        "{shown}"
    );

    let (code, output) = report(spoke, "platform", "UpdateSuccessful", &[]).await;
    assert_eq!(code, Some(2), "{output}");
    let (code, output) = report(spoke, "uwl", "ForwardSuccessful", &["--name=other"]).await;
    assert_eq!(code, Some(1), "{output}");
    assert!(
        output.contains("there is no ObservabilityAddon other"),
        "{output}"
    );
}

#[tokio::test]
async fn newest_undelivered_report_is_kept() {
    let mut fixture = SpokeFixture::start().await;
    let mut reporter = CollectorReporter::new(status_writer(&fixture.spoke, NAMESPACE).await, None);
    fixture.spoke.api.kill();
    for message in ["first", "second"] {
        let report = CollectorReport {
            component: AddonComponent::Platform,
            forward: ForwardOutcome::Failure,
            message: message.into(),
            rollout: None,
        };
        let written = reporter.report(report).await;
        assert!(matches!(written, Err(WriteError::Call(_))), "{written:?}");
    }
    assert_eq!(reporter.undelivered().unwrap().message, "second");
    fixture.spoke.api.restart().await.unwrap();
    assert_eq!(reporter.deliver().await, Ok(WriteOutcome::Changed));
    assert_eq!(reporter.undelivered(), None);
    assert_eq!(reporter.deliver().await, Ok(WriteOutcome::Unchanged));
    let addon = fixture.spoke.addon().await;
    assert_eq!(condition(&addon, PLATFORM_STATUS)["message"], "second");
}
