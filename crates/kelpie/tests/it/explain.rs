//! `kelpie explain`.

use std::net::TcpListener;

use crate::program::Program;
use crate::server::serve;

/// As `/debug/state` writes it.
const STATE: &str = r#"{
  "at": "2026-11-16T00:30:00.400000Z", "leads": true, "dryRun": false,
  "clusters": {"shoot--dev--one": {
    "inWords": "Hold: leases, nodes or machines could not be listed. Next look in 1.0 s: a failed probe is repeated.",
    "words": {"rule": "leases, nodes or machines could not be listed", "excluded": [], "nextLook": "a failed probe is repeated"},
    "decision": {
      "verdict": "hold",
      "reasons": {
        "rule": {"name": "listFailed"}, "leases": null,
        "apiServer": {"successCount": 1, "errorCount": 0}, "external": null,
        "leaseProbe": {"successCount": 1, "errorCount": 0},
        "failureFraction": 0.6, "recoveryFraction": 0.6, "tripsAt": null
      },
      "nextWake": {"at": "2026-11-16T00:30:01.000000Z", "reason": "recheck"},
      "deadline": null, "rushAt": null, "at": "2026-11-16T00:30:00.000000Z"
    },
    "fence": "none", "fencedSince": null,
    "targets": [{"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "kube-controller-manager"},
      "sight": {"present": {"replicas": 1, "ready": 1, "version": "7", "marked": false, "recorded": "absent", "ignored": false}}}],
    "lastFlow": null,
    "troubles": ["leases: the answer is larger than 67108864 bytes"]
  }}
}"#;

fn prober() -> String {
    let address = serve(|question| match question.path.as_str() {
        "/debug/state?cluster=shoot--dev--one" => (200, STATE.to_owned()),
        "/debug/state?cluster=one" => (
            404,
            r#"{"error": "cluster \"one\" is not probed", "near": ["shoot--dev--one"]}"#.to_owned(),
        ),
        "/debug/state?cluster=asleep" => (
            404,
            r#"{"error": "", "reason": "it is hibernated", "near": []}"#.to_owned(),
        ),
        "/debug/state?cluster=a%26b" => (404, r#"{"error": "", "near": []}"#.to_owned()),
        "/debug/state?cluster=other" => (200, "{}".to_owned()),
        "/debug/state?cluster=large" => (200, "x".repeat(5 << 20)),
        _ => (404, "no such page".to_owned()),
    });
    format!("http://{address}")
}

/// What is said, without the port, which differs from run to run.
fn said(from: &str, arguments: &[&str]) -> String {
    let program = Program::new("explain");
    let arguments = [&["explain", "--from", from], arguments].concat();
    let authority = from.trim_start_matches("http://");
    program.run(&arguments).replace(authority, "ADDRESS")
}

#[test]
fn the_last_decision_is_told_in_plain_words() {
    insta::assert_snapshot!(said(&prober(), &["shoot--dev--one"]));
}

#[test]
fn scripts_get_the_probers_own_answer() {
    let said = said(&prober(), &["shoot--dev--one", "-o", "json"]);
    assert_eq!(said, format!("exit code: 0\n----- stdout -----\n{STATE}\n"));
}

#[test]
fn what_is_no_answer_is_told_with_what_to_do() {
    let prober = prober();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = format!("http://{}", closed.local_addr().unwrap());
    drop(closed);
    let mut transcripts = Vec::new();
    for (case, from, cluster) in [
        ("a part of a name", prober.as_str(), "one"),
        ("no probe, for a reason", &prober, "asleep"),
        ("nothing like it", &prober, "a&b"),
        ("an answer of another kind", &prober, "other"),
        ("an answer without end", &prober, "large"),
        ("not a prober", &prober, "elsewhere"),
        ("nobody there", &nobody, "a"),
        ("no URL", "localhost", "a"),
        ("https", "https://localhost:9643", "a"),
    ] {
        transcripts.push(format!("{case}\n{}", said(from, &[cluster])));
    }
    insta::assert_snapshot!(transcripts.join("\n"));
}
