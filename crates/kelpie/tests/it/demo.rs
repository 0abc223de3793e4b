//! `kelpie demo`: the story, the report, and what cannot be played.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command};

use kelpie_config::scenario::Scenario;
use serde_json::Value;

use crate::program::Program;

const SMALL: [&str; 5] = ["demo", "--clusters", "3", "--nodes", "3"];

/// What a script gets to see of a small fleet.
fn report(test: &str, scenario: &str) -> Value {
    let mut command = Program::new(test).command(&SMALL);
    let command = command.args(["--once", "--output", "json", "--scenario", scenario]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn count(report: &Value, side: &str, what: &str) -> u64 {
    let count = report[side][what].as_u64();
    count.unwrap_or_else(|| panic!("no {what} in {report}"))
}

#[test]
fn no_scenario_breaks_more_with_kelpie_than_without() {
    for name in Scenario::built_in_names() {
        let report = report("demo-scenarios", name);
        for what in ["nodesUnknown", "machinesReplaced", "podsEvicted"] {
            let (with, without) = (
                count(&report, "with", what),
                count(&report, "without", what),
            );
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
fn a_partition_costs_nothing_with_kelpie_and_machines_without() {
    let report = report("demo-partition", "partition");
    for what in ["nodesUnknown", "machinesReplaced", "podsEvicted"] {
        assert_eq!(count(&report, "with", what), 0, "{report}");
        assert!(count(&report, "without", what) > 0, "{report}");
    }
    let margins = report["with"]["margins"].as_array().unwrap();
    // A third of three clusters.
    assert_eq!(margins.len(), 1, "{report}");
    let in_time = |margin: &Value| margin.as_f64().unwrap() > 0.0;
    assert!(margins.iter().all(in_time), "{report}");
}

#[test]
fn an_outage_of_api_servers_fences_nothing() {
    let report = report("demo-outage", "api-outage");
    assert_eq!(report["with"]["margins"].as_array().unwrap().len(), 0);
}

#[test]
fn after_an_outage_of_etcd_the_weeder_gets_api_servers_back_minutes_earlier() {
    let report = report("demo-etcd", "etcd-outage");
    let lost = |side: &str| report[side]["apiSecondsLost"].as_f64().unwrap();
    assert!(lost("with") + 120.0 < lost("without"), "{report}");
    insta::assert_snapshot!(Program::new("demo").run(&[
        "demo",
        "--once",
        "--scenario",
        "etcd-outage"
    ]));
}

#[test]
fn the_story_is_told_line_by_line_and_ends_with_the_damage() {
    insta::assert_snapshot!(Program::new("demo").run(&["demo", "--once"]));
}

#[test]
fn the_readme_shows_what_is_told() {
    let readme = include_str!("../../../../README.md");
    let output = Program::new("demo").command(&["demo", "--once"]).output();
    let story = String::from_utf8(output.unwrap().stdout).unwrap();
    assert!(readme.contains(&story), "README.md has not:\n{story}");
}

#[test]
fn the_story_depends_on_the_seed_and_not_on_the_speed() {
    let told = |arguments: &[&str]| Program::new("demo").run(&[&SMALL[..], arguments].concat());
    let quick = told(&["--once"]);
    assert_eq!(told(&["--speed", "10000"]), quick);
    assert_ne!(told(&["--once", "--seed", "7"]), quick);
}

#[test]
fn a_scenario_of_ones_own_is_played() {
    let program = Program::new("demo-file").with_file(
        "own.yaml",
        "summary: the watchdog dies, and its successor does what has to be done
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

/// Margins, with Kelpie, of a scenario of one's own.
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
fn what_somebody_else_stops_is_no_fence_of_kelpies() {
    let stopped = "- {at: 1m, lasts: 5m, only: [0], fault: partition}
- {at: 65s, only: [0], fault: scale, controller: kube-controller-manager, replicas: 0}
- {at: 7m, only: [0], fault: scale, controller: kube-controller-manager, replicas: 1}
";
    assert_eq!(margins("demo-somebody", stopped), [0.0; 0]);
}

#[test]
fn a_partition_that_begins_in_an_outage_counts_from_its_end() {
    let both = "- {at: 1m, lasts: 2m, only: [0], fault: outage}
- {at: 150s, lasts: 5m, only: [0], fault: partition}
";
    let margins = margins("demo-both", both);
    assert!(margins.len() == 1 && margins[0] > 0.0, "{margins:?}");
}

#[test]
fn what_cannot_be_played_is_told_with_what_can() {
    let program = Program::new("demo-wrong").with_file(
        "wrong.yaml",
        "length: 10m\nincidents:\n- {at: 1m, fault: earthquake}\n- {at: 11m, fault: partition, zone: first}\n- {at: 1m, fault: scale, controller: kcm, replicas: 0}\n",
    );
    let program = program.with_file(
        "eternal.yaml",
        "length: 1000h\nincidents: [{at: 1m, fault: crash}]\n",
    );
    let program = program.with_file(
        "nobody.yaml",
        "length: 10m\nincidents: [{at: 1m, only: [1, 12], fault: outage}]\n",
    );
    let program = program.with_file(
        "nowhere.yaml",
        "length: 10m\nincidents: [{at: 1m, fault: partition, zone: 3}]\n",
    );
    let told = [
        &["demo", "--scenario", "earthquake"][..],
        &["demo", "--scenario", "wrong.yaml"],
        &["demo", "--scenario", "eternal.yaml"],
        &["demo", "--scenario", "nobody.yaml"],
        &["demo", "--scenario", "nowhere.yaml"],
        &["demo", "--scenario", "."],
        &["demo", "--speed", "fast"],
        &["demo", "--clusters", "0"],
        &["demo", "--keep", "--output", "json"],
    ]
    .map(|arguments| {
        let transcript = program.run(arguments);
        format!("$ kelpie {}\n{transcript}", arguments.join(" "))
    });
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn it_ends_quietly_when_nobody_reads_it_any_more() {
    let mut child = Program::new("demo-unread")
        .command(&[&SMALL[..], &["--speed", "30"]].concat())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().starts_with("kelpie demo"));
    // As `head` does. At this speed the story would go on for most of a minute.
    drop(lines);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[test]
fn it_stays_up_until_ctrl_c_if_it_is_to_be_kept() {
    let mut child = Program::new("demo-kept")
        .command(&[&SMALL[..], &["--once", "--keep"]].concat())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut lines = lines.map(Result::unwrap);
    let folder = lines.find_map(|line| {
        let path = line.trim().strip_prefix("cd ")?;
        Some(std::path::PathBuf::from(path))
    });
    let kubeconfig = folder.unwrap().join("kubeconfig");
    assert!(lines.any(|line| line.starts_with("weeder: http://127.0.0.1:")));
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
fn ctrl_c_ends_it_at_once() {
    let mut child = Program::new("demo-interrupted")
        .command(&["demo", "--speed", "0.1"])
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // It listens before it says anything.
    let title = lines.next().unwrap().unwrap();
    assert!(title.starts_with("kelpie demo: partition"), "{title}");
    interrupt(&child);
    // At this speed the story takes hours.
    assert_eq!(child.wait().unwrap().code(), Some(130));
}
