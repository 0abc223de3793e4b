//! Tests of `kelpie replay`, with the recording of a simulated partition.

use crate::program::Program;

const INCIDENT: &str = include_str!("../../../kelpie-prober/tests/recordings/partition.jsonl");

fn program(test: &str) -> Program {
    Program::new(test).with_file("partition.jsonl", INCIDENT)
}

#[test]
fn recorded_fence_is_shown_with_its_margin() {
    let output = program("replay_recorded").run(&["replay", "partition.jsonl"]);
    assert!(output.starts_with("exit code: 0\n"), "{output}");
    assert!(
        output.contains("all as recorded, byte for byte"),
        "{output}"
    );
    assert!(output.contains("fence 2023-11-14"), "{output}");
    assert!(output.contains(" s left"), "{output}");
}

#[test]
fn other_grace_is_shown_beside_the_record() {
    let arguments = ["replay", "partition.jsonl", "--grace", "10m"];
    let output = program("replay_grace").run(&arguments);
    assert!(output.starts_with("exit code: 0\n"), "{output}");
    assert!(
        output.contains("kcmNodeMonitorGraceDuration: 40s -> 10m0s"),
        "{output}"
    );
    assert!(output.contains("differs  fence 2023-11-14"), "{output}");
    assert!(output.contains("left  no fence"), "{output}");
}

#[test]
fn other_configuration_is_shown_beside_the_record() {
    let config = "\
kubeConfigSecretName: shoot-access-dependency-watchdog-probe
kcmNodeMonitorGraceDuration: 40s
minCandidateNodes: 6
dependentResourceInfos:
- ref: {apiVersion: apps/v1, kind: Deployment, name: kube-controller-manager}
  scaleUp: {level: 0}
  scaleDown: {level: 1}
";
    let program = program("replay_config").with_file("other.yaml", config);
    let arguments = ["replay", "partition.jsonl", "--config", "other.yaml"];
    let output = program.run(&arguments);
    assert!(output.contains("minCandidateNodes: 2 -> 6"), "{output}");
    assert!(output.contains("left  no fence"), "{output}");
    let json = program.run(&[&arguments[..], &["-o", "json"]].concat());
    assert!(json.contains("\"different\": 0"), "{json}");
    assert!(json.contains("\"wantedAt\": \"2023-11-14T"), "{json}");
    assert!(json.contains("\"other\": []"), "{json}");
}

#[test]
fn changed_record_fails() {
    let changed = INCIDENT.replacen("\"verdict\":\"fence\"", "\"verdict\":\"hold\"", 1);
    let program = Program::new("replay_changed").with_file("changed.jsonl", changed);
    let output = program.run(&["replay", "changed.jsonl"]);
    assert!(output.starts_with("exit code: 1\n"), "{output}");
    assert!(output.contains("1 not as recorded"), "{output}");
}

#[test]
fn unreadable_record_names_the_line() {
    let lines: Vec<&str> = INCIDENT.lines().take(2).collect();
    let broken = format!("{}\n{}\nnonsense\n", lines[0], lines[1]);
    let program = Program::new("replay_broken").with_file("broken.jsonl", broken);
    let output = program.run(&["replay", "broken.jsonl"]);
    assert!(output.starts_with("exit code: 1\n"), "{output}");
    assert!(
        output.contains("broken.jsonl:3: not a line of a record"),
        "{output}"
    );
    let output = program.run(&["replay", "nowhere"]);
    assert!(output.contains("nowhere: No such file"), "{output}");
}
