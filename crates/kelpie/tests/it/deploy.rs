//! Tests of the files under `deploy/`: everything they refer to exists.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::program::Program;
use crate::promql;

const DASHBOARDS: [&str; 2] = [
    include_str!("../../../../deploy/grafana/collector.json"),
    include_str!("../../../../deploy/grafana/prober.json"),
];

/// A file of alerts with the runbook that describes them.
struct AlertFile {
    alerts: &'static str,
    runbook: &'static str,
    page: &'static str,
}

const ALERT_FILES: [AlertFile; 5] = [
    AlertFile {
        alerts: include_str!("../../../../deploy/alerts/addon.yaml"),
        runbook: include_str!("../../../../docs/operate/runbooks/addon.md"),
        page: "docs/operate/runbooks/addon.md",
    },
    AlertFile {
        alerts: include_str!("../../../../deploy/alerts/collector.yaml"),
        runbook: include_str!("../../../../docs/operate/runbooks/collector.md"),
        page: "docs/operate/runbooks/collector.md",
    },
    AlertFile {
        alerts: include_str!("../../../../deploy/alerts/etcd.yaml"),
        runbook: include_str!("../../../../docs/operate/runbooks/etcd.md"),
        page: "docs/operate/runbooks/etcd.md",
    },
    AlertFile {
        alerts: include_str!("../../../../deploy/alerts/prober.yaml"),
        runbook: include_str!("../../../../docs/operate/runbooks/prober.md"),
        page: "docs/operate/runbooks/prober.md",
    },
    AlertFile {
        alerts: include_str!("../../../../deploy/alerts/weeder.yaml"),
        runbook: include_str!("../../../../docs/operate/runbooks/weeder.md"),
        page: "docs/operate/runbooks/weeder.md",
    },
];

/// Returns every series that Kelpie serves, read from the generated metrics reference.
fn series() -> BTreeSet<String> {
    let page = Program::new("deploy").run(&["generate", "metrics"]);
    let mut series = BTreeSet::new();
    for line in page.lines().filter(|line| line.starts_with("| `")) {
        let mut cells = line.split('|').map(str::trim).skip(1);
        let name = cells.next().unwrap().trim_matches('`').to_owned();
        if cells.next() == Some("histogram") {
            for suffix in ["bucket", "sum", "count"] {
                series.insert(format!("{name}_{suffix}"));
            }
        } else {
            series.insert(name);
        }
    }
    assert!(series.contains("kelpie_prober_leader"), "{page}");
    series
}

impl AlertFile {
    /// Returns the name and the lines of each alert.
    fn alerts(&self) -> Vec<(&'static str, &'static str)> {
        let alerts = self.alerts.split("  - alert: ").skip(1);
        alerts
            .map(|alert| alert.split_once('\n').unwrap())
            .collect()
    }

    /// Returns the alerts that have a section in the runbook.
    fn titles(&self) -> Vec<&'static str> {
        let lines = self.runbook.lines();
        let titles = lines.filter_map(|line| line.strip_prefix("### "));
        titles.filter(|title| title.starts_with("Kelpie")).collect()
    }
}

/// Returns the value of `key:` in an alert.
fn value<'a>(alert: &'a str, key: &str) -> Option<&'a str> {
    let line = |line: &'a str| line.trim_start().strip_prefix(key)?.strip_prefix(": ");
    alert.lines().find_map(line)
}

fn expressions(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value.as_str() {
                    Some(text) if name == "expr" => found.push(text.to_owned()),
                    // The variable's query: label_values(METRIC, label).
                    Some(text) if name == "definition" => {
                        let metric = text.trim_start_matches("label_values(").split(',').next();
                        found.push(metric.unwrap().to_owned());
                    }
                    _ => expressions(value, found),
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                expressions(item, found);
            }
        }
        _ => {}
    }
}

fn assert_metrics_exist(place: &str, expression: &str, series: &BTreeSet<String>) {
    let named = promql::metrics(expression);
    assert!(!named.is_empty(), "{place} uses no metric: {expression}");
    for name in named {
        assert!(series.contains(&name), "{place}: there is no {name}");
    }
}

#[test]
fn alerts_use_existing_metrics() {
    let series = series();
    for file in ALERT_FILES {
        let alerts = file.alerts();
        assert_eq!(alerts.len(), file.alerts.matches("expr:").count());
        for (name, alert) in alerts {
            assert_metrics_exist(name, value(alert, "expr").unwrap(), &series);
        }
    }
}

