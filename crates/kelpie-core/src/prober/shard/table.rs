//! The shards as one of them last read their Leases.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::{LEASE_DURATION, RENEW_DEADLINE};
use crate::Time;

/// The longest lease of another shard that is believed. A longer one would hide its end.
const LONGEST_LEASE: Duration = Duration::from_mins(1);
/// A replica that has listed the clusters this long ago has seen everything that its predecessor
/// had. Versions alone cannot tell: the newest cluster may have been deleted.
const CATCH_UP: Duration = Duration::from_secs(30);

/// The version of a cluster's object. Later writes have higher ones, also of other objects of the
/// same kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Revision(u64);

impl Revision {
    /// Reads a `resourceVersion`. One that is no number counts as the oldest.
    pub fn parse(version: &str) -> Self {
        Self(version.parse().unwrap_or_default())
    }

    /// Returns the number.
    pub fn get(self) -> u64 {
        self.0
    }
}

/// Clusters that a shard names in its Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterList {
    /// The clusters with these ids.
    Named(BTreeSet<String>),
    /// There are too many to name, so it may be any cluster.
    Any,
}

impl ClusterList {
    pub(super) fn contains(&self, cluster: &str) -> bool {
        match self {
            Self::Named(clusters) => clusters.contains(cluster),
            Self::Any => true,
        }
    }
}

/// The content of a shard's Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement<S> {
    /// The clusters that the shard watches; `None` if the Lease has no valid selector.
    pub selector: Option<S>,
    /// The newest version of a cluster that the shard has seen.
    pub seen: Revision,
    /// The clusters of the selector that it cannot judge yet.
    pub unready: ClusterList,
    /// Clusters of other shards that it still owns, because its leader Lease has a record of their
    /// fence.
    pub retained: ClusterList,
}

/// A shard's Lease as it was read.
#[derive(Clone, Debug)]
pub struct ObservedShard<S> {
    /// The name of the shard.
    pub name: Arc<str>,
    /// A value that every renewal changes.
    pub renewal: String,
    /// The duration of the lease.
    pub duration: Duration,
    /// The content.
    pub announcement: Announcement<S>,
}

/// The shards as this one, `own`, last read their Leases.
#[derive(Debug)]
pub struct ShardTable<S> {
    own: Arc<str>,
    selector: S,
    shards: BTreeMap<Arc<str>, KnownShard<S>>,
    /// The start of the last read.
    read_at: Option<Time>,
    /// The start of the last write of the own Lease.
    announced_at: Option<Time>,
    /// The instant since which the own Lease has been read with the own selector.
    visible_since: Option<Time>,
    /// The newest version of a cluster that this replica has seen.
    seen: Revision,
    /// The instant at which this replica first had all clusters.
    listed_at: Option<Time>,
}

#[derive(Debug)]
struct KnownShard<S> {
    observed: ObservedShard<S>,
    /// The instant at which the last renewal was seen.
    renewed_at: Time,
}

impl<S> KnownShard<S> {
    fn is_live(&self, now: Time) -> bool {
        let duration = self.observed.duration.clamp(LEASE_DURATION, LONGEST_LEASE);
        now < self.renewed_at.after(duration)
    }
}

impl<S: PartialEq> ShardTable<S> {
    /// Creates the table of a shard that has read nothing yet.
    pub fn new(own: impl Into<Arc<str>>, selector: S) -> Self {
        Self {
            own: own.into(),
            selector,
            shards: BTreeMap::new(),
            read_at: None,
            announced_at: None,
            visible_since: None,
            seen: Revision::default(),
            listed_at: None,
        }
    }

    /// Returns the name of this shard.
    pub fn own(&self) -> &Arc<str> {
        &self.own
    }

    /// Returns the selector of this shard.
    pub fn selector(&self) -> &S {
        &self.selector
    }

