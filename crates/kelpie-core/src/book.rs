//! The lease book: every lease of a cluster, over successive lists.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::Time;
use crate::candidate::{Exclusion, Exclusions, Machines, Roster};
use crate::clock::Window;
use crate::lease::{Heartbeat, Lease, Listing, Sighting};
use crate::limits::Limits;

/// A lease that is renewed although it has no node is a reason to read the nodes, but not every round.
const ORPHAN_PATIENCE: Duration = Duration::from_mins(1);

/// What is known of a cluster's leases, over successive lists.
///
/// Entries are sorted by name, which is also the order in which an API server lists them: the next
/// lease of a list is nearly always the next entry, so reading a list is one walk without hashing,
/// sorting or allocating. Lists in any other order give the same book, only slower.
#[derive(Debug, Default)]
pub struct LeaseBook {
    entries: Vec<Entry>,
    last: Option<Listing>,
    /// Number of the list being read; an entry that does not carry it has gone.
    generation: u32,
    roster: Option<Roster>,
    roster_read_at: Option<Time>,
    exclusions: Exclusions,
    /// Some lease's node was not looked for yet.
    has_unknown: bool,
    /// Kept between rounds so that finding the trip instant allocates nothing.
    pub(crate) scratch: Vec<Time>,
}

#[derive(Debug)]
pub(crate) struct Entry {
    /// Shared with the roster once the node is known.
    name: Arc<str>,
    generation: u32,
    pub(crate) role: Role,
    pub(crate) created: Time,
    pub(crate) heartbeat: Heartbeat,
}

/// What a lease's node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Role {
    /// The nodes were not read since this lease appeared.
    Unknown,
    /// There is no such node.
    Orphan,
    /// The node is excluded.
    Excluded,
    /// The node is a candidate.
    Candidate,
}

/// Proof that a list of leases went into the book.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    pub(crate) listing: Listing,
    /// The nodes have to be read before a decision may rest on this list.
    pub(crate) nodes_due: bool,
    /// It is the first, or the one before is too old: leases prove nothing yet.
    pub(crate) is_fresh_start: bool,
}

/// One lease as it is understood, for people who ask why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaseView<'a> {
    /// The node's name.
    pub name: &'a str,
    /// What the node is.
    pub role: Role,
    /// When it last renewed, on our timeline.
    pub renewal: Option<Time>,
    /// From when on it counts as expired if nobody renews it.
    pub expires_at: Time,
    /// From when on its node counts as silent if nobody renews it.
    pub silent_at: Time,
}

