//! Finds what fenced clusters have in common: the place to look first.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Time;
use crate::prober::{LeaseRole, LeaseTracker};

/// The most zones of a cluster that are told apart.
const MAX_ZONES: usize = 16;
/// The most clusters that are named.
const MAX_NAMED: usize = 20;
/// The most causes that are reported.
const MAX_CAUSES: usize = 5;

/// The place at which a cluster runs, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterOrigin {
    /// The infrastructure provider.
    pub provider: Option<String>,
    /// The region.
    pub region: Option<String>,
    /// The host of the API server.
    pub api_server: Option<String>,
    /// The zones in which most nodes are silent.
    pub zones: BTreeSet<String>,
}

/// A property that several affected clusters share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SharedCause {
    /// The kind of the property.
    pub kind: CauseKind,
    /// Its value.
    pub name: String,
    /// The number of affected clusters that have it.
    pub count: u32,
    /// The number of all affected clusters.
    pub affected: u32,
    /// The first of the clusters that have it, by name.
    pub clusters: Vec<String>,
}

/// The kind of a shared property. The most specific one comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CauseKind {
    /// The host of the API servers.
    ApiServer,
    /// A zone whose nodes are silent.
    Zone,
    /// The region of the clusters.
    Region,
    /// The infrastructure provider.
    Provider,
}

impl fmt::Display for CauseKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ApiServer => "API server address",
            Self::Zone => "zone",
            Self::Region => "region",
            Self::Provider => "provider",
        })
    }
}

/// Prints one sentence, such as `3 of 4 affected clusters share the zone eu-1a`.
impl fmt::Display for SharedCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind,
            name,
            count,
            affected,
            ..
        } = self;
        if *count == 2 && count == affected {
            write!(f, "both affected clusters share the {kind} {name}")
        } else if count == affected {
            write!(
                f,
                "all {affected} affected clusters share the {kind} {name}"
            )
        } else {
            write!(
                f,
                "{count} of {affected} affected clusters share the {kind} {name}"
            )
        }
    }
}

/// Returns the zones in which most of the counted nodes are silent at `now`. Where that are all of
/// several zones, none of them is the cause.
pub fn silent_zones(tracker: &LeaseTracker, grace: Duration, now: Time) -> BTreeSet<String> {
    let Some(nodes) = tracker.nodes() else {
        return BTreeSet::new();
    };
    let mut by_zone: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
    let counted = tracker.leases(grace);
    for lease in counted.filter(|lease| lease.role == LeaseRole::Candidate) {
        let zone = nodes.find(lease.name).and_then(|node| node.zone);
        let Some(zone) = zone.and_then(|zone| nodes.zone_name(zone.index())) else {
            continue;
        };
        let (silent, all) = by_zone.entry(zone).or_default();
        *silent += u32::from(lease.silent_at.min(lease.expires_at) <= now);
        *all += 1;
    }
    let count = by_zone.len();
    let silent = by_zone
        .into_iter()
        .filter(|(_, (silent, all))| 2 * silent > *all);
    let names = silent.map(|(zone, _)| zone.to_owned());
    let names: BTreeSet<String> = names.take(MAX_ZONES).collect();
    if count > 1 && names.len() == count {
        return BTreeSet::new();
    }
    names
}

/// Returns the properties that two or more, and at least half, of the affected clusters share. What
/// most of them share comes first, and of those the most specific.
pub fn shared_causes<'a>(
    affected: impl IntoIterator<Item = (&'a str, Option<&'a ClusterOrigin>)>,
) -> Vec<SharedCause> {
    let mut by_property: BTreeMap<(CauseKind, &str), BTreeSet<&str>> = BTreeMap::new();
    let mut count_affected = 0;
    for (cluster, origin) in affected {
        count_affected += 1;
        let Some(origin) = origin else { continue };
        let single = [
            (CauseKind::ApiServer, &origin.api_server),
            (CauseKind::Region, &origin.region),
            (CauseKind::Provider, &origin.provider),
        ];
        let single = single
            .into_iter()
            .filter_map(|(kind, name)| Some((kind, name.as_deref()?)));
        let zones = origin.zones.iter().map(|zone| (CauseKind::Zone, &**zone));
        for property in single.chain(zones) {
            by_property.entry(property).or_default().insert(cluster);
        }
    }
    let causes = by_property.into_iter().filter_map(|(property, clusters)| {
        let count = u32::try_from(clusters.len()).unwrap_or(u32::MAX);
        let is_shared = count >= 2 && 2 * count >= count_affected;
        is_shared.then(|| SharedCause {
            kind: property.0,
            name: property.1.to_owned(),
            count,
            affected: count_affected,
            clusters: clusters
                .into_iter()
                .take(MAX_NAMED)
                .map(str::to_owned)
                .collect(),
        })
    });
    let mut causes: Vec<SharedCause> = causes.collect();
    causes.sort_by(|a, b| (b.count, a.kind, &a.name).cmp(&(a.count, b.kind, &b.name)));
    causes.truncate(MAX_CAUSES);
    causes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(region: &str, zones: &[&str]) -> ClusterOrigin {
        ClusterOrigin {
            provider: Some("aws".to_owned()),
            region: Some(region.to_owned()),
            zones: zones.iter().map(|zone| (*zone).to_owned()).collect(),
            ..ClusterOrigin::default()
        }
    }

    fn texts(clusters: &[(&str, Option<ClusterOrigin>)]) -> Vec<String> {
        let clusters = clusters
            .iter()
            .map(|(name, origin)| (*name, origin.as_ref()));
        shared_causes(clusters)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn specific_cause_comes_before_a_general_one() {
        let found = texts(&[
            ("a", Some(origin("eu", &["eu-1a"]))),
            ("b", Some(origin("eu", &["eu-1a", "eu-1b"]))),
            ("c", Some(origin("us", &["us-1a"]))),
        ]);
        assert_eq!(
            found,
            [
                "all 3 affected clusters share the provider aws",
                "2 of 3 affected clusters share the zone eu-1a",
                "2 of 3 affected clusters share the region eu",
            ]
        );
    }

    #[test]
    fn nothing_is_shared_by_one_cluster_or_a_minority() {
        assert!(texts(&[("a", Some(origin("eu", &["eu-1a"])))]).is_empty());
        let minority = texts(&[
            ("a", Some(origin("eu", &["eu-1a"]))),
            ("b", Some(origin("eu", &["eu-1a"]))),
            ("c", None),
            ("d", None),
            ("e", None),
        ]);
        assert!(minority.is_empty(), "{minority:?}");
    }
}
