//! The leases of a cluster, tracked over successive lists.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::lease::{Heartbeat, Lease, ListContext, ListSpan};
use super::limits::GraceLimits;
use super::list_version::{Freshness, ListVersions};
use super::node_clock::RenewalWindow;
use super::outages::Outages;
use crate::prober::nodes::{Exclusion, Exclusions, Machines, NodeSet};
use crate::{Time, shared_name};

/// A lease that is renewed although it has no node is a reason to read the nodes, at most this
/// often.
const ORPHAN_REFRESH_INTERVAL: Duration = Duration::from_mins(1);

/// The time that a list may take without being suspected of having waited for its API server.
const SLOW_LIST: Duration = Duration::from_secs(11);

/// The leases of a cluster, tracked over successive lists.
///
/// Entries are sorted by name, which is also the order in which an API server lists them. So the
/// next lease of a list is nearly always the next entry, and reading a list is one pass without
/// hashing, sorting or allocating. A list in any other order has the same result, but is slower to
/// read.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct LeaseTracker {
    entries: Vec<TrackedLease>,
    last: Option<ListSpan>,
    versions: ListVersions,
    pub(crate) outages: Outages,
    /// The number of the current list. An entry with another number is not in the list.
    generation: u32,
    nodes: Option<NodeSet>,
    nodes_read_at: Option<Time>,
    /// The Machines of nodes that have joined lately may be missing.
    machines_outdated: bool,
    exclusions: Exclusions,
    /// There is a lease whose node was not looked up yet.
    has_unknown: bool,
    /// A buffer kept between rounds, so that finding the trip instant allocates nothing.
    #[serde(skip)]
    pub(crate) scratch: Vec<Time>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct TrackedLease {
    /// Shared with the node set once the node is known.
    #[serde(with = "shared_name")]
    name: Arc<str>,
    generation: u32,
    pub(crate) role: LeaseRole,
    pub(crate) created: Time,
    pub(crate) heartbeat: Heartbeat,
}

impl TrackedLease {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

/// The role of a lease, by its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LeaseRole {
    /// The nodes were not read since the lease appeared. It counts like that of a candidate.
    Unknown,
    /// The lease has no node.
    Orphan,
    /// The node is excluded.
    Excluded,
    /// The node is a candidate.
    Candidate,
}

/// Proof that a list of leases was taken in. A decision needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptedList {
    pub(crate) span: ListSpan,
    /// The nodes should be read again. A decision does not wait for it.
    pub(crate) nodes_due: bool,
    /// This is the first list, or the last one is too old. The leases prove nothing yet.
    pub(crate) is_fresh_start: bool,
    /// The list is older than one seen before, so it was ignored.
    pub(crate) is_stale: bool,
    /// The lists since this one may be as stale as the list itself.
    pub(crate) stale_since: Option<ListSpan>,
}

/// A lease as the prober judges it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaseStatus<'a> {
    /// The name of the lease and of its node.
    pub name: &'a str,
    /// The role of the lease, by its node.
    pub role: LeaseRole,
    /// The last renewal on the prober's timeline; `None` if there was none.
    pub renewal: Option<Time>,
    /// The instant from which the lease counts as expired unless it is renewed.
    pub expires_at: Time,
    /// The instant from which the node counts as silent unless it renews the lease.
    pub silent_at: Time,
}

