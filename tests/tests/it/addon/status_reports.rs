//! `kelpie addon report` and `kelpie addon show`.

use serde_json::{Value, json};

use super::fixture::{
    PLATFORM_STATUS, SpokeFixture, component_condition, condition, report, run_addon_command,
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

    let held = [component_condition(PLATFORM_STATUS, "UpdateFailed")];
    spoke.merge_status(&json!({ "conditions": held })).await;
    let (code, output) = report(spoke, "platform", "ForwardSuccessful", &[]).await;
    assert_eq!(
        (code, output.as_str()),
        (
            Some(3),
            "refused: the platform collector is held at UpdateFailed until the operator announces \
             an update\n"
        )
    );

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
