//! The structure and order of reported problems.

use std::fmt::Write;

use kelpie_config::{
    ConfigError, ConfigProblem, Parsed, Severity, SourceConfig, Strictness, prober, weeder,
};

/// Renders each case with its name, its file and its problems, for a snapshot.
pub(crate) fn table<T>(
    cases: &[(&str, String)],
    parse: impl Fn(&[u8]) -> Result<Parsed<T>, ConfigError>,
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

/// Asserts the properties that every problem has.
fn check(name: &str, problem: &ConfigProblem) {
    assert!(
        problem.line > 0 && problem.column > 0,
        "{name}: no position"
    );
    assert!(!problem.message.is_empty(), "{name}: no message");
    let concerns_file = problem.message.starts_with("the file ");
    assert_eq!(problem.path.is_empty(), concerns_file, "{name}: {problem}");
    if !concerns_file && problem.severity == Severity::Error {
        let has_remedy = problem.expected.is_some() || problem.hint.is_some();
        assert!(
            has_remedy,
            "{name}: neither an expectation nor a hint: {problem}"
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
fn all_problems_are_reported_in_file_order() {
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
    insta::assert_snapshot!(report);
    assert!(report.problems.is_sorted_by_key(|p| (p.line, p.column)));
}

#[test]
fn problems_serialize_as_json() {
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
fn lenient_parsing_warns_about_unknown_keys() {
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
    let expected = SourceConfig::Gardener {
        kubeconfig_secret: "probe-secret".into(),
        external_kubeconfig_secret: None,
    };
    assert_eq!(parsed.value.source, expected);
    assert_eq!(parsed.value.probe.probe_interval.as_secs(), 20);
    let warnings = ConfigError {
        problems: parsed.warnings,
    };
    insta::assert_snapshot!(warnings);
    let strict = prober::parse(file, Strictness::Strict).unwrap_err();
    insta::assert_snapshot!(strict);
}

#[test]
fn lenient_parsing_still_rejects_invalid_values() {
    let report = prober::parse(
        b"probeinterval: 10\nprobeInterval: 20s\nfoo: 1\n",
        Strictness::Lenient,
    );
    insta::assert_snapshot!(report.unwrap_err());
    let report = weeder::parse(b"watchduration: never\nfoo: 1\n", Strictness::Lenient);
    insta::assert_snapshot!(report.unwrap_err());
}

#[test]
fn lenient_parsing_warns_about_second_document() {
    let file = b"\
servicesAndDependantSelectors: {etcd: {podSelectors: [{matchLabels: {a: b}}]}}
---
more: 1
";
    let parsed = weeder::parse(file, Strictness::Lenient).unwrap();
    let [warning] = &parsed.warnings[..] else {
        panic!("{:?}", parsed.warnings);
    };
    insta::assert_snapshot!(warning, @"3:1: warning: the file has a second YAML document, ignored");
    assert!(weeder::parse(file, Strictness::Strict).is_err());
}
