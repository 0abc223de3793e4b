//! Tests of `kelpie prober` that need no seed.

use crate::program::Program;

const BROKEN: &str = "\
kubeConfigSecretName: dwd
probeIntervall: 10s
nodeLeaseFailureFraction: 2
dependentResourceInfos: []
";

#[test]
fn invalid_file_lists_all_problems() {
    let program = Program::new("broken").with_file("prober.yaml", BROKEN);
    let transcript = program.run(&["prober", "--config-file", "prober.yaml"]);
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
            "zap-encoder=json",
            "enable-leader-election=true",
            "concurrent-reconciles=5",
            "pprof-bind-addr=:9645",
        ];
        let flags = flags.map(|flag| format!("{spelling}{flag}"));
        let mut arguments = vec!["prober"];
        arguments.extend(flags.iter().map(String::as_str));
        let program = Program::new("gardener").named("dependency-watchdog");
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
    let good = "\
kubeConfigSecretName: dwd
dependentResourceInfos:
- ref: {apiVersion: apps/v1, kind: Deployment, name: kube-controller-manager}
  scaleUp: {}
  scaleDown: {}
";
    let program = Program::new("no-kubeconfig").with_file("prober.yaml", good);
    let arguments = ["--config-file=prober.yaml", "--kubeconfig=nowhere"];
    let transcript = program.run(&["prober", arguments[0], arguments[1]]);
    assert!(transcript.starts_with("exit code: 1\n"), "{transcript}");
    assert!(transcript.contains("nowhere"), "{transcript}");
    assert!(transcript.contains("--kubeconfig"), "{transcript}");
}
