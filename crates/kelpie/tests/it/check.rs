//! Tests of `kelpie check prober`, on a seed with canned responses.

use serde_json::{Value, json};

use crate::program::Program;
use crate::server::{FakeServerRequest, serve};

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

/// Returns true for a verb and a resource that the seed denies.
type Denied = fn(&str, &str) -> bool;

/// Answers a `SelfSubjectAccessReview`.
fn review(request: &FakeServerRequest, denied: Denied) -> (u16, String) {
    let mut review: Value = serde_json::from_str(&request.body).unwrap();
    let attributes = &review["spec"]["resourceAttributes"];
    let text = |name: &str| attributes[name].as_str().unwrap_or_default().to_owned();
    let is_denied = denied(&text("verb"), &text("resource"));
    review["status"] = json!({"allowed": !is_denied});
    (201, review.to_string())
}

fn respond(request: &FakeServerRequest, denied: Denied) -> (u16, String) {
    let path = request.path.split('?').next().unwrap();
    match path {
        "/version" => {
            let version = json!({
                "major": "1", "minor": "36", "gitVersion": "v1.36.4", "gitCommit": "",
                "gitTreeState": "", "buildDate": "", "goVersion": "", "compiler": "",
                "platform": "",
            });
            (200, version.to_string())
        }
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews" => review(request, denied),
        "/apis/extensions.gardener.cloud/v1alpha1/clusters" => {
            let cluster = |name: &str, shoot: Value| {
                let metadata = json!({"name": name, "resourceVersion": "1"});
                json!({"metadata": metadata, "spec": {"shoot": shoot}})
            };
            let clusters = json!([
                cluster("shoot--a", shoot(false)),
                cluster("shoot--hibernated", shoot(true)),
                cluster("shoot--b", shoot(false)),
                cluster("shoot--unreadable", json!({"spec": 1})),
            ]);
            list("Cluster", "extensions.gardener.cloud/v1alpha1", &clusters)
        }
        "/api/v1/secrets" => {
            assert!(
                request.path.contains("metadata.name%3Dprobe"),
                "{}",
                request.path
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

/// Runs the check and returns its transcript.
fn check(test: &str, denied: Denied, arguments: &[&str]) -> String {
    let address = serve(move |request| respond(request, denied));
    let program = Program::new(test)
        .with_file("prober.yaml", CONFIG)
        .with_file("seed", kubeconfig(&format!("http://{address}")));
    let command = [
        "check",
        "prober",
        "--config-file=prober.yaml",
        "--kubeconfig=seed",
    ];
    program.run(&[&command, arguments].concat())
}

fn nothing_denied(_: &str, _: &str) -> bool {
    false
}

#[test]
fn rows_have_findings_and_remedies() {
    let transcript = check("check", nothing_denied, &["--enable-leader-election"]);
    insta::assert_snapshot!(transcript);
}

#[test]
fn one_cluster_can_be_selected() {
    let arguments = ["--cluster=shoot--hibernated"];
    let hibernated = check("check-hibernated", nothing_denied, &arguments);
    assert!(hibernated.contains("not probed: "), "{hibernated}");
    assert!(!hibernated.contains("shoot--b "), "{hibernated}");
    let missing = check("check-missing", nothing_denied, &["--cluster=shoot--c"]);
    assert!(missing.starts_with("exit code: 1\n"), "{missing}");
    assert!(missing.contains("no such Cluster"), "{missing}");
}

#[test]
fn missing_permission_fails_unless_optional() {
    let transcript = check(
        "check-denied",
        |verb, resource| verb == "patch" || resource == "events",
        &["--cluster=shoot--hibernated"],
    );
    for expected in [
        "FAIL  permission",
        "may not patch deployments/scale.apps",
        "warn  permission",
        "may not create events or patch events",
    ] {
        assert!(transcript.contains(expected), "{transcript}");
    }
}

#[test]
fn json_output_is_one_object() {
    let transcript = check("check-json", nothing_denied, &["-o", "json"]);
    let json = transcript.split("----- stdout -----\n").nth(1).unwrap();
    let json: Value = serde_json::from_str(json).unwrap();
    assert_eq!(json["ok"], false);
    let rows = json["rows"].as_array().unwrap();
    let failed = rows.iter().filter(|row| row["grade"] == "fail");
    for row in failed {
        assert!(row["remedy"].is_string(), "{row}");
    }
}

#[test]
fn unreachable_seed_is_reported() {
    let program = Program::new("check-unreachable")
        .with_file("prober.yaml", CONFIG)
        .with_file("seed", kubeconfig("http://127.0.0.1:1"));
    let transcript = program.run(&[
        "check",
        "prober",
        "--config-file=prober.yaml",
        "--kubeconfig=seed",
    ]);
    insta::assert_snapshot!(transcript);
}

#[test]
fn invalid_file_ends_the_check() {
    let program = Program::new("check-config-broken")
        .with_file("prober.yaml", CONFIG.replace("kubeConfigSecretName", "x"));
    let transcript = program.run(&["check", "prober", "--config-file=prober.yaml"]);
    insta::assert_snapshot!(transcript);
}
