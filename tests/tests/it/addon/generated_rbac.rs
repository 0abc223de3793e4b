//! The generated RBAC manifests are sufficient, and a missing permission is reported.

use std::path::PathBuf;

use kelpie_e2e::landscape::rest;
use kelpie_e2e::{kelpie, poll};
use serde_json::{Value, json};

use super::fixture::operator::{
    PLATFORM_COLLECTOR, report_from_pod, spoke_with_inputs, until_deployment, until_reason,
};
use super::fixture::{
    AddonCluster, NAMESPACE, PLATFORM_STATUS, TIMEOUT, condition, start_server_as,
};
use crate::fixture::exit_code_and_text;

/// Applies the generated manifest of this component, and returns a kubeconfig of its service
/// account.
async fn apply_rbac(spoke: &AddonCluster, component: &str) -> PathBuf {
    let printed = kelpie::run(&["generate", &format!("rbac-addon-{component}")])
        .await
        .unwrap();
    let text = String::from_utf8(printed.stdout).unwrap();
    let file = spoke.write_file(&format!("{component}.yaml"), &text);
    let file = format!("--filename={}", file.display());
    spoke.api.kubectl(&["apply", &file]).await.unwrap();
    let name = format!("system:serviceaccount:{NAMESPACE}:kelpie-addon-{component}");
    let user = spoke.api.user(&name, &[]).unwrap();
    spoke.write_file(
        &format!("{component}.kubeconfig"),
        &spoke.api.kubeconfig(&user),
    )
}

async fn check(component: &str, kubeconfig: &std::path::Path) -> (Option<i32>, String) {
    let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
    let arguments = [
        "check",
        "addon",
        component,
        "--enable-leader-election",
        &kubeconfig,
    ];
    let output = kelpie::run(&arguments).await.unwrap();
    exit_code_and_text(output)
}

#[tokio::test]
async fn generated_rbac_is_sufficient_and_gaps_reported() {
    let fixture = spoke_with_inputs().await;
    let spoke = &fixture.spoke;
    let operator = apply_rbac(spoke, "operator").await;
    let status = apply_rbac(spoke, "status").await;
    let collector = apply_rbac(spoke, "collector").await;
    for (component, kubeconfig) in [
        ("operator", &operator),
        ("status", &status),
        ("collector", &collector),
    ] {
        let (code, output) = check(component, kubeconfig).await;
        assert_eq!(code, Some(0), "{output}");
        let unprivileged = spoke.api.kubeconfig(&spoke.api.unprivileged());
        let unprivileged = spoke.write_file("unprivileged", &unprivileged);
        let (code, output) = check(component, &unprivileged).await;
        assert_eq!(code, Some(1), "{output}");
        let manifest = format!("deploy/rbac/addon-{component}.yaml");
        assert!(output.contains(&manifest), "{output}");
    }

    let flags = [
        "--enable-leader-election",
        "--resync=1s",
        "--collector-image=kelpie:test",
    ];
    let status = start_server_as(&status, "status", &flags[..2]).await;
    let operator = start_server_as(&operator, "operator", &flags).await;
    let deployment = until_deployment(spoke, PLATFORM_COLLECTOR, |_| true).await;
    until_reason(spoke, PLATFORM_STATUS, "UpdateSuccessful").await;
    assert_eq!(
        report_from_pod(spoke, "platform", "ForwardSuccessful", &deployment)
            .await
            .0,
        Some(0)
    );
    spoke.until_condition("Available").await;
    for server in [&status, &operator] {
        let log = server.process().log();
        assert!(!log.contains("may not"), "{log}");
        assert!(!log.contains("not allowed"), "{log}");
        assert!(log.contains("acquired the Lease"), "{log}");
    }

    // One permission is revoked.
    let path = format!(
        "/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/roles/kelpie-addon-operator"
    );
    let mut role = rest::get(&spoke.client, &path).await.unwrap();
    let rules = role["rules"].as_array_mut().unwrap();
    for rule in rules
        .iter_mut()
        .filter(|rule| rule["resources"] == json!(["services"]))
    {
        rule["verbs"] = json!(["get", "list"]);
    }
    let patch = json!({ "rules": rules });
    rest::merge_patch(&spoke.client, &path, &patch)
        .await
        .unwrap();
    let message = poll::until(
        "the missing permission to be reported",
        TIMEOUT,
        async || {
            let addon = spoke.addon().await;
            let now = condition(&addon, PLATFORM_STATUS).clone();
            Ok((now["reason"] == "UpdateFailure").then(|| now["message"].clone()))
        },
    );
    let message: Value = message.await.unwrap();
    let message = message.as_str().unwrap();
    assert!(
        message.contains(&format!(
            "cannot apply Service {PLATFORM_COLLECTOR} in namespace {NAMESPACE}"
        )),
        "{message}"
    );
    spoke.until_condition("Degraded").await;
    // The permission is granted again.
    let kubeconfig = apply_rbac(spoke, "operator").await;
    assert!(kubeconfig.exists());
    until_reason(spoke, PLATFORM_STATUS, "UpdateSuccessful").await;
    spoke.until_condition("Progressing").await;
}
