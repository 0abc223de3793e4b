//! The nodes that kube-controller-manager may turn Unknown.

use std::sync::Arc;

use super::GuardSettings;
use super::group_hold::{GroupHold, GroupKind, HeldGroup, HeldGroups};
use crate::Time;
use crate::prober::Evaluator;
use crate::prober::leases::{GraceLimits, LeaseTracker, TrackedLease, is_group_late};
use crate::prober::nodes::{GroupId, TrackedNode};

/// With more nodes to permit, all are permitted: the policy has to stay small.
pub const MAX_PERMITS: usize = 1_000;

/// With longer names, all nodes are permitted too. An API server rejects an expression of more than
/// 100,000 characters.
pub const MAX_PERMIT_BYTES: usize = 64 * 1024;

/// The nodes that kube-controller-manager may turn Unknown: some, or all if there are more than
/// [`MAX_PERMITS`] to permit, or if their names are longer than [`MAX_PERMIT_BYTES`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permits {
    /// Sorted by name; `None` stands for all nodes.
    names: Option<Vec<Arc<str>>>,
}

impl Permits {
    /// Permits all nodes.
    pub const ALL: Self = Self { names: None };

    /// Returns whether a node may be turned Unknown.
    pub fn contains(&self, node: &str) -> bool {
        let names = self.names.as_ref();
        names.is_none_or(|names| names.binary_search_by(|name| (**name).cmp(node)).is_ok())
    }

    /// Returns the names of the permitted nodes; `None` for all. They are DNS subdomains.
    pub fn names(&self) -> Option<&[Arc<str>]> {
        self.names.as_deref()
    }
}

/// Collects the names of nodes. Names that no node can have are left out: they become part of an
/// expression, and the API server may be hostile.
impl<N: Into<Arc<str>>> FromIterator<N> for Permits {
    fn from_iter<I: IntoIterator<Item = N>>(names: I) -> Self {
        let names = names.into_iter().map(Into::into);
        let mut names: Vec<Arc<str>> = names.filter(|name| is_node_name(name)).collect();
        names.sort();
        names.dedup();
        let bytes: usize = names.iter().map(|name| name.len()).sum();
        let is_small = names.len() <= MAX_PERMITS && bytes <= MAX_PERMIT_BYTES;
        Self {
            names: is_small.then_some(names),
        }
    }
}

/// Returns whether a node can have this name: it is a DNS subdomain.
fn is_node_name(name: &str) -> bool {
    let is_allowed =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    (1..=253).contains(&name.len()) && name.bytes().all(is_allowed)
}

/// The nodes that may turn Unknown, by the last list of leases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// The nodes that may turn Unknown.
    pub permits: Permits,
    /// The nodes whose leases were watched too briefly to tell. A permit that one of them has
    /// stays: it rests on what another replica has seen, or this process before a gap.
    pub undecided: Vec<Arc<str>>,
    /// The zones and worker pools whose nodes are held back.
    pub held: Vec<HeldGroup>,
}

/// Finds out which nodes may turn Unknown: those that are lost alone. Nodes that fall silent
/// together are held back.
#[derive(Debug, Default)]
pub struct PermitJudge {
    zone: GroupHold,
    pool: GroupHold,
    is_tripped: bool,
    /// The end of the last trip.
    trip_over_at: Option<Time>,
}

impl PermitJudge {
    /// Creates a judge for a cluster that was not seen to trip.
    pub fn new(settings: &GuardSettings) -> Self {
        Self {
            zone: settings.zone,
            pool: settings.pool,
            ..Self::default()
        }
    }

    /// Judges by the last list of leases. Returns `None` if it is too old, or proves nothing yet.
    pub fn judge(&mut self, evaluator: &Evaluator, now: Time) -> Option<Judgement> {
        let is_tripped = evaluator.is_tripped();
        if self.is_tripped && !is_tripped {
            self.trip_over_at = Some(now);
        }
        self.is_tripped = is_tripped;
        let tracker = evaluator.leases();
        let nodes = tracker.nodes().filter(|_| evaluator.has_evidence(now))?;
        let limits = GraceLimits::new(evaluator.grace());
        let settings = evaluator.settings();
        let held = |hold, group: fn(&TrackedNode) -> Option<GroupId>| {
            let candidates = candidates(tracker).filter_map(|(node, lease)| {
                let heartbeat = &lease.heartbeat;
                let group = group(node).filter(|_| heartbeat.was_ever_renewed())?;
                Some((group, heartbeat))
            });
            HeldGroups::find(candidates, hold, &limits, now, settings)
        };
        let rules = PermitRules {
            now,
            limits,
            // In a partition the first leases expire before enough of them have. A permit that is
            // given then might not be withdrawn in time.
            is_held: is_tripped || is_group_late(tracker, &limits, now, settings),
            zones: held(self.zone, |node| node.zone),
            pools: held(self.pool, |node| node.pool),
            trip_over_at: self.trip_over_at,
        };
        let zones = rules.zones.named(GroupKind::Zone, |id| nodes.zone_name(id));
        let pools = rules.pools.named(GroupKind::Pool, |id| nodes.pool_name(id));
        Some(Judgement {
            held: zones.chain(pools).collect(),
            undecided: rules.undecided(tracker),
            permits: rules.permits(tracker),
        })
    }
}

