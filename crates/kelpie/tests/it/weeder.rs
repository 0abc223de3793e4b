//! Tests of `kelpie weeder` that need no seed.

use crate::program::Program;

const GOOD: &str = "\
servicesAndDependantSelectors:
  etcd-main-client:
    podSelectors:
    - matchLabels: {role: apiserver}
";

const BROKEN: &str = "\
watchDuration: 5
servicesAndDependantSelectors:
  etcd-main-client:
    podSelectors:
    - matchExpressions:
      - {key: role, operator: Near, values: [a]}
      - {key: a b, operator: In, values: []}
    - {}
";

#[test]
fn invalid_selectors_are_reported_with_path() {
    let program = Program::new("weeder-broken").with_file("weeder.yaml", BROKEN);
    let transcript = program.run(&["weeder", "--config-file", "weeder.yaml"]);
    insta::assert_snapshot!(transcript);
}

#[test]
fn gardener_command_line_is_accepted() {
    for spelling in ["--", "-"] {
        let flags = [
            "config-file=missing.yaml",
            "kube-api-qps=20.0",
            "kube-api-burst=100",
            "zap-log-level=INFO",
            "enable-leader-election=true",
            "concurrent-reconciles=3",
        ];
        let flags = flags.map(|flag| format!("{spelling}{flag}"));
        let mut arguments = vec!["weeder"];
        arguments.extend(flags.iter().map(String::as_str));
        let program = Program::new("weeder-gardener").named("dependency-watchdog");
        let transcript = program.run(&arguments);
        // The flags are valid; only the file is missing.
        assert!(transcript.starts_with("exit code: 1\n"), "{transcript}");
        assert!(
            transcript.contains("cannot read missing.yaml"),
            "{transcript}"
        );
    }
}

#[test]
fn missing_kubeconfig_is_reported() {
    let program = Program::new("weeder-no-kubeconfig").with_file("weeder.yaml", GOOD);
    let arguments = ["--config-file=weeder.yaml", "--kubeconfig=nowhere"];
    let transcript = program.run(&["weeder", arguments[0], arguments[1]]);
    assert!(transcript.starts_with("exit code: 1\n"), "{transcript}");
    assert!(transcript.contains("nowhere"), "{transcript}");
    assert!(transcript.contains("--kubeconfig"), "{transcript}");
}