#[test]
fn every_alert_has_severity_and_runbook() {
    for file in ALERT_FILES {
        let titles: BTreeSet<String> = file.titles().iter().map(|t| t.to_lowercase()).collect();
        for (name, alert) in file.alerts() {
            let severity = value(alert, "severity").unwrap();
            assert!(
                ["critical", "warning", "info"].contains(&severity),
                "{name}"
            );
            assert!(
                value(alert, "summary").is_some_and(|text| text.len() > 20),
                "{name}"
            );
            let runbook = value(alert, "runbook").unwrap();
            let (page, anchor) = runbook.split_once('#').unwrap();
            assert_eq!((page, anchor), (file.page, &*name.to_lowercase()));
            assert!(titles.contains(anchor), "{page} has no {name}");
        }
    }
}

#[test]
fn runbook_lists_only_existing_alerts() {
    for file in ALERT_FILES {
        let mut titles = file.titles();
        let mut names: Vec<&str> = file.alerts().iter().map(|(name, _)| *name).collect();
        titles.sort_unstable();
        names.sort_unstable();
        assert_eq!(titles, names);
    }
}

#[test]
fn dashboards_use_existing_metrics() {
    let series = series();
    for dashboard in DASHBOARDS {
        let dashboard: Value = serde_json::from_str(dashboard).unwrap();
        let title = dashboard["title"].as_str().unwrap();
        let mut found = Vec::new();
        expressions(&dashboard, &mut found);
        assert!(found.len() > 15, "{title}");
        for expression in found {
            assert_metrics_exist(title, &expression, &series);
        }
    }
}

/// A metric that no dashboard shows is not worth exporting.
#[test]
fn collector_dashboard_shows_every_metric() {
    let mut found = Vec::new();
    expressions(&serde_json::from_str(DASHBOARDS[0]).unwrap(), &mut found);
    let shown: BTreeSet<String> = found
        .iter()
        .flat_map(|text| promql::metrics(text))
        .collect();
    let series = series();
    let own = series
        .iter()
        .filter(|name| name.starts_with("kelpie_collector_"));
    for name in own {
        assert!(shown.contains(name), "{name} is not shown");
    }
}

#[test]
fn dashboard_panels_do_not_overlap() {
    for dashboard in DASHBOARDS {
        assert_panels_do_not_overlap(&serde_json::from_str(dashboard).unwrap());
    }
}

fn assert_panels_do_not_overlap(dashboard: &Value) {
    let panels = dashboard["panels"].as_array().unwrap();
    let place = |panel: &Value, side: &str| panel["gridPos"][side].as_u64().unwrap();
    let mut taken = BTreeSet::new();
    let mut ids = BTreeSet::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64().unwrap()));
        for x in place(panel, "x")..place(panel, "x") + place(panel, "w") {
            for y in place(panel, "y")..place(panel, "y") + place(panel, "h") {
                assert!(x < 24 && taken.insert((x, y)), "{}", panel["title"]);
            }
        }
        let is_row = panel["type"] == "row";
        assert!(
            is_row || panel["description"].is_string(),
            "{}",
            panel["title"]
        );
    }
}

#[test]
fn roles_match_the_generated_ones() {
    let program = Program::new("roles");
    for (what, file) in [
        (
            "rbac-prober-seed",
            include_str!("../../../../deploy/rbac/prober-seed.yaml"),
        ),
        (
            "rbac-prober-shoot",
            include_str!("../../../../deploy/rbac/prober-shoot.yaml"),
        ),
        (
            "rbac-prober-guarded-shoot",
            include_str!("../../../../deploy/rbac/prober-guarded-shoot.yaml"),
        ),
    ] {
        let output = program.command(&["generate", what]).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), file, "{what}");
    }
    // Fewer targets need fewer permissions.
    let program = program.with_file(
        "one.yaml",
        "kubeConfigSecretName: dwd-internal
dependentResourceInfos:
- ref: {apiVersion: apps/v1, kind: StatefulSet, name: kcm}
  scaleUp: {level: 0}
  scaleDown: {level: 0}
",
    );
    let text = program.run(&["generate", "rbac-prober-seed", "--config-file", "one.yaml"]);
    assert!(text.contains("statefulsets/scale"), "{text}");
    assert!(!text.contains("deployments"), "{text}");
}
