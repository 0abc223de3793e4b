//! Tests of `kelpie check-config`.

use crate::program::Program;

const PROBER: &str = "\
kubeConfigSecretName: shoot-access-dependency-watchdog-probe
dependentResourceInfos:
- ref: {apiVersion: apps/v1, kind: Deployment, name: kube-controller-manager}
  scaleUp: {level: 0}
  scaleDown: {level: 1}
- ref: {apiVersion: apps/v1, kind: Deployment, name: machine-controller-manager}
  scaleUp: {level: 1, initialDelay: 30s}
  scaleDown: {level: 0}
- ref: {apiVersion: apps/v1, kind: Deployment, name: cluster-autoscaler}
  optional: true
  scaleUp: {level: 2}
  scaleDown: {level: 0}
";

const BROKEN: &str = "\
kubeConfigSecretName: Probe
probeIntervall: 10s
kcmNodeMonitorGraceDuration: 40
nodeLeaseFailureFraction: 60
dependentResourceInfos:
- ref: {apiVersion: apps/v1, kind: Deployment, name: kube-controller-manager}
  scaleUp: {level: -1}
";

const WEEDER: &str = "\
servicesAndDependantSelectors:
  etcd-main-client:
    podSelectors:
    - matchExpressions:
      - {key: role, operator: In, values: [apiserver]}
  kube-apiserver:
    podSelectors:
    - matchLabels: {gardener.cloud/role: controlplane}
      matchExpressions:
      - {key: role, operator: NotIn, values: [main, apiserver]}
    - matchLabels: {app: kube-proxy}
";

#[test]
fn valid_file_is_summarized() {
    let program = Program::new("good").with_file("prober.yaml", PROBER);
    insta::assert_snapshot!(program.run(&["check-config", "prober", "prober.yaml"]));
}

#[test]
fn summary_shows_every_setting() {
    let file = format!(
        "name: shoots\nnamespace: shoot--dev--one\nexternalKubeConfigSecretName: outside\n\
         probeInterval: 20s\nbackoffJitterFactor: 0\nsuccessThreshold: 2\nfailureThreshold: 1\n\
         leaseSuccessThreshold: 2\nleaseFailureThreshold: 3\nnodeLeaseRecoveryFraction: 0.4\n\
         fenceReserve: 0s\nminCandidateNodes: 1\n{}",
        PROBER.replace("scaleUp: {level: 2}", "scaleUp: {level: 2, replicas: 3}")
    );
    let program = Program::new("settings").with_file("prober.yaml", file);
    insta::assert_snapshot!(program.run(&["check-config", "prober", "prober.yaml"]));
}

#[test]
fn summary_says_when_levels_never_wait() {
    let program = Program::new("reserve");
    for (reserve, never) in [("3s", false), ("4s", true), ("10s", true), ("15s", true)] {
        let file = format!("fenceReserve: {reserve}\n{PROBER}");
        let output = program.run_with_input(&["check-config", "prober", "-"], file.as_bytes());
        assert_eq!(
            output.contains("levels never wait for each other"),
            never,
            "{output}"
        );
    }
}

#[test]
fn all_problems_are_listed() {
    let program = Program::new("broken").with_file("prober.yaml", BROKEN);
    insta::assert_snapshot!(program.run(&["check-config", "prober", "prober.yaml"]));
}

#[test]
fn warnings_do_not_fail_the_check() {
    let file = format!("probeTimeout: 1m\n{PROBER}")
        .replace("scaleDown: {level: 1}", "scaleDown: {initialDelay: 15s}");
    let program = Program::new("warnings").with_file("prober.yaml", file);
    insta::assert_snapshot!(program.run(&["check-config", "prober", "prober.yaml"]));
}

#[test]
fn json_has_the_effective_configuration() {
    let program = Program::new("json").with_file("prober.yaml", PROBER);
    insta::assert_snapshot!(program.run(&["check-config", "prober", "prober.yaml", "-o", "json"]));
}

#[test]
fn json_has_the_problems() {
    let program = Program::new("json-broken").with_file("prober.yaml", "probeInterval: 10\n");
    insta::assert_snapshot!(program.run(&[
        "check-config",
        "--output=json",
        "prober",
        "prober.yaml"
    ]));
}

#[test]
fn weeder_file_is_read_from_stdin() {
    let transcript =
        Program::new("weeder").run_with_input(&["check-config", "weeder", "-"], WEEDER.as_bytes());
    insta::assert_snapshot!(transcript);
}

