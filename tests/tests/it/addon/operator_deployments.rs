//! Server-side apply by `kelpie addon operator`.

use serde_json::json;

use super::fixture::operator::{
    PLATFORM_COLLECTOR, container, find_deployment, report_from_pod, spoke_with_inputs,
    start_operator, until_deployment, until_reason,
};
use super::fixture::{NAMESPACE, PLATFORM_STATUS};

#[tokio::test]
async fn manual_edit_is_reverted() {
    let fixture = spoke_with_inputs().await;
    let spoke = &fixture.spoke;
    let _operator = start_operator(spoke, &["--resync=300ms"]).await;
    let first = until_deployment(spoke, PLATFORM_COLLECTOR, |_| true).await;
    until_reason(spoke, PLATFORM_STATUS, "UpdateSuccessful").await;
    report_from_pod(spoke, "platform", "ForwardSuccessful", &first).await;
    until_reason(spoke, PLATFORM_STATUS, "ForwardSuccessful").await;

    // The edit takes the field over from the operator, which takes it back.
    let image = "/spec/template/spec/containers/0/image";
    let edit = json!([{ "op": "replace", "path": image, "value": "mine" }]);
    let patched = spoke
        .api
        .kubectl(&[
            "--namespace",
            NAMESPACE,
            "patch",
            "deployment",
            PLATFORM_COLLECTOR,
            "--type=json",
            &format!("--patch={edit}"),
        ])
        .await;
    patched.unwrap();
    until_reason(spoke, PLATFORM_STATUS, "UpdateSuccessful").await;
    let reverted = find_deployment(spoke, PLATFORM_COLLECTOR).await.unwrap();
    assert_eq!(container(&reverted)["image"], "kelpie:test");
}
