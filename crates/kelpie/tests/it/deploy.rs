//! The files under `deploy/`: they name only what is there.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::program::Program;
use crate::promql;

const BOARDS: [&str; 2] = [
    include_str!("../../../../deploy/grafana/collector.json"),
    include_str!("../../../../deploy/grafana/prober.json"),
];

/// A file of alerts and the page that says what to do about each.
struct Rules {
    alerts: &'static str,
    runbook: &'static str,
    page: &'static str,
}

const RULES: [Rules; 5] = [
    Rules {
        alerts: include_str!("../../../../deploy/alerts/addon.yaml"),
        runbook: include_str!("../../../../docs/addon.md"),
        page: "docs/addon.md",
    },
    Rules {
        alerts: include_str!("../../../../deploy/alerts/collector.yaml"),
        runbook: include_str!("../../../../docs/collector.md"),
        page: "docs/collector.md",
    },
    Rules {
        alerts: include_str!("../../../../deploy/alerts/etcd.yaml"),
        runbook: include_str!("../../../../docs/etcd.md"),
        page: "docs/etcd.md",
    },
    Rules {
        alerts: include_str!("../../../../deploy/alerts/prober.yaml"),
        runbook: include_str!("../../../../docs/operate.md"),
        page: "docs/operate.md",
    },
    Rules {
        alerts: include_str!("../../../../deploy/alerts/weeder.yaml"),
        runbook: include_str!("../../../../docs/weeder.md"),
        page: "docs/weeder.md",
    },
];

/// Every series that is served, from the reference that is made from it.
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

impl Rules {
    /// The alerts, each with its lines.
    fn alerts(&self) -> Vec<(&'static str, &'static str)> {
        let alerts = self.alerts.split("  - alert: ").skip(1);
        alerts
            .map(|alert| alert.split_once('\n').unwrap())
            .collect()
    }

    /// What the runbook has a section about.
    fn titles(&self) -> Vec<&'static str> {
        let lines = self.runbook.lines();
        let titles = lines.filter_map(|line| line.strip_prefix("### "));
        titles.filter(|title| title.starts_with("Kelpie")).collect()
    }
}

/// What stands behind `key:` in an alert.
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

fn assert_there(place: &str, expression: &str, series: &BTreeSet<String>) {
    let named = promql::metrics(expression);
    assert!(!named.is_empty(), "{place} names no metric: {expression}");
    for name in named {
        assert!(series.contains(&name), "{place}: there is no {name}");
    }
}

#[test]
fn alerts_name_only_metrics_that_exist() {
    let series = series();
    for rules in RULES {
        let alerts = rules.alerts();
        assert_eq!(alerts.len(), rules.alerts.matches("expr:").count());
        for (name, alert) in alerts {
            assert_there(name, value(alert, "expr").unwrap(), &series);
        }
    }
}

#[test]
fn every_alert_says_how_grave_it_is_and_where_to_read_on() {
    for rules in RULES {
        let titles: BTreeSet<String> = rules.titles().iter().map(|t| t.to_lowercase()).collect();
        for (name, alert) in rules.alerts() {
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
            assert_eq!((page, anchor), (rules.page, &*name.to_lowercase()));
            assert!(titles.contains(anchor), "{page} has no {name}");
        }
    }
}

#[test]
fn the_runbook_has_no_alert_that_is_gone() {
    for rules in RULES {
        let mut titles = rules.titles();
        let mut names: Vec<&str> = rules.alerts().iter().map(|(name, _)| *name).collect();
        titles.sort_unstable();
        names.sort_unstable();
        assert_eq!(titles, names);
    }
}

#[test]
fn the_boards_name_only_metrics_that_exist() {
    let series = series();
    for board in BOARDS {
        let board: Value = serde_json::from_str(board).unwrap();
        let title = board["title"].as_str().unwrap();
        let mut found = Vec::new();
        expressions(&board, &mut found);
        assert!(found.len() > 15, "{title}");
        for expression in found {
            assert_there(title, &expression, &series);
        }
    }
}

/// A number that nobody looks at is not worth counting.
#[test]
fn every_number_of_the_collector_is_on_its_board() {
    let mut found = Vec::new();
    expressions(&serde_json::from_str(BOARDS[0]).unwrap(), &mut found);
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
fn the_boards_have_a_place_for_each_panel() {
    for board in BOARDS {
        has_a_place_for_each_panel(&serde_json::from_str(board).unwrap());
    }
}

fn has_a_place_for_each_panel(board: &Value) {
    let panels = board["panels"].as_array().unwrap();
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
fn the_roles_are_what_the_program_says_it_needs() {
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
    ] {
        let output = program.command(&["generate", what]).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), file, "{what}");
    }
    // Fewer targets need fewer rights.
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

#[test]
fn the_image_is_built_with_the_toolchain_of_the_workspace() {
    let toolchain = include_str!("../../../../rust-toolchain.toml");
    let channel = toolchain.lines().find_map(|line| {
        let channel = line.strip_prefix("channel = \"")?;
        channel.strip_suffix('"')
    });
    let base = format!("FROM rust:{}-", channel.unwrap());
    let image = include_str!("../../../../Dockerfile");
    assert!(image.contains(&base), "no {base} in:\n{image}");
}
