//! Checks that every cluster is watched by exactly one shard.

use std::collections::BTreeSet;

use kelpie_config::ShardConfig;
use kelpie_kube::client::ClusterClient;
use kelpie_kube::leader::LeaseName;
use kelpie_kube::shard_leases::ShardLeases;
use kelpie_prober::{read_shard, unreadable_selector};

use super::seed::SeedInventory;
use super::table::CheckRow;
use crate::printable::printable;
use crate::summary::pluralize;

const SUBJECT: &str = "shards";
/// The number of clusters that a finding names.
const MOST_NAMED: usize = 3;

/// Evaluates the selectors of all shards. Returns a row, and the clusters of this shard. A Lease
/// counts whether or not it is renewed: one list cannot tell.
pub(super) async fn check(
    seed: &ClusterClient,
    namespace: &str,
    shard: &ShardConfig,
    inventory: &SeedInventory,
) -> (CheckRow, BTreeSet<String>) {
    let eligible = inventory.eligible();
    let own = eligible.filter(|(_, it)| shard.selector.matches(&it.labels));
    let own: BTreeSet<String> = own.map(|(name, _)| name.to_owned()).collect();
    let lease = LeaseName {
        namespace: namespace.to_owned(),
        name: shard.lease_name(),
    };
    let leases = ShardLeases::new(seed, lease, shard.name.as_str(), shard.ring());
    let row = match leases.list().await {
        Ok(leases) => {
            let bad = leases.iter().find_map(|lease| {
                let problem = unreadable_selector(lease)?;
                Some((lease.shard.as_str(), problem))
            });
            let others = leases.iter().map(read_shard);
            let others = others.filter(|it| *it.name != *shard.name);
            let others: Vec<_> = others.filter_map(|it| it.announcement.selector).collect();
            let (mut unwatched, mut contested) = (Vec::new(), Vec::new());
            for (name, it) in inventory.eligible() {
                let others = others.iter().filter(|other| other.matches(&it.labels));
                match usize::from(own.contains(name)) + others.count() {
                    0 => unwatched.push(name),
                    1 => {}
                    _ => contested.push(name),
                }
            }
            row(&unwatched, &contested, others.len() + 1, bad)
        }
        Err(cause) => CheckRow::fail(
            SUBJECT,
            format!("cannot list the Leases of shards in namespace {namespace}: {cause}"),
            "grant list on leases there; without it this shard restores nothing",
        ),
    };
    (row, own)
}

fn row(
    unwatched: &[&str],
    contested: &[&str],
    shards: usize,
    bad: Option<(&str, String)>,
) -> CheckRow {
    let remedy = "label the clusters so that exactly one clusterSelector matches each of them; a \
                  shard counts once it has run";
    if let Some((shard, problem)) = bad {
        let finding = format!(
            "the Lease of shard {} has no valid selector: {}",
            printable(shard),
            printable(&problem)
        );
        let remedy = "remove the Lease if that shard is gone, or restart the shard";
        return CheckRow::warn(SUBJECT, finding, remedy);
    }
    let shards = pluralize(shards, "shard", "shards");
    let named = |clusters: &[&str]| {
        let first: Vec<&str> = clusters.iter().take(MOST_NAMED).copied().collect();
        let more = clusters.len().saturating_sub(MOST_NAMED);
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        format!("{}{more}", first.join(", "))
    };
    if !unwatched.is_empty() {
        let finding = format!("{shards}, none of which watches {}", named(unwatched));
        return CheckRow::warn(SUBJECT, finding, remedy);
    }
    if !contested.is_empty() {
        let finding = format!("{shards}, of which several watch {}", named(contested));
        return CheckRow::warn(SUBJECT, finding, remedy);
    }
    CheckRow::ok(
        SUBJECT,
        format!("{shards}; each cluster is watched by exactly one"),
    )
}

#[cfg(test)]
mod tests {
    #[test]
    fn clusters_without_one_shard_warn() {
        let row = |unwatched: &[&str], contested: &[&str]| {
            format!("{:?}", super::row(unwatched, contested, 2, None))
        };
        let unwatched = row(&["a", "b", "c", "d"], &["e"]);
        assert!(unwatched.contains("2 shards, none of which watches a, b, c and 1 more"));
        assert!(unwatched.contains("status: Warn"), "{unwatched}");
        let contested = row(&[], &["e"]);
        assert!(
            contested.contains("of which several watch e"),
            "{contested}"
        );
        assert!(row(&[], &[]).contains("status: Ok"));
    }
}
