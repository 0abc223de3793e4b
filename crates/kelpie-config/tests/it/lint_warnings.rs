//! Warnings about valid files with settings that cannot work.

use kelpie_config::{Severity, Strictness, prober};

fn with(lines: &str) -> String {
    format!(
        "\
kubeConfigSecretName: probe-secret
dependentResourceInfos:
- ref: {{apiVersion: apps/v1, kind: Deployment, name: kube-controller-manager}}
  scaleUp: {{}}
  scaleDown: {{}}
{lines}
"
    )
}

/// A file with `lines`, then targets `a`, `b`, … with these `scaleDown` rules.
fn downs(lines: &str, downs: &[&str]) -> String {
    let targets: Vec<_> = ('a'..)
        .zip(downs)
        .map(|(name, down)| {
            format!(
                "- ref: {{apiVersion: apps/v1, kind: Deployment, name: {name}}}\n  \
                 scaleUp: {{}}\n  scaleDown: {down}\n"
            )
        })
        .collect();
    let targets = targets.concat();
    format!("kubeConfigSecretName: probe-secret\n{lines}\ndependentResourceInfos:\n{targets}")
}

fn cases() -> Vec<(&'static str, String)> {
    vec![
        (
            "round longer than the grace period",
            with("probeTimeout: 41s"),
        ),
        (
            "grace period shorter than the default round",
            with("kcmNodeMonitorGraceDuration: 25s"),
        ),
        (
            "grace period too short for the renewals",
            with("kcmNodeMonitorGraceDuration: 20s\nprobeTimeout: 5s"),
        ),
        (
            "every node, and no last call",
            with("nodeLeaseFailureFraction: 1\nfenceReserve: 0s"),
        ),
        (
            "more failures than seconds",
            with("leaseFailureThreshold: 5"),
        ),
        (
            "more failures than seconds of a longer grace period",
            with("kcmNodeMonitorGraceDuration: 50s\nleaseFailureThreshold: 8"),
        ),
        (
            "more failures than last call leaves",
            with("nodeLeaseFailureFraction: 0.9\nleaseFailureThreshold: 4"),
        ),
        (
            "grace period shorter than four times the reserve",
            with(
                "kcmNodeMonitorGraceDuration: 11s\nnodeLeaseFailureFraction: 0.1\nprobeTimeout: 5s",
            ),
        ),
        (
            "grace period of nanoseconds",
            with("kcmNodeMonitorGraceDuration: 3ns\nprobeTimeout: 1ns"),
        ),
        (
            "grace period of more than an hour",
            with("kcmNodeMonitorGraceDuration: 40h"),
        ),
        ("last call before expiry", with("fenceReserve: 11s")),
        (
            "one Secret for both probes",
            with("externalKubeConfigSecretName: probe-secret"),
        ),
        (
            "a delay beyond the budget",
            downs("", &["{initialDelay: 15s}"]),
        ),
        (
            "a delay of just the budget",
            downs("", &["{initialDelay: 4s}"]),
        ),
        (
            "delays add up over levels",
            downs(
                "",
                &[
                    "{level: 0, initialDelay: 1s}",
                    "{level: 1, initialDelay: 3s}",
                ],
            ),
        ),
        (
            "without reserve levels wait in vain",
            downs(
                "fenceReserve: 0s",
                &["{level: 0, initialDelay: 5s}", "{level: 1}"],
            ),
        ),
        (
            "a fence that leaves something running",
            downs("", &["{replicas: 1}"]),
        ),
    ]
}

#[test]
fn warnings_show_the_calculation() {
    let cases = cases();
    for (name, file) in &cases {
        let parsed = prober::parse(file.as_bytes(), Strictness::Strict).expect(name);
        assert!(!parsed.warnings.is_empty(), "{name}: no warning");
        assert!(
            parsed
                .warnings
                .iter()
                .all(|w| w.severity == Severity::Warning)
        );
    }
    let table =
        super::error_report::table(&cases, |bytes| prober::parse(bytes, Strictness::Strict));
    insta::assert_snapshot!(table);
}

#[test]
fn sensible_settings_have_no_warning() {
    for (name, file) in [
        ("defaults", with("")),
        (
            "grace period of 50 s",
            with("kcmNodeMonitorGraceDuration: 50s"),
        ),
        (
            "grace period of an hour",
            with("kcmNodeMonitorGraceDuration: 1h"),
        ),
        (
            "four failures in four seconds",
            with("leaseFailureThreshold: 4"),
        ),
        (
            "every node: last call trips",
            with("nodeLeaseFailureFraction: 1"),
        ),
        (
            "a delay within the budget",
            downs("", &["{initialDelay: 3s}"]),
        ),
        (
            "an earlier level's delay ends with the reserve",
            downs("", &["{level: 0, initialDelay: 3s}", "{level: 1}"]),
        ),
        (
            "a round as long as the grace period",
            with("probeTimeout: 40s"),
        ),
        ("a quarter as reserve", with("fenceReserve: 10s")),
        ("a long interval", with("probeInterval: 30s")),
        (
            "a delay on the way up",
            downs("", &["{}"]).replace("scaleUp: {}", "scaleUp: {initialDelay: 30s}"),
        ),
    ] {
        let parsed = prober::parse(file.as_bytes(), Strictness::Strict).expect(name);
        assert_eq!(parsed.warnings, [], "{name}");
    }
}

#[test]
fn invalid_files_get_no_lint_warnings() {
    let report = prober::parse(
        with("probeTimeout: 5m\nprobeInterval: 0s").as_bytes(),
        Strictness::Strict,
    );
    assert!(
        report
            .unwrap_err()
            .problems
            .iter()
            .all(|p| p.severity == Severity::Error)
    );
}