impl LeaseTracker {
    /// Takes in a list of the cluster's leases. `version` is its `resourceVersion` where that is a
    /// number, `grace` the cluster's current grace period. A stale list changes nothing.
    pub fn observe_leases<'a>(
        &mut self,
        span: ListSpan,
        version: Option<u64>,
        grace: Duration,
        leases: impl IntoIterator<Item = Lease<'a>>,
    ) -> AcceptedList {
        let limits = GraceLimits::new(grace);
        let is_overtaken = self.last.is_some_and(|last| span.start < last.start);
        let freshness = if is_overtaken {
            Freshness::Stale
        } else {
            self.outages.answered(span.start, grace);
            self.versions.observe(version, span)
        };
        if let Freshness::Stale | Freshness::StandingStill(_) = freshness {
            return AcceptedList {
                span,
                nodes_due: false,
                is_fresh_start: false,
                is_stale: true,
                stale_since: match freshness {
                    Freshness::StandingStill(since) => Some(since),
                    _ => None,
                },
            };
        }
        if freshness == Freshness::Restored {
            self.last = None;
            self.entries.clear();
        }
        // A list that is merely slow is no gap. One that takes longer may have waited for an API
        // server that could not answer the kubelets either.
        let answered = span.start.max(span.end.before(SLOW_LIST));
        let is_gap = |last: ListSpan| answered > last.end.plus(limits.half());
        let list = ListContext {
            window: self.last.map(|last| RenewalWindow {
                from: last.start,
                to: span.end,
            }),
            end: span.end,
            is_fresh_start: self.last.is_none_or(is_gap),
            is_versioned: version.is_some(),
        };
        let newly_expired_after = self.nodes_read_at().plus(limits.quarter());
        let (mut newly_expired, mut orphan_renewed) = (false, false);
        let has_same_names = self.merge_list(&list, leases, |entry, renewed| {
            if renewed {
                orphan_renewed |= entry.role == LeaseRole::Orphan;
                return; // A lease that was just renewed is not expired.
            }
            let expires_at = entry.heartbeat.expires_at(&limits);
            newly_expired |= entry.role == LeaseRole::Candidate
                && expires_at <= span.start
                && expires_at > newly_expired_after;
        });
        self.last = Some(span);
        if !has_same_names {
            self.assign_roles(false);
        }
        // A kubelet that renews a lease has a node, or will have one soon.
        let orphan_due =
            orphan_renewed && span.start.since(self.nodes_read_at()) >= ORPHAN_REFRESH_INTERVAL;
        let nodes_never_read = self.nodes.is_none();
        AcceptedList {
            span,
            nodes_due: nodes_never_read || self.has_unknown || newly_expired || orphan_due,
            is_fresh_start: list.is_fresh_start,
            is_stale: false,
            stale_since: None,
        }
    }

    /// Merges a list into the entries. Returns whether it has the same names as the last list.
    /// `each` is called for every known lease, and is told whether the lease was renewed.
    fn merge_list<'a>(
        &mut self,
        list: &ListContext,
        leases: impl IntoIterator<Item = Lease<'a>>,
        mut each: impl FnMut(&TrackedLease, bool),
    ) -> bool {
        self.generation = self.generation.wrapping_add(1);
        // Names are unique on a real server. On a hostile one, a name that occurs twice proves
        // nothing, so that the order of a list never matters.
        let never_renewed = Heartbeat::first(None, None, list);
        let known = self.entries.len();
        let (mut next, mut seen) = (0, 0);
        for lease in leases {
            let Lease {
                name,
                renew_time,
                duration_seconds,
            } = lease;
            let Some(index) = self.find(name, next, known) else {
                self.entries.push(TrackedLease {
                    name: name.into(),
                    generation: self.generation,
                    role: LeaseRole::Unknown,
                    created: Time::MIN,
                    heartbeat: Heartbeat::first(renew_time, duration_seconds, list),
                });
                continue;
            };
            next = index + 1;
            let entry = &mut self.entries[index];
            if entry.generation == self.generation {
                entry.heartbeat = never_renewed;
                continue;
            }
            entry.generation = self.generation;
            seen += 1;
            let renewed = entry.heartbeat.observe(renew_time, duration_seconds, list);
            each(entry, renewed);
        }
        if self.entries.len() > known {
            self.entries.sort_by(|a, b| a.name.cmp(&b.name));
            self.entries.dedup_by(|later, kept| {
                let is_same = later.name == kept.name;
                if is_same {
                    kept.heartbeat = never_renewed;
                }
                is_same
            });
        } else if seen == known {
            return true;
        }
        self.entries
            .retain(|entry| entry.generation == self.generation);
        // The set of nodes rarely changes, and spare capacity would be held for every cluster.
        self.entries.shrink_to_fit();
        false
    }

    /// Returns the index of a name among the first `known` entries, which are sorted. Tries `guess`
    /// first.
    #[inline]
    fn find(&self, name: &str, guess: usize, known: usize) -> Option<usize> {
        match self.entries.get(guess) {
            Some(entry) if guess < known && *entry.name == *name => Some(guess),
            _ => self.entries[..known]
                .binary_search_by(|entry| (*entry.name).cmp(name))
                .ok(),
        }
    }

    /// Takes in a list of nodes. `read_at` is the instant of the request.
    pub fn observe_nodes(&mut self, mut nodes: NodeSet, read_at: Time) {
        if self.machines_outdated {
            nodes.include_new_nodes(self.nodes.as_ref());
        }
        self.nodes = Some(nodes);
        self.nodes_read_at = Some(read_at);
        self.assign_roles(true);
    }

    /// Evaluates the known nodes again, with other machines.
    pub fn observe_machines(&mut self, machines: Option<&Machines>, are_current: bool) {
        self.machines_outdated = !are_current;
        if let Some(nodes) = &mut self.nodes {
            nodes.set_machines(machines, are_current);
            self.assign_roles(false);
        }
    }

    /// Joins the leases with the nodes. Both are sorted by name. If the nodes were just read
    /// (`fresh`), a lease without a node is an orphan rather than unknown.
    fn assign_roles(&mut self, fresh: bool) {
        self.exclusions = Exclusions::default();
        self.has_unknown = false;
        let Some(nodes) = &self.nodes else { return };
        let mut nodes = nodes.nodes().iter().peekable();
        for entry in &mut self.entries {
            while let Some(node) = nodes.next_if(|node| node.name < entry.name) {
                self.exclusions
                    .add(node.exclusion.unwrap_or(Exclusion::NoLease));
            }
            match nodes.next_if(|node| node.name == entry.name) {
                Some(node) => {
                    entry.name.clone_from(&node.name);
                    entry.created = node.created;
                    entry.role = match node.exclusion {
                        None => LeaseRole::Candidate,
                        Some(cause) => {
                            self.exclusions.add(cause);
                            LeaseRole::Excluded
                        }
                    };
                }
                None if fresh || entry.role != LeaseRole::Unknown => entry.role = LeaseRole::Orphan,
                None => self.has_unknown = true,
            }
        }
        for node in nodes {
            self.exclusions
                .add(node.exclusion.unwrap_or(Exclusion::NoLease));
        }
    }

    /// Sorts a tracker that was read from a record, which is not trusted.
    pub(crate) fn repair(&mut self) {
        self.entries.sort_by(|a, b| a.name.cmp(&b.name));
        self.entries.dedup_by(|later, kept| later.name == kept.name);
        if let Some(nodes) = &mut self.nodes {
            nodes.repair();
        }
    }

    /// Returns the nodes as last read; `None` if they were never read.
    pub fn nodes(&self) -> Option<&NodeSet> {
        self.nodes.as_ref()
    }

    /// Returns the instant at which the nodes were last read; [`Time::MIN`] if they never were.
    pub(crate) fn nodes_read_at(&self) -> Time {
        self.nodes_read_at.unwrap_or(Time::MIN)
    }

    /// Returns the nodes excluded as of the last list of leases and the last list of nodes.
    pub(crate) fn exclusions(&self) -> Exclusions {
        self.exclusions
    }

    pub(crate) fn entries(&self) -> &[TrackedLease] {
        &self.entries
    }

    /// Returns each lease as judged under this grace period, sorted by name.
    pub fn leases(&self, grace: Duration) -> impl Iterator<Item = LeaseStatus<'_>> {
        let limits = GraceLimits::new(grace);
        self.entries.iter().map(move |entry| LeaseStatus {
            name: &entry.name,
            role: entry.role,
            renewal: Some(entry.heartbeat.renewal()).filter(|_| entry.heartbeat.was_ever_renewed()),
            expires_at: entry.heartbeat.expires_at(&limits),
            silent_at: entry.heartbeat.silent_at(&limits, &self.outages),
        })
    }

    /// Returns the number of leases in the last list.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether the last list was empty, or there was none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prober::nodes::{MachinePhase, Node, NodeConventions, PoolConditions};

    #[test]
    fn machine_node_and_lease_share_a_name() {
        let name: Arc<str> = "node".into();
        let machines: Machines = [(Arc::clone(&name), MachinePhase::Alive)]
            .into_iter()
            .collect();
        let node = Node {
            name: "node".to_owned(),
            ..Node::default()
        };
        let lease = Lease {
            name: "node",
            renew_time: None,
            duration_seconds: None,
        };
        let at = Time::from_micros(0);
        let span = ListSpan { start: at, end: at };
        let mut tracker = LeaseTracker::default();
        tracker.observe_leases(span, None, Duration::from_secs(40), [lease]);
        let nodes = NodeSet::new(
            [&node],
            Some(&machines),
            &PoolConditions::new(),
            &NodeConventions::default(),
        );
        tracker.observe_nodes(nodes, at);
        assert_eq!(Arc::strong_count(&name), 4, "the fourth is the test's own");
    }
}
