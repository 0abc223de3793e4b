//! The reference of metrics, read from a live registry.

use std::collections::BTreeSet;
use std::fmt::Write;

use anyhow::{Context, Result};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use crate::prober::TURNING;

const HEAD: &str = "\
# Metrics

<!-- Made by `cargo xtask gen` from what the components serve. Edit the descriptions in the code instead. -->

`kelpie prober`, `kelpie weeder`, `kelpie addon status`, `kelpie addon operator` and `kelpie addon hop` serve these on
`--metrics-bind-addr`, `kelpie addon collector` on `--listen`, path `/metrics`, as OpenMetrics. The series of a cluster come with its probe and go with it. A histogram `x` is the series `x_bucket`, `x_sum` and `x_count`.
";

/// One family.
#[derive(Default)]
struct Family {
    name: String,
    kind: String,
    help: String,
    labels: BTreeSet<String>,
}

/// The page.
pub(super) fn page() -> Result<String> {
    let mut registry = Registry::default();
    let _prober = kelpie_prober::Exhibit::new(&mut registry);
    let _weeder = kelpie_weeder::Exhibit::new(&mut registry);
    kelpie_addon::exhibit(&mut registry);
    kelpie_collector::exhibit(&mut registry);
    let _health = TURNING.checks(&mut registry)?;
    let mut text = String::new();
    encode(&mut text, &registry).context("the metrics cannot be written")?;
    let families = read(&text);
    let is_of = |family: &&Family, component: &str| family.name.starts_with(component);
    let is_of_a_cluster = |family: &&Family| family.labels.contains("cluster");
    let (prober, others): (Vec<_>, Vec<_>) = families
        .iter()
        .partition(|family| is_of(family, "kelpie_prober"));
    let (clusters, whole): (Vec<_>, Vec<_>) = prober.into_iter().partition(is_of_a_cluster);
    let (weeder, others): (Vec<_>, Vec<_>) = others
        .into_iter()
        .partition(|family| is_of(family, "kelpie_weeder"));
    let (addon, others): (Vec<_>, Vec<_>) = others
        .into_iter()
        .partition(|family| is_of(family, "kelpie_addon"));
    let (collector, health): (Vec<_>, Vec<_>) = others
        .into_iter()
        .partition(|family| is_of(family, "kelpie_collector"));
    let mut page = HEAD.to_owned();
    for (title, families) in [
        ("The prober as a whole", whole),
        ("Each cluster of the prober", clusters),
        ("The weeder", weeder),
        ("The addon's status controller, operator and hop", addon),
        ("The addon's collectors", collector),
        ("Checks behind `/livez` and `/readyz`", health),
    ] {
        // Writing to a String cannot fail.
        let _ = write!(
            page,
            "\n## {title}\n\n| name | type | labels | meaning |\n|---|---|---|---|\n"
        );
        page.extend(families.into_iter().map(line));
    }
    Ok(page)
}

fn line(family: &Family) -> String {
    let Family {
        name, kind, help, ..
    } = family;
    let suffix = if kind == "counter" { "_total" } else { "" };
    let labels: Vec<String> = family
        .labels
        .iter()
        .map(|name| format!("`{name}`"))
        .collect();
    let labels = labels.join(", ");
    let help = help.trim_end_matches('.');
    format!("| `{name}{suffix}` | {kind} | {labels} | {help} |\n")
}

/// The families of an exposition, in its order.
fn read(text: &str) -> Vec<Family> {
    let mut families = Vec::<Family>::new();
    for line in text.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("HELP"), Some(name), Some(help)) => families.push(Family {
                name: name.to_owned(),
                help: help.to_owned(),
                ..Family::default()
            }),
            (Some("#"), Some("TYPE"), Some(_), Some(kind)) => {
                if let Some(family) = families.last_mut() {
                    kind.clone_into(&mut family.kind);
                }
            }
            _ => {
                if let Some(family) = families.last_mut() {
                    family.labels.extend(labels(line));
                }
            }
        }
    }
    families
}

/// Names of the labels of a series. Values here are ours: none has a comma or a quote.
fn labels(line: &str) -> impl Iterator<Item = String> {
    let labels = line
        .split_once('{')
        .and_then(|(_, rest)| rest.split_once('}'));
    let labels = labels.map_or("", |(labels, _)| labels).split(',');
    let names = labels.filter_map(|label| Some(label.split_once('=')?.0.to_owned()));
    names.filter(|name| name != "le")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_begins_with_everybody_who_serves_what_follows() {
        let page = page().unwrap();
        let (head, families) = page.split_once("\n## ").unwrap();
        for (command, family) in [
            ("prober", "kelpie_prober_"),
            ("weeder", "kelpie_weeder_"),
            ("addon status", "kelpie_addon_settled_"),
            ("addon operator", "kelpie_addon_operator_"),
            ("addon hop", "kelpie_addon_hop_"),
            ("addon collector", "kelpie_collector_"),
        ] {
            assert!(families.contains(family), "{family}");
            assert!(head.contains(&format!("`kelpie {command}`")), "{command}");
        }
    }
}
