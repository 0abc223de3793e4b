//! The content of a shard's Lease. That of other shards is input: it is limited and validated.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kelpie_config::{LabelSelector, prober};
use kelpie_core::prober::shard::{Announcement, ClusterList, ObservedShard, Revision};
use kelpie_kube::shard_leases::ShardLease;

const SELECTOR: &str = "cluster-selector";
const SEEN: &str = "clusters-seen";
const UNREADY: &str = "clusters-unready";
const RETAINED: &str = "clusters-retained";

/// The value of a list that would be longer than [`LONGEST_LIST`].
const ANY: &str = "*";
/// The longest list of clusters, in bytes. All annotations of a Lease may have 256 KiB.
const LONGEST_LIST: usize = 100_000;
const SEPARATOR: char = ',';

/// Returns the annotations of a shard's Lease, without their prefix.
pub(super) fn format(announcement: &Announcement<LabelSelector>) -> BTreeMap<String, String> {
    let selector = announcement.selector.as_ref();
    // A selector has no map with keys that are not strings.
    let selector = selector.and_then(|selector| serde_json::to_string(selector).ok());
    let entries = [
        (SELECTOR, selector.unwrap_or_default()),
        (SEEN, announcement.seen.get().to_string()),
        (UNREADY, format_list(&announcement.unready)),
        (RETAINED, format_list(&announcement.retained)),
    ];
    let filled = entries.into_iter().filter(|(_, value)| !value.is_empty());
    filled.map(|(key, value)| (key.to_owned(), value)).collect()
}

fn format_list(clusters: &ClusterList) -> String {
    let ClusterList::Named(names) = clusters else {
        return ANY.to_owned();
    };
    let length: usize = names.iter().map(|name| name.len() + 1).sum();
    if length > LONGEST_LIST {
        return ANY.to_owned();
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    names.join(&SEPARATOR.to_string())
}

/// Reads the Lease of a shard.
pub fn read_shard(lease: &ShardLease) -> ObservedShard<LabelSelector> {
    let text = |key: &str| lease.content.get(key).map_or("", String::as_str);
    ObservedShard {
        name: lease.shard.as_str().into(),
        renewal: lease.renewal.clone(),
        duration: lease.duration,
        announcement: Announcement {
            selector: prober::parse_selector(text(SELECTOR)).ok(),
            seen: Revision::parse(text(SEEN)),
            unready: read_list(text(UNREADY)),
            retained: read_list(text(RETAINED)),
        },
    }
}

/// Returns why the selector of a shard's Lease cannot be read; `None` if it can.
pub fn unreadable_selector(lease: &ShardLease) -> Option<String> {
    let text = lease.content.get(SELECTOR).map_or("", String::as_str);
    prober::parse_selector(text).err()
}

fn read_list(text: &str) -> ClusterList {
    if text == ANY || text.len() > LONGEST_LIST {
        return ClusterList::Any;
    }
    let names = text.split(SEPARATOR).filter(|name| !name.is_empty());
    ClusterList::Named(names.map(str::to_owned).collect())
}

/// Names clusters in a Lease.
pub(super) fn named<'a>(clusters: impl Iterator<Item = &'a String>) -> ClusterList {
    ClusterList::Named(clusters.cloned().collect::<BTreeSet<_>>())
}

/// Returns the name of a shard, for sets of them.
pub(super) fn names(shards: &[&Arc<str>]) -> String {
    let names: Vec<&str> = shards.iter().map(|name| &***name).collect();
    names.join(" and ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_list_may_be_any_cluster() {
        let few: BTreeSet<String> = ["a/b".to_owned(), "c".to_owned()].into();
        let few = ClusterList::Named(few);
        assert_eq!(format_list(&few), "a/b,c");
        assert_eq!(read_list("a/b,c"), few);
        assert_eq!(read_list(""), ClusterList::Named(BTreeSet::new()));
        let many = (0..20_000).map(|number| format!("shoot-{number}"));
        let many = ClusterList::Named(many.collect());
        assert_eq!(format_list(&many), "*");
        assert_eq!(read_list(&"x".repeat(LONGEST_LIST + 1)), ClusterList::Any);
    }
}
