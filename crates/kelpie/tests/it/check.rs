//! `kelpie check prober`, against a seed that is a few canned answers.

use serde_json::{Value, json};

use crate::program::Program;
use crate::server::{Question, serve};

const CONFIG: &str = "\
kubeConfigSecretName: probe
dependentResourceInfos:
- ref: {apiVersion: apps/v1, kind: Deployment, name: kube-controller-manager}
  scaleUp: {level: 0}
  scaleDown: {level: 0}
";

fn shoot(hibernated: bool) -> Value {
    json!({
        "spec": {
            "hibernation": {"enabled": hibernated},
            "provider": {"workers": [{"name": "a"}]},
        },
        "status": {"lastOperation": {"type": "Reconcile", "state": "Succeeded"}},
    })
}

fn list(kind: &str, version: &str, items: &Value) -> (u16, String) {
    let list = json!({
        "kind": format!("{kind}List"), "apiVersion": version,
        "metadata": {"resourceVersion": "1"}, "items": items,
    });
    (200, list.to_string())
}

/// What may be done: everything but what `denied` says about verb and resource.
fn review(question: &Question, denied: fn(&str, &str) -> bool) -> (u16, String) {
    let mut review: Value = serde_json::from_str(&question.body).unwrap();
    let asked = &review["spec"]["resourceAttributes"];
    let text = |name: &str| asked[name].as_str().unwrap_or_default().to_owned();
    let is_denied = denied(&text("verb"), &text("resource"));
    review["status"] = json!({"allowed": !is_denied});
    (201, review.to_string())
}

fn answer(question: &Question, denied: fn(&str, &str) -> bool) -> (u16, String) {
    let path = question.path.split('?').next().unwrap();
    match path {
        "/version" => {
            let version = json!({
                "major": "1", "minor": "36", "gitVersion": "v1.36.4", "gitCommit": "",
                "gitTreeState": "", "buildDate": "", "goVersion": "", "compiler": "", "platform": "",
            });
            (200, version.to_string())
        }
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews" => review(question, denied),
        "/apis/extensions.gardener.cloud/v1alpha1/clusters" => {
            let cluster = |name: &str, shoot: Value| json!({"metadata": {"name": name, "resourceVersion": "1"}, "spec": {"shoot": shoot}});
            let clusters = json!([
                cluster("shoot--a", shoot(false)),
                cluster("shoot--asleep", shoot(true)),
                cluster("shoot--b", shoot(false)),
                cluster("shoot--odd", json!({"spec": 1})),
            ]);
            list("Cluster", "extensions.gardener.cloud/v1alpha1", &clusters)
        }
        "/api/v1/secrets" => {
            assert!(
                question.path.contains("metadata.name%3Dprobe"),
                "{}",
                question.path
            );
            let secrets = json!([{
                "metadata": {"name": "probe", "namespace": "shoot--a", "resourceVersion": "1"},
                "data": {"token": "c2VjcmV0"},
            }]);
            list("Secret", "v1", &secrets)
        }
        _ => (
            404,
            json!({"kind": "Status", "code": 404, "message": "no"}).to_string(),
        ),
    }
}

fn kubeconfig(server: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\n\
         clusters: [{{name: a, cluster: {{server: {server}}}}}]\n\
         contexts: [{{name: a, context: {{cluster: a, user: a}}}}]\n\
         users: [{{name: a, user: {{token: t}}}}]\n"
    )
}

fn said(test: &str, denied: fn(&str, &str) -> bool, arguments: &[&str]) -> String {
    let address = serve(move |question| answer(question, denied));
    let program = Program::new(test)
        .with_file("prober.yaml", CONFIG)
        .with_file("seed", kubeconfig(&format!("http://{address}")));
    let given = [
        "check",
        "prober",
        "--config-file=prober.yaml",
        "--kubeconfig=seed",
    ];
    program.run(&[&given, arguments].concat())
}

fn nothing(_: &str, _: &str) -> bool {
    false
}

#[test]
fn every_row_says_how_it_stands_and_every_failure_what_to_do() {
    insta::assert_snapshot!(said("check", nothing, &["--enable-leader-election"]));
}

#[test]
fn one_cluster_can_be_asked_for() {
    let asleep = said("check-asleep", nothing, &["--cluster=shoot--asleep"]);
    assert!(asleep.contains("no probe: "), "{asleep}");
    assert!(!asleep.contains("shoot--b "), "{asleep}");
    let missing = said("check-missing", nothing, &["--cluster=shoot--c"]);
    assert!(missing.starts_with("exit code: 1\n"), "{missing}");
    assert!(missing.contains("there is no such Cluster"), "{missing}");
}

#[test]
fn a_permission_that_is_missing_fails_unless_it_is_optional() {
    let said = said(
        "check-denied",
        |verb, resource| verb == "patch" || resource == "events",
        &["--cluster=shoot--asleep"],
    );
    assert!(said.contains("FAIL  permission"), "{said}");
    assert!(
        said.contains("may not patch deployments/scale.apps"),
        "{said}"
    );
    assert!(said.contains("warn  permission"), "{said}");
    assert!(
        said.contains("may not create events, nor patch events"),
        "{said}"
    );
}

#[test]
fn scripts_get_an_object() {
    let said = said("check-json", nothing, &["-o", "json"]);
    let json = said.split("----- stdout -----\n").nth(1).unwrap();
    let json: Value = serde_json::from_str(json).unwrap();
    assert_eq!(json["ok"], false);
    let rows = json["rows"].as_array().unwrap();
    let failed = rows.iter().filter(|row| row["grade"] == "fail");
    for row in failed {
        assert!(row["remedy"].is_string(), "{row}");
    }
}

#[test]
fn a_seed_that_is_not_there_is_told_at_once() {
    let program = Program::new("check-nobody")
        .with_file("prober.yaml", CONFIG)
        .with_file("seed", kubeconfig("http://127.0.0.1:1"));
    let said = program.run(&[
        "check",
        "prober",
        "--config-file=prober.yaml",
        "--kubeconfig=seed",
    ]);
    insta::assert_snapshot!(said);
}

#[test]
fn a_file_that_cannot_be_used_is_all_that_is_told() {
    let program = Program::new("check-config-broken")
        .with_file("prober.yaml", CONFIG.replace("kubeConfigSecretName", "x"));
    let said = program.run(&["check", "prober", "--config-file=prober.yaml"]);
    insta::assert_snapshot!(said);
}
