//! `kelpie weeder`, as far as it comes without a seed.

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
fn selectors_that_are_none_end_it_at_once_with_path_and_reason() {
    let program = Program::new("weeder-broken").with_file("weeder.yaml", BROKEN);
    let said = program.run(&["weeder", "--config-file", "weeder.yaml"]);
    insta::assert_snapshot!(said);
}

#[test]
fn gardeners_command_line_is_understood_in_every_spelling() {
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
        let said = program.run(&arguments);
        // As far as the file, which is not there.
        assert!(said.starts_with("exit code: 1\n"), "{said}");
        assert!(said.contains("cannot read missing.yaml"), "{said}");
    }
}

#[test]
fn without_a_way_to_the_seed_it_says_what_to_do() {
    let program = Program::new("weeder-lost").with_file("weeder.yaml", GOOD);
    let arguments = ["--config-file=weeder.yaml", "--kubeconfig=nowhere"];
    let said = program.run(&["weeder", arguments[0], arguments[1]]);
    assert!(said.starts_with("exit code: 1\n"), "{said}");
    assert!(said.contains("nowhere"), "{said}");
    assert!(said.contains("--kubeconfig"), "{said}");
}
