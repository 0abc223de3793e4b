//! The reference of metrics, read from a live registry.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use kelpie_etcd::{Access, Address, Member, Options, Remote, Target};
use kelpie_net::FilePaths;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::runtime::Builder;

use crate::prober::TURNING;

const HEAD: &str = "\
# Metrics

<!-- Made by `cargo xtask gen` from what the components serve. Edit the descriptions in the code instead. -->

`kelpie prober`, `kelpie weeder`, `kelpie addon status`, `kelpie addon operator` and `kelpie addon hop` serve these on
`--metrics-bind-addr`, `kelpie addon collector` and `kelpie etcd` on `--listen`, path `/metrics`, as OpenMetrics. The series of a cluster come with its probe and go with it. A histogram `x` is the series `x_bucket`, `x_sum` and `x_count`.
";

/// A title, and whether a family stands below it if it stands below none before.
type Section = (&'static str, fn(&Family) -> bool);

const SECTIONS: [Section; 7] = [
    ("The prober as a whole", |family| {
        family.is_of("prober") && !family.labels.contains("cluster")
    }),
    ("Each cluster of the prober", |family| {
        family.is_of("prober")
    }),
    ("The weeder", |family| family.is_of("weeder")),
    ("The checks of an etcd member", |family| {
        family.is_of("etcd")
    }),
    (
        "The addon's status controller, operator and hop",
        |family| family.is_of("addon"),
    ),
    ("The addon's collectors", |family| family.is_of("collector")),
    ("Checks behind `/livez` and `/readyz`", |_| true),
];

/// One family.
#[derive(Default)]
struct Family {
    name: String,
    kind: String,
    help: String,
    labels: BTreeSet<String>,
}

impl Family {
    fn is_of(&self, component: &str) -> bool {
        let rest = self.name.strip_prefix("kelpie_");
        rest.is_some_and(|rest| rest.starts_with(component))
    }
}

/// The page.
pub(super) fn page() -> Result<String> {
    let mut registry = Registry::default();
    let _prober = kelpie_prober::Exhibit::new(&mut registry);
    let _weeder = kelpie_weeder::Exhibit::new(&mut registry);
    kelpie_addon::exhibit(&mut registry);
    kelpie_collector::exhibit(&mut registry);
    etcd(&mut registry)?;
    let _health = TURNING.checks(&mut registry)?;
    let mut text = String::new();
    encode(&mut text, &registry).context("the metrics cannot be written")?;
    let mut families = read(&text);
    let mut page = HEAD.to_owned();
    for (title, is_of_it) in SECTIONS {
        // Writing to a String cannot fail.
        let _ = write!(
            page,
            "\n## {title}\n\n| name | type | labels | meaning |\n|---|---|---|---|\n"
        );
        page.extend(
            families
                .extract_if(.., |family| is_of_it(family))
                .map(|family| line(&family)),
        );
    }
    Ok(page)
}

/// An etcd member that nobody asks: it only lends its checks their names.
fn etcd(registry: &mut Registry) -> Result<()> {
    // Its client is made inside of one.
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let _inside = runtime.enter();
    let target = Target {
        endpoint: Address::parse("http://127.0.0.1:2379", false)?,
        metrics: None,
        access: Access::new(FilePaths::default()),
        user: None,
        log_in_wait: Duration::ZERO,
        pid: None,
    };
    let member: Arc<dyn Member> = Arc::new(Remote::new(target));
    let _checks = kelpie_etcd::checks(&member, &Options::default(), registry)?;
    Ok(())
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
            ("etcd", "kelpie_etcd_"),
        ] {
            assert!(families.contains(family), "{family}");
            assert!(head.contains(&format!("`kelpie {command}`")), "{command}");
        }
    }
}
