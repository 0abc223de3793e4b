//! Tests of `kelpie demo`: the timeline, the report, and invalid scenarios.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command};

use kelpie_config::scenario::Scenario;
use serde_json::Value;

use crate::program::Program;

const SMALL: [&str; 5] = ["demo", "--clusters", "3", "--nodes", "3"];

/// Runs a scenario on a small fleet and returns the JSON report.
fn report(test: &str, scenario: &str) -> Value {
    let mut command = Program::new(test).command(&SMALL);
    let command = command.args(["--once", "--output", "json", "--scenario", scenario]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn count(report: &Value, side: &str, key: &str) -> u64 {
    let count = report[side][key].as_u64();
    count.unwrap_or_else(|| panic!("no {key} in {report}"))
}

#[test]
fn kelpie_adds_no_damage_in_any_scenario() {
    for name in Scenario::built_in_names() {
        let report = report("demo-scenarios", name);
        for key in ["nodesUnknown", "machinesReplaced", "podsEvicted"] {
            let (with, without) = (count(&report, "with", key), count(&report, "without", key));
            assert!(with <= without, "{name}: {report}");
        }
        for side in ["with", "without"] {
            assert!(
                report[side]["secondsToNormal"].is_number(),
                "{name}: {report}"
            );
        }
        assert_eq!(report["without"]["margins"].as_array().unwrap().len(), 0);
    }
}

#[test]
fn partition_causes_damage_only_without_kelpie() {
    let report = report("demo-partition", "partition");
    for key in ["nodesUnknown", "machinesReplaced", "podsEvicted"] {
        assert_eq!(count(&report, "with", key), 0, "{report}");
        assert!(count(&report, "without", key) > 0, "{report}");
    }
    let margins = report["with"]["margins"].as_array().unwrap();
    // The scenario cuts off a third of the three clusters.
    assert_eq!(margins.len(), 1, "{report}");
    let in_time = |margin: &Value| margin.as_f64().unwrap() > 0.0;
    assert!(margins.iter().all(in_time), "{report}");
}

#[test]
fn api_server_outage_fences_nothing() {
    let report = report("demo-outage", "api-outage");
    assert_eq!(report["with"]["margins"].as_array().unwrap().len(), 0);
}

#[test]
fn weeder_shortens_downtime_after_etcd_outage() {
    let report = report("demo-etcd", "etcd-outage");
    let downtime = |side: &str| report[side]["apiSecondsLost"].as_f64().unwrap();
    assert!(downtime("with") + 120.0 < downtime("without"), "{report}");
    let arguments = ["demo", "--once", "--scenario", "etcd-outage"];
    insta::assert_snapshot!(Program::new("demo").run(&arguments));
}

#[test]
fn output_is_a_timeline_and_a_report() {
    insta::assert_snapshot!(Program::new("demo").run(&["demo", "--once"]));
}

#[test]
fn guard_scales_nothing() {
    insta::assert_snapshot!(Program::new("demo").run(&["demo", "--once", "--guard"]));
}

#[test]
fn cluster_api_replaces_no_machine() {
    let run = |more: &[&str]| {
        let arguments = ["demo", "--once", "--source", "cluster-api"];
        Program::new("demo").run(&[&arguments[..], more].concat())
    };
    insta::assert_snapshot!("cluster_api_paused", run(&[]));
    insta::assert_snapshot!("cluster_api_guarded_and_paused", run(&["--guard"]));
}

#[test]
fn readme_quotes_the_real_output() {
    let readme = include_str!("../../../../README.md");
    let output = Program::new("demo").command(&["demo", "--once"]).output();
    let output = String::from_utf8(output.unwrap().stdout).unwrap();
    assert!(readme.contains(&output), "not in README.md:\n{output}");
}

#[test]
fn output_depends_on_seed_not_on_speed() {
    let run = |arguments: &[&str]| Program::new("demo").run(&[&SMALL[..], arguments].concat());
    let once = run(&["--once"]);
    assert_eq!(run(&["--speed", "10000"]), once);
    assert_ne!(run(&["--once", "--seed", "7"]), once);
}

#[test]
fn scenario_file_is_played() {
    let program = Program::new("demo-file").with_file(
        "own.yaml",
        "summary: the watchdog crashes, and the next one fences in time
length: 10m
incidents:
- {at: 1m, lasts: 4m, only: [0], fault: partition}
- {at: 20s, lasts: 5s, fault: crash}
- {at: 3m, fault: latency, by: 200ms}
",
    );
    let arguments = ["--once", "--scenario", "own.yaml"];
    insta::assert_snapshot!(program.run(&[&SMALL[..], &arguments].concat()));
}

#[test]
fn standby_fences_when_the_leader_dies() {
    let arguments = ["demo", "--once", "--scenario", "failover"];
    insta::assert_snapshot!(Program::new("demo-failover").run(&arguments));
    let alone = [&arguments[..], &["--replicas", "1", "--output", "json"]].concat();
    let output = Program::new("demo-alone").command(&alone).output().unwrap();
    let alone: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(alone["replicas"], 1, "{alone}");
    assert_eq!(count(&alone, "with", "nodesUnknown"), 20, "{alone}");
}

#[test]
fn faults_hit_the_leader() {
    let program = Program::new("demo-leader").with_file(
        "own.yaml",
        "replicas: 3
length: 5m
incidents:
- {at: 30100ms, lasts: 25s, fault: pause}
- {at: 90s, lasts: 0s, fault: crash}
- {at: 2m, lasts: 500ms, only: [0], fault: partition}
",
    );
    let arguments = ["--once", "--scenario", "own.yaml", "--replicas", "2"];
    insta::assert_snapshot!(program.run(&[&SMALL[..], &arguments].concat()));
}

/// Runs a scenario with these incidents and returns the margins with Kelpie.
fn margins(test: &str, incidents: &str) -> Vec<f64> {
    let scenario = format!("length: 12m\nincidents:\n{incidents}");
    let program = Program::new(test).with_file("own.yaml", &scenario);
    let arguments = ["--once", "--output", "json", "--scenario", "own.yaml"];
    let mut command = program.command(&[&SMALL[..], &arguments].concat());
    let output = command.output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let margins = report["with"]["margins"].as_array().unwrap().iter();
    margins.map(|margin| margin.as_f64().unwrap()).collect()
}

#[test]
fn controller_stopped_by_another_client_is_no_fence() {
    let stopped = "- {at: 1m, lasts: 5m, only: [0], fault: partition}
- {at: 65s, only: [0], fault: scale, controller: kube-controller-manager, replicas: 0}
- {at: 7m, only: [0], fault: scale, controller: kube-controller-manager, replicas: 1}
";
    assert_eq!(margins("demo-stopped", stopped), [0.0; 0]);
}

#[test]
fn partition_during_outage_is_fenced_in_time() {
    let both = "- {at: 1m, lasts: 2m, only: [0], fault: outage}
- {at: 150s, lasts: 5m, only: [0], fault: partition}
";
    let margins = margins("demo-both", both);
    assert!(margins.len() == 1 && margins[0] > 0.0, "{margins:?}");
}

#[test]
fn invalid_scenarios_are_rejected() {
    let program = Program::new("demo-wrong").with_file(
        "wrong.yaml",
        "length: 10m\nincidents:\n- {at: 1m, fault: earthquake}\n\
         - {at: 11m, fault: partition, zone: first}\n\
         - {at: 1m, fault: scale, controller: kcm, replicas: 0}\n",
    );
    let program = program.with_file(
        "eternal.yaml",
        "length: 1000h\nincidents: [{at: 1m, fault: crash}]\n",
    );
    let program = program.with_file(
        "no-cluster.yaml",
        "length: 10m\nincidents: [{at: 1m, only: [1, 12], fault: outage}]\n",
    );
    let program = program.with_file(
        "no-zone.yaml",
        "length: 10m\nincidents: [{at: 1m, fault: partition, zone: 3}]\n",
    );
    let transcripts = [
        &["demo", "--scenario", "earthquake"][..],
        &["demo", "--scenario", "wrong.yaml"],
        &["demo", "--scenario", "eternal.yaml"],
        &["demo", "--scenario", "no-cluster.yaml"],
        &["demo", "--scenario", "no-zone.yaml"],
        &["demo", "--scenario", "."],
        &["demo", "--speed", "fast"],
        &["demo", "--clusters", "0"],
        &["demo", "--replicas", "0"],
        &["demo", "--replicas", "x"],
        &["demo", "--keep", "--output", "json"],
    ]
    .map(|arguments| {
        let transcript = program.run(arguments);
        format!("$ kelpie {}\n{transcript}", arguments.join(" "))
    });
    insta::assert_snapshot!(transcripts.join("\n"));
}

#[test]
fn closed_pipe_ends_the_demo() {
    let mut child = Program::new("demo-pipe")
        .command(&[&SMALL[..], &["--speed", "30"]].concat())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().starts_with("kelpie demo"));
    // As `head` does. At this speed the demo would run for most of a minute.
    drop(lines);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[test]
fn keep_runs_until_ctrl_c() {
    let mut child = Program::new("demo-kept")
        .command(&[&SMALL[..], &["--once", "--keep", "--replicas", "2"]].concat())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut lines = lines.map(Result::unwrap);
    let folder = lines.find_map(|line| {
        let path = line.trim().strip_prefix("cd ")?;
        Some(std::path::PathBuf::from(path))
    });
    let kubeconfig = folder.unwrap().join("kubeconfig");
    for replica in ["prober-0", "prober-1", "weeder-0", "weeder-1"] {
        let address = format!("{replica}: http://127.0.0.1:");
        assert!(lines.any(|line| line.starts_with(&address)), "{replica}");
    }
    assert!(kubeconfig.exists());
    assert!(child.try_wait().unwrap().is_none());
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(!kubeconfig.exists());
}

fn interrupt(child: &Child) {
    let kill = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(kill.unwrap().success());
}

#[test]
fn ctrl_c_ends_the_demo() {
    let mut child = Program::new("demo-interrupted")
        .command(&["demo", "--speed", "0.1"])
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // The demo handles signals before it prints anything.
    let title = lines.next().unwrap().unwrap();
    assert!(title.starts_with("kelpie demo: partition"), "{title}");
    interrupt(&child);
    // At this speed the demo would run for hours.
    assert_eq!(child.wait().unwrap().code(), Some(130));
}
