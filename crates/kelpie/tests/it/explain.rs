//! Tests of `kelpie explain`, on a prober with canned responses.

use std::net::TcpListener;

use crate::program::Program;
use crate::server::serve;

/// The response of `/debug/state`.
const STATE: &str = r#"{
  "at": "2026-11-16T00:30:00.400000Z", "leads": true, "dryRun": false,
  "clusters": {"shoot--dev--one": {
    "inWords":
      "Hold: leases or nodes could not be listed. Next round in 1.0 s: a failed probe is repeated.",
    "decision": {
      "verdict": "hold",
      "reasons": {
        "rule": {"name": "listFailed"}, "leases": null,
        "apiServer": {"successCount": 1, "errorCount": 0}, "external": null,
        "leaseProbe": {"successCount": 1, "errorCount": 0},
        "failureFraction": 0.6, "recoveryFraction": 0.6, "tripsAt": null
      },
      "nextWake": {"at": "2026-11-16T00:30:01.000000Z", "reason": "recheck"},
      "deadline": null, "parallelFrom": null, "at": "2026-11-16T00:30:00.000000Z"
    },
    "fence": "none", "fencedSince": null,
    "targets": [{
      "resource": {
        "apiVersion": "apps/v1", "kind": "Deployment", "name": "kube-controller-manager"
      },
      "observed": {"present": {
        "setting": 1, "effective": 1, "version": "7", "marked": false, "recorded": "absent",
        "ignored": false
      }}
    }],
    "lastFlow": null,
    "problems": ["leases: the answer is larger than 67108864 bytes"]
  }}
}"#;

fn prober() -> String {
    let address = serve(|request| match request.path.as_str() {
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

/// Runs `explain` and returns its transcript, without the port, which differs between runs.
fn explain(from: &str, arguments: &[&str]) -> String {
    let program = Program::new("explain");
    let arguments = [&["explain", "--from", from], arguments].concat();
    let authority = from.trim_start_matches("http://");
    program.run(&arguments).replace(authority, "ADDRESS")
}

#[test]
fn last_decision_is_explained() {
    insta::assert_snapshot!(explain(&prober(), &["shoot--dev--one"]));
}

#[test]
fn json_output_is_the_prober_response() {
    let transcript = explain(&prober(), &["shoot--dev--one", "-o", "json"]);
    let expected = format!("exit code: 0\n----- stdout -----\n{STATE}\n");
    assert_eq!(transcript, expected);
}

#[test]
fn errors_have_remedies() {
    let prober = prober();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let unused = format!("http://{}", closed.local_addr().unwrap());
    drop(closed);
    let mut transcripts = Vec::new();
    for (case, from, cluster) in [
        ("part of a name", prober.as_str(), "one"),
        ("cluster without a probe", &prober, "asleep"),
        ("unknown name", &prober, "a&b"),
        ("response of another kind", &prober, "other"),
        ("response that is too large", &prober, "large"),
        ("not a prober", &prober, "elsewhere"),
        ("no listener", &unused, "a"),
        ("not a URL", "localhost", "a"),
        ("https", "https://localhost:9643", "a"),
    ] {
        transcripts.push(format!("{case}\n{}", explain(from, &[cluster])));
    }
    insta::assert_snapshot!(transcripts.join("\n"));
}
