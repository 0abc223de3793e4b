//! `kelpie prober`, as far as it comes without a seed.

use crate::program::Program;

const BROKEN: &str = "\
kubeConfigSecretName: dwd
probeIntervall: 10s
nodeLeaseFailureFraction: 2
dependentResourceInfos: []
";

#[test]
fn a_bad_configuration_ends_it_at_once_with_every_problem() {
    let program = Program::new("broken").with_file("prober.yaml", BROKEN);
    let said = program.run(&["prober", "--config-file", "prober.yaml"]);
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
            "zap-encoder=json",
            "enable-leader-election=true",
            "concurrent-reconciles=5",
            "pprof-bind-addr=:9645",
        ];
        let flags = flags.map(|flag| format!("{spelling}{flag}"));
        let mut arguments = vec!["prober"];
        arguments.extend(flags.iter().map(String::as_str));
        let program = Program::new("gardener").named("dependency-watchdog");
        let said = program.run(&arguments);
        // As far as the file, which is not there.
        assert!(said.starts_with("exit code: 1\n"), "{said}");
        assert!(said.contains("cannot read missing.yaml"), "{said}");
    }
}

#[test]
fn without_a_way_to_the_seed_it_says_what_to_do() {
    let good = "\
kubeConfigSecretName: dwd
dependentResourceInfos:
- ref: {apiVersion: apps/v1, kind: Deployment, name: kube-controller-manager}
  scaleUp: {}
  scaleDown: {}
";
    let program = Program::new("lost").with_file("prober.yaml", good);
    let arguments = ["--config-file=prober.yaml", "--kubeconfig=nowhere"];
    let said = program.run(&["prober", arguments[0], arguments[1]]);
    assert!(said.starts_with("exit code: 1\n"), "{said}");
    assert!(said.contains("nowhere"), "{said}");
    assert!(said.contains("--kubeconfig"), "{said}");
}