    /// Takes in the Leases of all shards, from a read that began at `start`. A Lease that is gone
    /// counts until it would have expired: its shard may not know yet.
    pub fn observe(&mut self, shards: Vec<ObservedShard<S>>, start: Time, now: Time) {
        self.check_gap(self.read_at, start);
        // An expired Lease that is still there has to be known: it would count as new.
        let is_listed = |name: &Arc<str>| shards.iter().any(|it| it.name == *name);
        self.shards
            .retain(|name, known| known.is_live(start) || is_listed(name));
        for observed in shards {
            let before = self.shards.get(&observed.name);
            let renewed_at = before
                .filter(|known| known.observed.renewal == observed.renewal)
                .map_or(now, |known| known.renewed_at);
            let name = Arc::clone(&observed.name);
            self.shards.insert(
                name,
                KnownShard {
                    observed,
                    renewed_at,
                },
            );
        }
        self.read_at = Some(start);
        let own = self.shards.get(&self.own).filter(|own| own.is_live(start));
        let is_visible = own
            .is_some_and(|own| own.observed.announcement.selector.as_ref() == Some(&self.selector));
        self.visible_since = is_visible.then(|| self.visible_since.unwrap_or(now));
    }

    /// Notes that the own Lease was renewed by a write that was sent at `start`.
    pub fn announced(&mut self, start: Time) {
        self.check_gap(self.announced_at, start);
        self.announced_at = Some(start);
    }

    /// Begins to wait again after a gap between two reads or two writes: others may have taken this
    /// shard for dead.
    fn check_gap(&mut self, before: Option<Time>, start: Time) {
        if before.is_some_and(|before| start > before.after(RENEW_DEADLINE)) {
            self.visible_since = None;
        }
    }

    /// Notes the version of a cluster that was seen.
    pub fn saw(&mut self, revision: Revision) {
        self.seen = self.seen.max(revision);
    }

    /// Notes that all clusters were listed.
    pub fn listed(&mut self, now: Time) {
        self.listed_at.get_or_insert(now);
    }

    /// Returns the version to announce. It never falls, whichever replica writes the Lease.
    pub fn seen(&self) -> Revision {
        let own = self.shards.get(&self.own);
        own.map_or(self.seen, |own| {
            self.seen.max(own.observed.announcement.seen)
        })
    }

    /// Returns the end of the time in which this shard may own clusters.
    pub fn owner_until(&self) -> Time {
        let since = self.read_at.zip(self.announced_at);
        since.map_or(Time::MIN, |(read, announced)| {
            read.min(announced).after(RENEW_DEADLINE)
        })
    }

    /// Returns whether this replica may own clusters: every other shard knows its selector by now,
    /// and it has seen what its predecessor had seen.
    pub(super) fn is_settled(&self, now: Time) -> bool {
        let is_known = self
            .visible_since
            .is_some_and(|since| now >= since.after(LEASE_DURATION));
        let is_current =
            self.seen == self.seen() || self.listed_at.is_some_and(|at| now >= at.after(CATCH_UP));
        is_known && is_current
    }

    /// Returns the shards whose Lease had not expired at the start of the last read, by name; this
    /// one is among them. A Lease that seems to expire later may have been renewed.
    pub fn live(&self) -> impl Iterator<Item = (&Arc<str>, &Announcement<S>)> {
        let at = self.read_at.unwrap_or(Time::MIN);
        let live = self.shards.iter().filter(move |(_, it)| it.is_live(at));
        live.map(|(name, known)| (name, &known.observed.announcement))
    }

    pub(super) fn peers(&self) -> impl Iterator<Item = (&Arc<str>, &Announcement<S>)> {
        self.live().filter(|(name, _)| **name != self.own)
    }

    /// Returns the names of the live shards that select a cluster.
    pub fn claimants(&self, selects: impl Fn(&S) -> bool) -> Vec<&Arc<str>> {
        let claims = |it: &Announcement<S>| it.selector.as_ref().is_some_and(&selects);
        let live = self.live().filter(|(_, it)| claims(it));
        live.map(|(name, _)| name).collect()
    }

    /// Returns whether another process announces a different selector as this shard.
    pub fn is_contradicted(&self) -> bool {
        let mut own = self.live().filter(|(name, _)| **name == self.own);
        own.any(|(_, own)| own.selector.as_ref() != Some(&self.selector))
    }

    /// Returns whether the table can tell which clusters are watched: it was read, and the own
    /// Lease has had the time to appear.
    pub fn is_complete(&self, now: Time) -> bool {
        let is_listed = self
            .listed_at
            .is_some_and(|at| now >= at.after(LEASE_DURATION));
        self.read_at.is_some() && (self.visible_since.is_some() || is_listed)
    }
}
