//! The alert rules and Grafana dashboards, checked by Prometheus itself.

use std::fs;
use std::path::Path;

use serde_json::Value;
use xtask::cache;
use xtask::command::{output, program};

/// The components with alert rules.
const COMPONENTS: [&str; 5] = ["addon", "collector", "etcd", "prober", "weeder"];

/// Runs promtool on a file, and panics if it finds a problem.
fn promtool(arguments: &[&str], file: &Path) {
    let mut promtool = program(cache::find("promtool").unwrap(), arguments);
    let output = output(promtool.arg(file)).unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
}

#[test]
fn alert_rules_are_valid() {
    let alerts = cache::repository().join("deploy/alerts");
    for component in COMPONENTS {
        let file = format!("{component}.yaml");
        promtool(&["check", "rules"], &alerts.join(file));
    }
}

#[test]
fn alert_rule_tests_pass() {
    let alerts = cache::repository().join("deploy/alerts");
    for component in COMPONENTS {
        let file = format!("{component}.test.yaml");
        promtool(&["test", "rules"], &alerts.join(file));
    }
}

/// Values for the variables of Grafana.
const VARIABLES: [(&str, &str); 3] = [
    ("$__rate_interval", "5m"),
    ("$cluster", ".*"),
    ("$instance", ".*"),
];

#[test]
fn dashboard_expressions_are_valid() {
    for dashboard in ["collector.json", "prober.json"] {
        check_dashboard(&cache::repository().join("deploy/grafana").join(dashboard));
    }
}

fn check_dashboard(dashboard: &Path) {
    let dashboard: Value = serde_json::from_str(&fs::read_to_string(dashboard).unwrap()).unwrap();
    let mut rules = "groups:\n- name: board\n  rules:\n".to_owned();
    let targets = dashboard["panels"].as_array().unwrap().iter();
    let targets = targets
        .filter_map(|panel| panel["targets"].as_array())
        .flatten();
    for target in targets {
        let mut expression = target["expr"].as_str().unwrap().to_owned();
        for (name, value) in VARIABLES {
            expression = expression.replace(name, value);
        }
        // A JSON string is valid YAML.
        let expression = Value::String(expression).to_string();
        rules.extend(["  - record: panel\n    expr: ", &expression, "\n"]);
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("board.yaml");
    fs::write(&file, rules).unwrap();
    promtool(&["check", "rules"], &file);
}
