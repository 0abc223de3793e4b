//! What a shard does for one cluster, and how a cluster moves from one shard to another.

use super::{Announcement, HANDOVER_LIMIT, Revision, ShardTable};
use crate::Time;

/// The part that a shard has in a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assignment {
    /// Nothing: the cluster is watched by another shard, or by none.
    Elsewhere,
    /// The shard probes the cluster. Like a standby, it fences what the owner does not, and
    /// restores nothing.
    Standby,
    /// The shard fences and restores.
    Owner,
}

/// A cluster as this shard sees it.
#[derive(Clone, Copy, Debug)]
pub struct ClusterClaim<'a> {
    /// The id of the cluster.
    pub id: &'a str,
    /// The selector of this shard matches.
    pub is_claimed: bool,
    /// The version of the cluster's object.
    pub revision: Revision,
    /// Versions before this one may have been missed, because a watch was broken.
    pub follows_gap: bool,
    /// The leader Lease of this shard has a record of a fence of this cluster.
    pub has_record: bool,
}

/// The state of one cluster at one shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Handover {
    /// The cluster is not watched here.
    #[default]
    Elsewhere,
    /// The selector matches since this version.
    #[expect(missing_docs, reason = "the names explain themselves")]
    Claimed { since: Time, revision: Revision },
    /// The selector matched before this version.
    #[expect(missing_docs, reason = "the names explain themselves")]
    Leaving {
        since: Time,
        revision: Revision,
        retains: bool,
    },
}

impl Handover {
    /// Takes in the present state of the cluster and of the shards. `selects` tells whether a
    /// selector matches the cluster.
    pub fn update<S: PartialEq>(
        &mut self,
        table: &ShardTable<S>,
        cluster: &ClusterClaim<'_>,
        selects: impl Fn(&S) -> bool,
        now: Time,
    ) -> Assignment {
        let ClusterClaim {
            is_claimed,
            revision,
            ..
        } = *cluster;
        *self = match *self {
            // In a gap it may have left and come back.
            Self::Claimed { .. } if is_claimed && !cluster.follows_gap => *self,
            _ if is_claimed => Self::Claimed {
                since: now,
                revision,
            },
            Self::Claimed { .. } => Self::Leaving {
                since: now,
                revision,
                retains: cluster.has_record,
            },
            Self::Leaving {
                since,
                revision,
                retains,
            } => {
                let is_over = now >= since.after(HANDOVER_LIMIT)
                    || is_taken_over(table, cluster.id, revision, &selects);
                let retains = retains && cluster.has_record;
                if is_over && !retains {
                    Self::Elsewhere
                } else {
                    Self::Leaving {
                        since,
                        revision,
                        retains,
                    }
                }
            }
            Self::Elsewhere => Self::Elsewhere,
        };
        match *self {
            Self::Elsewhere => Assignment::Elsewhere,
            Self::Leaving { retains: true, .. } => Assignment::Owner,
            Self::Leaving { .. } => Assignment::Standby,
            Self::Claimed { since, revision } => {
                let mut peers = table.peers();
                let own = table.own();
                let is_free = peers.all(|(name, peer)| {
                    let goes_first = name < own && is_selected(peer, &selects);
                    let has_noticed = peer.seen >= revision || now >= since.after(HANDOVER_LIMIT);
                    !goes_first && has_noticed && !peer.retained.contains(cluster.id)
                });
                if is_free && table.is_settled(now) {
                    Assignment::Owner
                } else {
                    Assignment::Standby
                }
            }
        }
    }

    /// Returns whether the shard has to announce that it cannot judge the cluster yet. It ends with
    /// the time that the old owner waits.
    pub fn is_unready(&self, is_judged: bool, now: Time) -> bool {
        match *self {
            Self::Claimed { since, .. } => !is_judged && now < since.after(HANDOVER_LIMIT),
            Self::Elsewhere | Self::Leaving { .. } => false,
        }
    }

    /// Returns whether the shard has to announce that it still owns the cluster of another one.
    pub fn retains(&self) -> bool {
        matches!(self, Self::Leaving { retains: true, .. })
    }
}

fn is_selected<S>(shard: &Announcement<S>, selects: impl Fn(&S) -> bool) -> bool {
    shard.selector.as_ref().is_some_and(selects)
}

/// Returns whether another shard judges the cluster. That it selects the cluster is not enough: it
/// has to have seen the version that moved it, from which on it would announce that it is not
/// ready.
fn is_taken_over<S: PartialEq>(
    table: &ShardTable<S>,
    cluster: &str,
    revision: Revision,
    selects: &impl Fn(&S) -> bool,
) -> bool {
    let mut peers = table.peers();
    peers.any(|(_, peer)| {
        peer.seen >= revision && !peer.unready.contains(cluster) && is_selected(peer, selects)
    })
}
