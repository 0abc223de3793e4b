//! The shape of reports, and the tables of broken files.

use std::fmt::Write;

use kelpie_config::{Parsed, Problem, Report, Severity, Strictness, prober, weeder};

/// A table of files as one text: each with its name, itself and what is said about it.
pub(crate) fn table<T>(
    cases: &[(&str, String)],
    parse: impl Fn(&[u8]) -> Result<Parsed<T>, Report>,
) -> String {
    let mut text = String::new();
    for (name, file) in cases {
        let problems = match parse(file.as_bytes()) {
            Ok(parsed) => parsed.warnings,
            Err(report) => report.problems,
        };
        for problem in &problems {
            check(name, problem);
        }
        writeln!(text, "# {name}").unwrap();
        for line in file.lines() {
            writeln!(
                text,
                "    {}",
                line.escape_debug()
                    .to_string()
                    .replace("\\\"", "\"")
                    .replace("\\'", "'")
            )
            .unwrap();
        }
        for problem in problems {
            writeln!(text, "-> {problem}").unwrap();
        }
        writeln!(text).unwrap();
    }
    text
}

/// What every problem must have.
fn check(name: &str, problem: &Problem) {
    assert!(problem.line > 0 && problem.column > 0, "{name}: no place");
    assert!(!problem.message.is_empty(), "{name}: no message");
    let about_the_file = problem.message.starts_with("the file ");
    assert_eq!(problem.path.is_empty(), about_the_file, "{name}: {problem}");
    if !about_the_file && problem.severity == Severity::Error {
        let way_out = problem.expected.is_some() || problem.hint.is_some();
        assert!(
            way_out,
            "{name}: says what is wrong, not what is right: {problem}"
        );
    }
    if let Some(value) = &problem.value {
        assert!(
            problem.message.contains(value),
            "{name}: {value} is not in {problem}"
        );
    }
}

