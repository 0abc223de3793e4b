//! The alert rules and the boards, as Prometheus itself judges them.

use std::fs;
use std::path::Path;

use serde_json::Value;
use xtask::cache;
use xtask::command::{output, program};

/// Who has alerts.
const COMPONENTS: [&str; 5] = ["addon", "collector", "etcd", "prober", "weeder"];

fn promtool(arguments: &[&str], file: &Path) {
    let mut promtool = program(cache::find("promtool").unwrap(), arguments);
    let said = output(promtool.arg(file)).unwrap();
    assert!(said.status.success(), "{arguments:?}: {said:?}");
}

#[test]
fn prometheus_accepts_the_alert_rules() {
    let alerts = cache::repository().join("deploy/alerts");
    for component in COMPONENTS {
        let file = format!("{component}.yaml");
        promtool(&["check", "rules"], &alerts.join(file));
    }
}

#[test]
fn alerts_come_when_they_should_and_only_then() {
    let alerts = cache::repository().join("deploy/alerts");
    for component in COMPONENTS {
        let file = format!("{component}.test.yaml");
        promtool(&["test", "rules"], &alerts.join(file));
    }
}

/// Grafana's variables stand for these in the test.
const VARIABLES: [(&str, &str); 3] = [
    ("$__rate_interval", "5m"),
    ("$cluster", ".*"),
    ("$instance", ".*"),
];

#[test]
fn prometheus_accepts_the_expressions_of_the_boards() {
    for board in ["collector.json", "prober.json"] {
        accepts(&cache::repository().join("deploy/grafana").join(board));
    }
}

fn accepts(board: &Path) {
    let board: Value = serde_json::from_str(&fs::read_to_string(board).unwrap()).unwrap();
    let mut rules = "groups:\n- name: board\n  rules:\n".to_owned();
    let targets = board["panels"].as_array().unwrap().iter();
    let targets = targets
        .filter_map(|panel| panel["targets"].as_array())
        .flatten();
    for target in targets {
        let mut expression = target["expr"].as_str().unwrap().to_owned();
        for (name, value) in VARIABLES {
            expression = expression.replace(name, value);
        }
        // JSON is YAML.
        let expression = Value::String(expression).to_string();
        rules.extend(["  - record: panel\n    expr: ", &expression, "\n"]);
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("board.yaml");
    fs::write(&file, rules).unwrap();
    promtool(&["check", "rules"], &file);
}