/// Returns each node with its lease, if it has one.
fn nodes_with_leases(
    tracker: &LeaseTracker,
) -> impl Iterator<Item = (&TrackedNode, Option<&TrackedLease>)> + Clone {
    let nodes = tracker.nodes().map_or(&[][..], |nodes| nodes.nodes());
    let mut leases = tracker.entries().iter().peekable();
    nodes.iter().map(move |node| {
        while leases.next_if(|lease| lease.name() < &*node.name).is_some() {}
        let lease = leases.next_if(|lease| lease.name() == &*node.name);
        (node, lease)
    })
}

/// Returns the nodes that count, with their leases.
fn candidates(
    tracker: &LeaseTracker,
) -> impl Iterator<Item = (&TrackedNode, &TrackedLease)> + Clone {
    let included = nodes_with_leases(tracker).filter(|(node, _)| node.exclusion.is_none());
    included.filter_map(|(node, lease)| Some((node, lease?)))
}

/// The circumstances by which permits are given.
struct PermitRules {
    now: Time,
    limits: GraceLimits,
    /// The silence of a candidate may be that of many.
    is_held: bool,
    zones: HeldGroups,
    pools: HeldGroups,
    trip_over_at: Option<Time>,
}

impl PermitRules {
    fn permits(&self, tracker: &LeaseTracker) -> Permits {
        let nodes = nodes_with_leases(tracker);
        let permitted = nodes.filter(|(node, lease)| match lease {
            Some(lease) if node.exclusion.is_none() => self.permits_candidate(node, lease),
            // The prober knows nothing about the others.
            _ => true,
        });
        permitted.map(|(node, _)| Arc::clone(&node.name)).collect()
    }

    fn undecided(&self, tracker: &LeaseTracker) -> Vec<Arc<str>> {
        let undecided = candidates(tracker).filter(|(node, lease)| {
            let heartbeat = &lease.heartbeat;
            heartbeat.is_unproven(self.now, &self.limits)
                && heartbeat.renewal().plus(self.limits.expiry()) <= self.now
                && !self.is_held_back(node)
        });
        undecided.map(|(node, _)| Arc::clone(&node.name)).collect()
    }

    fn is_held_back(&self, node: &TrackedNode) -> bool {
        self.is_held || self.zones.contains(node.zone) || self.pools.contains(node.pool)
    }

    fn permits_candidate(&self, node: &TrackedNode, lease: &TrackedLease) -> bool {
        let heartbeat = &lease.heartbeat;
        if !heartbeat.was_ever_renewed() {
            return true;
        }
        let is_expired = heartbeat.expires_at(&self.limits) <= self.now;
        // A node that has been silent since the trip gets a grace period to come back.
        let is_leftover = self.trip_over_at.is_some_and(|over| {
            heartbeat.renewal() < over && self.now < over.plus(self.limits.grace())
        });
        is_expired && !self.is_held_back(node) && !is_leftover
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_are_left_out() {
        let hostile = ["a'] + ['b", "A", "a'b", "a\\", "", "a\nb", "a, b", "*"];
        let permits: Permits = hostile.into_iter().chain(["good", "a.b-1"]).collect();
        let names: Vec<&str> = permits
            .names()
            .unwrap()
            .iter()
            .map(|name| &**name)
            .collect();
        assert_eq!(names, ["a.b-1", "good"]);
    }

    #[test]
    fn names_that_are_too_long_in_sum_are_all() {
        let permits = |count: usize| {
            let names = (0..count).map(|n| format!("{n:0253}"));
            names.collect::<Permits>()
        };
        let most = MAX_PERMIT_BYTES / 253;
        assert_eq!(permits(most).names().map(<[_]>::len), Some(most));
        assert_eq!(permits(most + 1), Permits::ALL);
    }

    #[test]
    fn too_many_permits_are_all() {
        let permits = |count: usize| (0..count).map(|n| format!("node-{n}")).collect::<Permits>();
        assert_eq!(
            permits(MAX_PERMITS).names().map(<[_]>::len),
            Some(MAX_PERMITS)
        );
        assert_eq!(permits(MAX_PERMITS + 1), Permits::ALL);
    }
}
