//! The nodes that kube-controller-manager may turn Unknown.

use std::sync::Arc;

use crate::Time;
use crate::prober::Evaluator;
use crate::prober::leases::{GraceLimits, LeaseTracker, TrackedLease, is_group_late};

/// With more nodes to permit, all are permitted: the policy has to stay small.
pub const MAX_PERMITS: usize = 1_000;

/// The nodes that kube-controller-manager may turn Unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permits {
    /// These nodes, sorted by name.
    Nodes(Vec<Arc<str>>),
    /// All nodes: there are more than [`MAX_PERMITS`] to permit.
    All,
}

impl Permits {
    /// Returns whether a node may be turned Unknown.
    pub fn contains(&self, node: &str) -> bool {
        match self {
            Self::Nodes(nodes) => nodes.binary_search_by(|name| (**name).cmp(node)).is_ok(),
            Self::All => true,
        }
    }

    /// Returns the number of permitted nodes; `None` for all.
    pub fn len(&self) -> Option<usize> {
        match self {
            Self::Nodes(nodes) => Some(nodes.len()),
            Self::All => None,
        }
    }
}

impl<N: Into<Arc<str>>> FromIterator<N> for Permits {
    fn from_iter<I: IntoIterator<Item = N>>(names: I) -> Self {
        let mut nodes: Vec<Arc<str>> = names.into_iter().map(Into::into).collect();
        nodes.sort();
        nodes.dedup();
        if nodes.len() > MAX_PERMITS {
            Self::All
        } else {
            Self::Nodes(nodes)
        }
    }
}

/// Finds out which nodes may turn Unknown: those that are lost alone. Nodes that fall silent
/// together are held back.
#[derive(Debug, Default)]
pub struct PermitJudge {
    is_tripped: bool,
    /// The end of the last trip.
    trip_over_at: Option<Time>,
}

impl PermitJudge {
    /// Judges by the last list of leases. Returns `None` if it is too old, or proves nothing yet.
    pub fn judge(&mut self, evaluator: &Evaluator, now: Time) -> Option<Permits> {
        let is_tripped = evaluator.is_tripped();
        if self.is_tripped && !is_tripped {
            self.trip_over_at = Some(now);
        }
        self.is_tripped = is_tripped;
        let tracker = evaluator.leases();
        if !evaluator.has_evidence(now) || tracker.nodes().is_none() {
            return None;
        }
        let limits = GraceLimits::new(evaluator.grace());
        let settings = evaluator.settings();
        let rules = PermitRules {
            now,
            limits,
            // In a partition the first leases expire before enough of them have. A permit that is
            // given then might not be withdrawn in time.
            is_held: is_tripped || is_group_late(tracker, &limits, now, settings),
            trip_over_at: self.trip_over_at,
        };
        Some(rules.permits(tracker))
    }
}

/// The circumstances by which permits are given.
struct PermitRules {
    now: Time,
    limits: GraceLimits,
    /// The silence of a candidate may be that of many.
    is_held: bool,
    trip_over_at: Option<Time>,
}

impl PermitRules {
    fn permits(&self, tracker: &LeaseTracker) -> Permits {
        let nodes = tracker.nodes().map_or(&[][..], |nodes| nodes.nodes());
        let mut leases = tracker.entries().iter().peekable();
        let permitted = nodes.iter().filter(|node| {
            while leases.next_if(|lease| lease.name() < &*node.name).is_some() {}
            let lease = leases.next_if(|lease| lease.name() == &*node.name);
            match lease {
                Some(lease) if node.exclusion.is_none() => self.permits_candidate(lease),
                // The prober knows nothing about the others.
                _ => true,
            }
        });
        permitted.map(|node| Arc::clone(&node.name)).collect()
    }

    fn permits_candidate(&self, lease: &TrackedLease) -> bool {
        let heartbeat = &lease.heartbeat;
        if !heartbeat.was_ever_renewed() {
            return true;
        }
        let is_expired = heartbeat.expires_at(&self.limits) <= self.now;
        // A node that has been silent since the trip gets a grace period to come back.
        let is_leftover = self.trip_over_at.is_some_and(|over| {
            heartbeat.renewal() < over && self.now < over.plus(self.limits.grace())
        });
        is_expired && !self.is_held && !is_leftover
    }
}
