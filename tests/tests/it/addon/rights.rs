//! With the rights that the generated files grant, and with fewer.

use std::path::PathBuf;

use kelpie_e2e::landscape::rest;
use kelpie_e2e::{kelpie, poll};
use serde_json::{Value, json};

use super::collectors::{PLATFORM, speak, spoke, until_deployment, until_reason};
use super::stage::{Cluster, M, NAMESPACE, PATIENCE, condition, server_as};

/// Grants what the file of this part grants, and gives the kubeconfig of its service account.
async fn account(spoke: &Cluster, part: &str) -> PathBuf {
    let printed = kelpie::run(&["generate", &format!("rbac-addon-{part}")])
        .await
        .unwrap();
    let text = String::from_utf8(printed.stdout).unwrap();
    let file = spoke.keep(&format!("{part}.yaml"), &text);
    let file = format!("--filename={}", file.display());
    spoke.api.kubectl(&["apply", &file]).await.unwrap();
    let name = format!("system:serviceaccount:{NAMESPACE}:kelpie-addon-{part}");
    let user = spoke.api.user(&name, &[]).unwrap();
    spoke.keep(&format!("{part}.kubeconfig"), &spoke.api.kubeconfig(&user))
}

async fn check(part: &str, kubeconfig: &std::path::Path) -> (Option<i32>, String) {
    let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
    let arguments = [
        "check",
        "addon",
        part,
        "--enable-leader-election",
        &kubeconfig,
    ];
    let output = kelpie::run(&arguments).await.unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(said).unwrap())
}

#[tokio::test]
async fn the_generated_rights_are_enough_and_one_that_is_missing_is_named_in_the_status() {
    let stage = spoke().await;
    let spoke = &stage.spoke;
    let operator = account(spoke, "operator").await;
    let status = account(spoke, "status").await;
    let collector = account(spoke, "collector").await;
    for (part, kubeconfig) in [
        ("operator", &operator),
        ("status", &status),
        ("collector", &collector),
    ] {
        let (code, said) = check(part, kubeconfig).await;
        assert_eq!(code, Some(0), "{said}");
        let (code, said) = check(
            part,
            &spoke.keep("nobody", &spoke.api.kubeconfig(&spoke.api.stranger())),
        )
        .await;
        assert_eq!(code, Some(1), "{said}");
        assert!(
            said.contains(&format!("deploy/rbac/addon-{part}.yaml")),
            "{said}"
        );
    }

    let flags = [
        "--enable-leader-election",
        "--resync=1s",
        "--collector-image=kelpie:test",
    ];
    let status = server_as(&status, "status", &flags[..2]).await;
    let operator = server_as(&operator, "operator", &flags).await;
    let deployment = until_deployment(spoke, PLATFORM, |_| true).await;
    until_reason(spoke, M, "UpdateSuccessful").await;
    assert_eq!(
        speak(spoke, "platform", "ForwardSuccessful", &deployment)
            .await
            .0,
        Some(0)
    );
    spoke.until("Available").await;
    for server in [&status, &operator] {
        let log = server.process().log();
        assert!(!log.contains("may not"), "{log}");
        assert!(!log.contains("not allowed"), "{log}");
        assert!(log.contains("leads from now on"), "{log}");
    }

    // Somebody takes one right away.
    let path = format!(
        "/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/roles/kelpie-addon-operator"
    );
    let mut role = rest::read(&spoke.client, &path).await.unwrap();
    let rules = role["rules"].as_array_mut().unwrap();
    for rule in rules
        .iter_mut()
        .filter(|rule| rule["resources"] == json!(["services"]))
    {
        rule["verbs"] = json!(["list"]);
    }
    let patch = json!({ "rules": rules });
    rest::merge(&spoke.client, &path, &patch).await.unwrap();
    let said = poll::until("the missing right to be told", PATIENCE, async || {
        let addon = spoke.addon().await;
        let now = condition(&addon, M).clone();
        Ok((now["reason"] == "UpdateFailure").then(|| now["message"].clone()))
    });
    let said: Value = said.await.unwrap();
    let said = said.as_str().unwrap();
    assert!(
        said.contains(&format!(
            "cannot apply Service {PLATFORM} in namespace {NAMESPACE}"
        )),
        "{said}"
    );
    spoke.until("Degraded").await;
    // And gives it back.
    let operator_file = account(spoke, "operator").await;
    assert!(operator_file.exists());
    until_reason(spoke, M, "UpdateSuccessful").await;
    spoke.until("Progressing").await;
}