impl LeaseBook {
    /// Takes over what a list of the cluster's leases says. `grace` is the cluster's present grace
    /// period.
    pub fn read<'a>(
        &mut self,
        listing: Listing,
        grace: Duration,
        leases: impl IntoIterator<Item = Lease<'a>>,
    ) -> Listed {
        let limits = Limits::new(grace);
        let is_gap = |last: Listing| listing.end > last.end.plus(limits.half());
        let sighting = Sighting {
            window: self.last.map(|last| Window {
                from: last.start,
                to: listing.end,
            }),
            end: listing.end,
            restart: self.last.is_none_or(is_gap),
        };
        let newly_expired_after = self.roster_read_at().plus(limits.quarter());
        let (mut newly_expired, mut orphan_renewed) = (false, false);
        let is_same_set = self.match_names(&sighting, leases, |entry, renewed| {
            if renewed {
                orphan_renewed |= entry.role == Role::Orphan;
                return; // and not expired
            }
            let expires_at = entry.heartbeat.expires_at(&limits);
            newly_expired |= entry.role == Role::Candidate
                && expires_at <= listing.start
                && expires_at > newly_expired_after;
        });
        self.last = Some(listing);
        if !is_same_set {
            self.assign_roles(false);
        }
        // Whoever renews a lease has a node, or will have one soon.
        let orphan_due =
            orphan_renewed && listing.start.since(self.roster_read_at()) >= ORPHAN_PATIENCE;
        let never_read = self.roster.is_none();
        Listed {
            listing,
            nodes_due: never_read || self.has_unknown || newly_expired || orphan_due,
            is_fresh_start: sighting.restart,
        }
    }

    /// Whether the nodes were read as far as a decision on this list needs them.
    pub(crate) fn has_nodes_for(&self, listed: &Listed) -> bool {
        let read_since = self.roster_read_at >= Some(listed.listing.start);
        self.roster.is_some() && (!listed.nodes_due || read_since)
    }

    /// Goes through a list; true if it has the same names as the last one. `each` is told of every
    /// lease that was known, and whether it was renewed.
    fn match_names<'a>(
        &mut self,
        sighting: &Sighting,
        leases: impl IntoIterator<Item = Lease<'a>>,
        mut each: impl FnMut(&Entry, bool),
    ) -> bool {
        self.generation = self.generation.wrapping_add(1);
        // Names are unique on a real server. On a hostile one a name that comes twice says nothing,
        // so that the order of the list never matters.
        let nothing = Heartbeat::first(None, None, sighting);
        let known = self.entries.len();
        let (mut next, mut seen) = (0, 0);
        for lease in leases {
            let Lease {
                name,
                renew_time,
                duration_seconds,
            } = lease;
            let Some(index) = self.find(name, next, known) else {
                self.entries.push(Entry {
                    name: name.into(),
                    generation: self.generation,
                    role: Role::Unknown,
                    created: Time::MIN,
                    heartbeat: Heartbeat::first(renew_time, duration_seconds, sighting),
                });
                continue;
            };
            next = index + 1;
            let entry = &mut self.entries[index];
            if entry.generation == self.generation {
                entry.heartbeat = nothing;
                continue;
            }
            entry.generation = self.generation;
            seen += 1;
            let renewed = entry
                .heartbeat
                .observe(renew_time, duration_seconds, sighting);
            each(entry, renewed);
        }
        if self.entries.len() > known {
            self.entries.sort_by(|a, b| a.name.cmp(&b.name));
            self.entries.dedup_by(|later, kept| {
                let is_same = later.name == kept.name;
                if is_same {
                    kept.heartbeat = nothing;
                }
                is_same
            });
        } else if seen == known {
            return true;
        }
        self.entries
            .retain(|entry| entry.generation == self.generation);
        // The set of nodes changes seldom; room for more would be kept for every cluster.
        self.entries.shrink_to_fit();
        false
    }

    /// The place of a name among the first `known` entries, which are sorted; `guess` is tried first.
    fn find(&self, name: &str, guess: usize, known: usize) -> Option<usize> {
        match self.entries.get(guess) {
            Some(entry) if guess < known && *entry.name == *name => Some(guess),
            _ => self.entries[..known]
                .binary_search_by(|entry| (*entry.name).cmp(name))
                .ok(),
        }
    }

    /// Takes over what was read of the nodes, at the instant the request was sent.
    pub fn learn(&mut self, roster: Roster, read_at: Time) {
        self.roster = Some(roster);
        self.roster_read_at = Some(read_at);
        self.assign_roles(true);
    }

    /// Judges the nodes anew, by other machines.
    pub fn learn_machines(&mut self, machines: Option<&Machines>) {
        if let Some(roster) = &mut self.roster {
            roster.set_machines(machines);
            self.assign_roles(false);
        }
    }

    /// Joins the leases with the nodes; both are sorted by name. `fresh`: the nodes were just read,
    /// so a lease without one is an orphan rather than unknown.
    fn assign_roles(&mut self, fresh: bool) {
        self.exclusions = Exclusions::default();
        self.has_unknown = false;
        let Some(roster) = &self.roster else { return };
        let mut nodes = roster.nodes().iter().peekable();
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
                        None => Role::Candidate,
                        Some(cause) => {
                            self.exclusions.add(cause);
                            Role::Excluded
                        }
                    };
                }
                None if fresh || entry.role != Role::Unknown => entry.role = Role::Orphan,
                None => self.has_unknown = true,
            }
        }
        for node in nodes {
            self.exclusions
                .add(node.exclusion.unwrap_or(Exclusion::NoLease));
        }
    }

    /// What was last read of the nodes.
    pub fn roster(&self) -> Option<&Roster> {
        self.roster.as_ref()
    }

    /// When the nodes were last read; [`Time::MIN`] for never.
    pub(crate) fn roster_read_at(&self) -> Time {
        self.roster_read_at.unwrap_or(Time::MIN)
    }

    /// Nodes excluded as of the last list and the last reading of the nodes.
    pub(crate) fn exclusions(&self) -> Exclusions {
        self.exclusions
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Each lease as it is understood under this grace period, sorted by name.
    pub fn leases(&self, grace: Duration) -> impl Iterator<Item = LeaseView<'_>> {
        let limits = Limits::new(grace);
        self.entries.iter().map(move |entry| LeaseView {
            name: &entry.name,
            role: entry.role,
            renewal: Some(entry.heartbeat.renewal()).filter(|_| entry.heartbeat.was_ever_renewed()),
            expires_at: entry.heartbeat.expires_at(&limits),
            silent_at: entry.heartbeat.silent_at(&limits),
        })
    }

    /// How many leases the last list had.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the last list was empty, or there was none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::candidate::{MachinePhase, Node, PoolConditions};

    #[test]
    fn a_name_is_kept_once_for_machine_node_and_lease() {
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
        let listing = Listing { start: at, end: at };
        let mut book = LeaseBook::default();
        book.read(listing, Duration::from_secs(40), [lease]);
        let roster = Roster::new([&node], Some(&machines), &PoolConditions::new());
        book.learn(roster, at);
        assert_eq!(Arc::strong_count(&name), 4, "ours is the fourth");
    }
}