#[test]
fn every_problem_of_a_file_is_reported_at_once_in_the_order_of_the_file() {
    let report = prober::parse(
        b"\
probeIntervall: 10s
probeTimeout: 0s
backoffJitterFactor: often
nodeLeaseFailureFraction: 60
dependentResourceInfos:
- ref: {apiVersion: apps/v1, kind: deployment, name: kube-controller-manager}
  scaleUp: {level: -1, replicas: 1.5}
  optional: maybe
- name: machine-controller-manager
",
        Strictness::Strict,
    )
    .unwrap_err();
    insta::assert_snapshot!(report, @r#"
    1:1: probeIntervall: unknown key; did you mean `probeInterval`?
    1:1: kubeConfigSecretName: missing; expected the name of the Secret with the kubeconfig
    2:15: probeTimeout: 0s is not allowed; expected a duration above zero such as 30s, 1m30s or 500ms
    3:22: backoffJitterFactor: often is not allowed; expected a number from 0 to 1
    4:27: nodeLeaseFailureFraction: 60 is not allowed; expected a number above 0 and at most 1, such as 0.6
    6:3: dependentResourceInfos[0].scaleDown: missing; expected a map with any of level, initialDelay, timeout, replicas; {} takes the defaults
    6:36: dependentResourceInfos[0].ref.kind: deployment is not allowed; expected a kind such as Deployment: letters and digits, a capital first
    7:20: dependentResourceInfos[0].scaleUp.level: -1 is not allowed; expected a whole number from 0 to 2147483647
    7:34: dependentResourceInfos[0].scaleUp.replicas: 1.5 is not allowed; expected a whole number from 0 to 2147483647
    8:13: dependentResourceInfos[0].optional: maybe is not allowed; expected true or false
    9:3: dependentResourceInfos[1].name: unknown key; it belongs at the top level or under `ref`
    9:3: dependentResourceInfos[1].ref: missing; expected a map with apiVersion, kind, name
    9:3: dependentResourceInfos[1].scaleUp: missing; expected a map with any of level, initialDelay, timeout, replicas; {} takes the defaults
    9:3: dependentResourceInfos[1].scaleDown: missing; expected a map with any of level, initialDelay, timeout, replicas; {} takes the defaults
    "#);
    assert!(report.problems.is_sorted_by_key(|p| (p.line, p.column)));
}

#[test]
fn a_problem_is_plain_data_as_json() {
    let report = prober::parse(
        b"kubeConfigSecretName: a\ndependentResourceInfo: []",
        Strictness::Strict,
    );
    let json = serde_json::to_string_pretty(&report.unwrap_err()).unwrap();
    insta::assert_snapshot!(json, @r#"
    [
      {
        "severity": "error",
        "path": "dependentResourceInfos",
        "line": 1,
        "column": 1,
        "value": null,
        "message": "missing",
        "expected": "a list of at least one controller to scale",
        "hint": null
      },
      {
        "severity": "error",
        "path": "dependentResourceInfo",
        "line": 2,
        "column": 1,
        "value": null,
        "message": "unknown key",
        "expected": null,
        "hint": "did you mean `dependentResourceInfos`?"
      }
    ]
    "#);
}

#[test]
fn the_lenient_dialect_only_warns_about_unknown_keys_and_ignores_their_case() {
    let file = b"\
KubeconfigSecretName: probe-secret
PROBEINTERVAL: 20s
shardCount: 4
dependentResourceInfos:
- Ref: {apiversion: apps/v1, Kind: Deployment, name: kube-controller-manager}
  shouldExist: true
  scaleup: {}
  scaledown: {}
";
    let parsed = prober::parse(file, Strictness::Lenient).unwrap();
    assert_eq!(parsed.value.kubeconfig_secret, "probe-secret");
    assert_eq!(parsed.value.probe.probe_interval.as_secs(), 20);
    let warnings = Report {
        problems: parsed.warnings,
    };
    insta::assert_snapshot!(warnings, @r#"
    3:1: warning: shardCount: unknown key, ignored; expected one of name, namespace, kubeConfigSecretName, externalKubeConfigSecretName, probeInterval, initialDelay, probeTimeout, backoffJitterFactor, successThreshold, failureThreshold, leaseSuccessThreshold, leaseFailureThreshold, internalProbeFailureBackoffDuration, kcmNodeMonitorGraceDuration, nodeLeaseFailureFraction, nodeLeaseRecoveryFraction, fenceReserve, minCandidateNodes, dependentResourceInfos
    6:3: warning: dependentResourceInfos[0].shouldExist: unknown key, ignored; `optional` replaced it, with the opposite meaning
    "#);
    let strict = prober::parse(file, Strictness::Strict).unwrap_err();
    insta::assert_snapshot!(strict, @r#"
    1:1: KubeconfigSecretName: unknown key; did you mean `kubeConfigSecretName`?
    1:1: kubeConfigSecretName: missing; expected the name of the Secret with the kubeconfig
    2:1: PROBEINTERVAL: unknown key; did you mean `probeInterval`?
    3:1: shardCount: unknown key; expected one of name, namespace, kubeConfigSecretName, externalKubeConfigSecretName, probeInterval, initialDelay, probeTimeout, backoffJitterFactor, successThreshold, failureThreshold, leaseSuccessThreshold, leaseFailureThreshold, internalProbeFailureBackoffDuration, kcmNodeMonitorGraceDuration, nodeLeaseFailureFraction, nodeLeaseRecoveryFraction, fenceReserve, minCandidateNodes, dependentResourceInfos
    5:3: dependentResourceInfos[0].Ref: unknown key; did you mean `ref`?
    5:3: dependentResourceInfos[0].ref: missing; expected a map with apiVersion, kind, name
    5:3: dependentResourceInfos[0].scaleUp: missing; expected a map with any of level, initialDelay, timeout, replicas; {} takes the defaults
    5:3: dependentResourceInfos[0].scaleDown: missing; expected a map with any of level, initialDelay, timeout, replicas; {} takes the defaults
    6:3: dependentResourceInfos[0].shouldExist: unknown key; `optional` replaced it, with the opposite meaning
    7:3: dependentResourceInfos[0].scaleup: unknown key; did you mean `scaleUp`?
    8:3: dependentResourceInfos[0].scaledown: unknown key; did you mean `scaleDown`?
    "#);
}

#[test]
fn the_lenient_dialect_is_as_hard_on_everything_else() {
    let report = prober::parse(
        b"probeinterval: 10\nprobeInterval: 20s\nfoo: 1\n",
        Strictness::Lenient,
    );
    insta::assert_snapshot!(report.unwrap_err(), @r#"
    1:1: kubeConfigSecretName: missing; expected the name of the Secret with the kubeconfig
    1:1: dependentResourceInfos: missing; expected a list of at least one controller to scale
    1:16: probeinterval: 10 has no unit; expected a duration above zero such as 30s, 1m30s or 500ms; did you mean 10s?
    2:1: probeInterval: the same setting as `probeinterval` on line 1; expected it once
    3:1: warning: foo: unknown key, ignored; expected one of name, namespace, kubeConfigSecretName, externalKubeConfigSecretName, probeInterval, initialDelay, probeTimeout, backoffJitterFactor, successThreshold, failureThreshold, leaseSuccessThreshold, leaseFailureThreshold, internalProbeFailureBackoffDuration, kcmNodeMonitorGraceDuration, nodeLeaseFailureFraction, nodeLeaseRecoveryFraction, fenceReserve, minCandidateNodes, dependentResourceInfos
    "#);
    let report = weeder::parse(b"watchduration: never\nfoo: 1\n", Strictness::Lenient);
    insta::assert_snapshot!(report.unwrap_err(), @r#"
    1:1: servicesAndDependantSelectors: missing; expected a map from services to the pods that depend on them
    1:16: watchduration: never is not a duration; expected a duration above zero such as 30s, 1m30s or 500ms
    2:1: warning: foo: unknown key, ignored; expected one of watchDuration, servicesAndDependantSelectors, maxDeletionsPerPod, readiness, dryRun
    "#);
}

#[test]
fn a_second_document_only_warns_in_the_lenient_dialect() {
    let file = b"servicesAndDependantSelectors: {etcd: {podSelectors: [{matchLabels: {a: b}}]}}\n---\nmore: 1\n";
    let parsed = weeder::parse(file, Strictness::Lenient).unwrap();
    let [warning] = &parsed.warnings[..] else {
        panic!("{:?}", parsed.warnings);
    };
    insta::assert_snapshot!(warning, @"3:1: warning: the file has a second YAML document, ignored");
    assert!(weeder::parse(file, Strictness::Strict).is_err());
}
