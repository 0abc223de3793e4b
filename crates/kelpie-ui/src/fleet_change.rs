//! The difference between two renderings of a fleet.

use std::collections::BTreeMap;

use kelpie_core::prober::overview::{
    ClusterSummary, FleetDay, FleetState, FleetSummary, ReplicaInfo, SharedCause,
};
use serde::Serialize;

/// The difference between two renderings of a fleet.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FleetChange<'a> {
    replica: &'a ReplicaInfo,
    fleet: &'a FleetSummary,
    shared_causes: &'a [SharedCause],
    /// `None` if it is the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    day: Option<&'a FleetDay>,
    changed: Vec<&'a ClusterSummary>,
    removed: Vec<&'a str>,
}

impl<'a> FleetChange<'a> {
    pub(crate) fn between(before: &'a FleetState, after: &'a FleetState) -> Self {
        let mut known: BTreeMap<&str, &ClusterSummary> = BTreeMap::new();
        known.extend(
            before
                .clusters
                .iter()
                .map(|cluster| (&*cluster.id, cluster)),
        );
        let changed = after.clusters.iter().filter(|cluster| {
            let known = known.remove(&*cluster.id);
            known != Some(cluster)
        });
        let changed = changed.collect();
        Self {
            replica: &after.replica,
            fleet: &after.fleet,
            shared_causes: &after.shared_causes,
            day: (before.day != after.day).then_some(&after.day),
            changed,
            removed: known.into_keys().collect(),
        }
    }

    /// Returns whether nothing is different but the time.
    pub(crate) fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.removed.is_empty() && self.day.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::tests::fleet;

    #[test]
    fn change_has_only_what_differs() {
        let before = fleet(3);
        let mut after = before.clone();
        assert!(FleetChange::between(&before, &after).is_empty());
        after.clusters.remove(0);
        after.clusters[1].sentence = "another".to_owned();
        let change = FleetChange::between(&before, &after);
        let changed: Vec<&str> = change.changed.iter().map(|it| &*it.id).collect();
        assert_eq!((changed, change.removed), (vec!["c2"], vec!["c0"]));
    }
}
