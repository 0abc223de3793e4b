//! The alert rules and Grafana dashboards, checked by Prometheus itself.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
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

/// Reads a file of `deploy/alerts`.
fn alerts_file(name: &str) -> Value {
    let file = cache::repository().join("deploy/alerts").join(name);
    serde_saphyr::from_str(&fs::read_to_string(&file).unwrap()).unwrap()
}

/// Returns the alerts of a component with their rules.
fn alerts(component: &str) -> Vec<(String, Value)> {
    let rules = alerts_file(&format!("{component}.yaml"));
    let groups = rules["groups"].as_array().unwrap().iter();
    let rules = groups.flat_map(|group| group["rules"].as_array().unwrap());
    let alert = |rule: &Value| Some((rule["alert"].as_str()?.to_owned(), rule.clone()));
    rules.filter_map(alert).collect()
}

/// Names the alerts without a test in which they fire, or without one in which they are silent.
fn untested<'a>(alerts: impl Iterator<Item = &'a str>, tests: &Value) -> Vec<String> {
    let tests = tests["tests"].as_array().into_iter().flatten();
    let expectations: Vec<&Value> = tests
        .filter_map(|test| test["alert_rule_test"].as_array())
        .flatten()
        .collect();
    let mut untested = Vec::new();
    for alert in alerts {
        let of_alert = |expectation: &&&Value| expectation["alertname"] == alert;
        let fires = |expectation: &Value| {
            let expected = expectation["exp_alerts"].as_array();
            expected.is_some_and(|expected| !expected.is_empty())
        };
        let (firing, silent): (Vec<&Value>, Vec<&Value>) = expectations
            .iter()
            .filter(of_alert)
            .partition(|expectation| fires(expectation));
        if firing.is_empty() {
            untested.push(format!("{alert}: no test in which it fires"));
        }
        if silent.is_empty() {
            untested.push(format!("{alert}: no test in which it stays silent"));
        }
    }
    untested
}

#[test]
fn every_alert_fires_and_stays_silent_in_a_test() {
    for component in COMPONENTS {
        let (alerts, tests) = (
            alerts(component),
            alerts_file(&format!("{component}.test.yaml")),
        );
        assert!(!alerts.is_empty(), "{component} has no alerts");
        let untested = untested(alerts.iter().map(|(alert, _)| alert.as_str()), &tests);
        assert!(untested.is_empty(), "{component}.test.yaml: {untested:#?}");
    }
}

#[test]
fn untested_alert_is_named() {
    let tests = json!({ "tests": [{ "alert_rule_test": [
        { "alertname": "Both", "exp_alerts": [{ "exp_labels": {} }] },
        { "alertname": "Both" },
        { "alertname": "Silent", "exp_alerts": [] },
        { "alertname": "Firing", "exp_alerts": [{ "exp_labels": {} }] },
    ] }] });
    let alerts = ["Both", "Silent", "Firing"];
    let expected = [
        "Silent: no test in which it fires",
        "Firing: no test in which it stays silent",
    ];
    assert_eq!(untested(alerts.into_iter(), &tests), expected);
}

#[test]
fn every_file_of_rules_is_checked() {
    let files = fs::read_dir(cache::repository().join("deploy/alerts")).unwrap();
    for file in files {
        let name = file.unwrap().file_name().into_string().unwrap();
        let component = name.split('.').next().unwrap();
        assert!(COMPONENTS.contains(&component), "{name}");
    }
}

#[test]
fn every_alert_has_a_runbook() {
    for component in COMPONENTS {
        let page = format!("docs/operate/runbooks/{component}.md");
        let text = fs::read_to_string(cache::repository().join(&page)).unwrap();
        for (alert, rule) in alerts(component) {
            let link = format!("{page}#{}", alert.to_lowercase());
            assert_eq!(rule["annotations"]["runbook_url"], link, "{alert}");
            assert!(
                text.contains(&format!("\n### {alert}\n")),
                "{alert}: no section in {page}"
            );
        }
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
    for dashboard in ["addon", "collector", "etcd", "prober", "weeder"] {
        let file = format!("deploy/grafana/{dashboard}.json");
        check_dashboard(&cache::repository().join(file));
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
