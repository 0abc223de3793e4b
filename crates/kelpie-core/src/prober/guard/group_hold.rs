//! Zones and worker pools whose nodes fall silent together.
//!
//! A zone that is cut off is too small a part of a cluster to trip it. Its nodes can be held back
//! for a limited time all the same.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Time;
use crate::prober::ProbeSettings;
use crate::prober::leases::{GraceLimits, Heartbeat};
use crate::prober::nodes::GroupId;

/// The kind of a group of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum GroupKind {
    /// A zone, by the label of Kubernetes.
    Zone,
    /// A worker pool, by the label of the platform.
    Pool,
}

/// How long the nodes of a silent group are held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupHold {
    /// The longest time for which they are held back; zero if they are not.
    pub hold: Duration,
    /// A group with fewer candidates is not held back.
    pub min_nodes: u32,
}

impl Default for GroupHold {
    fn default() -> Self {
        Self {
            hold: Duration::ZERO,
            min_nodes: 3,
        }
    }
}

/// A group whose nodes are held back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeldGroup {
    /// Zone or worker pool.
    pub kind: GroupKind,
    /// The value of its label.
    pub name: String,
    /// The instant from which its nodes may turn Unknown.
    pub until: Time,
}

impl fmt::Display for HeldGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            GroupKind::Zone => "zone",
            GroupKind::Pool => "pool",
        };
        write!(f, "{kind} {} held until {}", self.name, self.until)
    }
}

/// The candidates of a group at one instant, as far as they count.
#[derive(Clone, Copy, Debug)]
struct GroupTally {
    /// The newest renewal among the late candidates.
    newest: Time,
    /// The candidates that renew, or fell silent together with the newest late one.
    members: u32,
    /// The late ones among them.
    late: u32,
}

impl GroupTally {
    const EMPTY: Self = Self {
        newest: Time::MIN,
        members: 0,
        late: 0,
    };
}

/// The groups of one kind that are held back at one instant.
#[derive(Debug, Default)]
pub(super) struct HeldGroups {
    /// The end of the hold by the number of the group; [`Time::MIN`] for groups that are not held.
    until: Vec<Time>,
}

impl HeldGroups {
    /// Finds the silent groups among candidates that were renewed before.
    ///
    /// Only the leases count, not when this process saw them: replicas come to the same result, and
    /// a restart does not prolong a hold. A node that died long before the others has no part in
    /// their silence.
    pub(super) fn find<'a>(
        candidates: impl Iterator<Item = (GroupId, &'a Heartbeat)> + Clone,
        hold: GroupHold,
        limits: &GraceLimits,
        now: Time,
        settings: &ProbeSettings,
    ) -> Self {
        if hold.hold.is_zero() {
            return Self::default();
        }
        let is_late = |heartbeat: &Heartbeat| heartbeat.late_at(limits) < now;
        let mut groups: Vec<GroupTally> = Vec::new();
        for (group, heartbeat) in candidates.clone() {
            if groups.len() <= group.index() {
                groups.resize(group.index() + 1, GroupTally::EMPTY);
            }
            let tally = &mut groups[group.index()];
            if is_late(heartbeat) {
                tally.newest = tally.newest.max(heartbeat.renewal());
            }
        }
        for (group, heartbeat) in candidates {
            let tally = &mut groups[group.index()];
            // Kubelets renew at different instants of their period.
            if heartbeat.renewal() >= tally.newest.plus(-limits.half()) {
                tally.members += 1;
                tally.late += u32::from(is_late(heartbeat));
            }
        }
        let end_of_hold = |tally: &GroupTally| {
            let is_silent = tally.members >= hold.min_nodes
                && settings
                    .failure_fraction
                    .is_reached(tally.late, tally.members);
            let until = tally.newest.plus(limits.expiry()).after(hold.hold);
            if is_silent && now < until {
                until
            } else {
                Time::MIN
            }
        };
        Self {
            until: groups.iter().map(end_of_hold).collect(),
        }
    }

    /// Returns whether the nodes of a group are held back.
    pub(super) fn contains(&self, group: Option<GroupId>) -> bool {
        group.is_some_and(|group| {
            let until = self.until.get(group.index());
            until.is_some_and(|until| *until > Time::MIN)
        })
    }

    /// Returns the groups with the end of their hold. `name` looks up the name of a group.
    pub(super) fn named<'a>(
        &'a self,
        kind: GroupKind,
        name: impl Fn(usize) -> Option<&'a str> + 'a,
    ) -> impl Iterator<Item = HeldGroup> + 'a {
        let held = self.until.iter().enumerate();
        let held = held.filter(|(_, until)| **until > Time::MIN);
        held.filter_map(move |(index, until)| {
            Some(HeldGroup {
                kind,
                name: name(index)?.to_owned(),
                until: *until,
            })
        })
    }
}