#[test]
fn summary_shows_every_weeder_setting() {
    let file =
        format!("watchDuration: 2m\nreadiness: all\ndryRun: true\nmaxDeletionsPerPod: 1\n{WEEDER}");
    let program = Program::new("weeder-settings").with_file("weeder.yaml", file);
    insta::assert_snapshot!(program.run(&["check-config", "weeder", "weeder.yaml"]));
    insta::assert_snapshot!(program.run(&["check-config", "weeder", "weeder.yaml", "-o", "json"]));
}

#[test]
fn problems_name_standard_input() {
    let transcript = Program::new("stdin")
        .run_with_input(&["check-config", "weeder", "-"], b"watchDuration: soon\n");
    insta::assert_snapshot!(transcript);
}

#[test]
fn unreadable_file_has_a_reason() {
    let program = Program::new("unreadable");
    insta::assert_snapshot!(program.run(&["check-config", "prober", "missing.yaml"]));
    insta::assert_snapshot!(program.run(&["check-config", "prober", "."]));
}

#[test]
fn unreadable_file_is_reported_as_json() {
    let program = Program::new("unreadable");
    insta::assert_snapshot!(program.run(&["check-config", "prober", "missing.yaml", "-o", "json"]));
}

#[test]
fn endless_file_is_rejected() {
    let transcript = Program::new("endless").run(&["check-config", "prober", "/dev/zero"]);
    insta::assert_snapshot!(transcript);
}

const UNKNOWN_KEYS: &str = "ShardCount: 4\nKubeConfigSecretname: probe\n";

#[test]
fn unknown_keys_are_errors_for_kelpie() {
    let targets = PROBER.lines().skip(1).collect::<Vec<_>>().join("\n");
    let program =
        Program::new("unknown-keys").with_file("prober.yaml", format!("{UNKNOWN_KEYS}{targets}"));
    insta::assert_snapshot!(program.run(&["check-config", "prober", "prober.yaml"]));
    let strict = program.named("dependency-watchdog");
    let transcript = strict.run(&["check-config", "prober", "prober.yaml", "--as", "kelpie"]);
    assert!(transcript.starts_with("exit code: 1\n"), "{transcript}");
}

#[test]
fn unknown_keys_are_warnings_for_dependency_watchdog() {
    let targets = PROBER.lines().skip(1).collect::<Vec<_>>().join("\n");
    let program = Program::new("dwd").with_file("prober.yaml", format!("{UNKNOWN_KEYS}{targets}"));
    let flagged = program.run(&[
        "check-config",
        "prober",
        "prober.yaml",
        "--as",
        "dependency-watchdog",
    ]);
    insta::assert_snapshot!(flagged);
    let started = program.named("/usr/local/bin/dependency-watchdog");
    assert_eq!(
        started.run(&["check-config", "prober", "prober.yaml"]),
        flagged
    );
}

#[test]
fn colours_only_on_request() {
    let program = Program::new("colours").with_file("prober.yaml", BROKEN);
    let mut command = program.command(&["check-config", "prober", "prober.yaml"]);
    let output = command.env("CLICOLOR_FORCE", "1").output().unwrap();
    assert!(
        output.stderr.contains(&0x1b),
        "no colours although they were requested"
    );
    assert!(
        !program
            .run(&["check-config", "prober", "prober.yaml"])
            .contains('\u{1b}')
    );
}

#[test]
fn reference_quotes_the_real_output() {
    let page = include_str!("../../../../docs/reference/config.md");
    let (_, section) = page.split_once("## A bad file").unwrap();
    let block = |fence: &str| {
        let (_, rest) = section.split_once(fence).unwrap();
        rest.split_once("```").unwrap().0
    };
    let program = Program::new("reference").with_file("prober.yaml", block("```yaml\n"));
    let transcript = program.run(&["check-config", "prober", "prober.yaml"]);
    let (_, output) = transcript.split_once("----- stderr -----\n").unwrap();
    assert_eq!(
        format!("$ kelpie check-config prober prober.yaml\n{output}"),
        block("```console\n")
    );
}

#[test]
fn documented_examples_have_no_warnings() {
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples");
    let program = Program::new("examples");
    for (component, example) in [
        ("prober", "prober"),
        ("prober", "prober-cluster-api"),
        ("prober", "prober-secrets"),
        ("weeder", "weeder"),
    ] {
        let file = format!("{examples}/{example}.yaml");
        let output = program.run(&["check-config", component, &file]);
        assert!(output.starts_with("exit code: 0\n"), "{output}");
        assert!(!output.contains("stderr"), "{output}");
    }
}
