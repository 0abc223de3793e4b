//! Shards: several probers, each of which watches the clusters that its selector matches.
//!
//! Every shard announces itself on a Lease. A [`ShardTable`] has the announcements as one shard
//! last read them, and a [`Handover`] decides for each cluster what this shard does for it. A
//! cluster that moves is never without a probe that judges: the old shard goes on, as a standby,
//! until the new one judges. It never has two owners: the new shard restores nothing until every
//! other shard has seen the move.

mod handover;
mod table;

pub use handover::{Assignment, ClusterClaim, Handover};
pub use table::{Announcement, ClusterList, ObservedShard, Revision, ShardTable};

use std::time::Duration;

/// A shard counts for this long after the last renewal of its Lease that was seen.
pub const LEASE_DURATION: Duration = Duration::from_secs(15);
/// A shard owns clusters for this long after it has last renewed its Lease and read the others.
/// Shorter than the lease, so that a shard that counts as dead owns nothing.
pub const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// The time between two renewals.
pub const RENEW_INTERVAL: Duration = Duration::from_secs(3);
/// The longest time that a shard waits for another one: the old owner of a cluster for the first
/// judgement of the new one, and the new owner until the old one has seen the move.
pub const HANDOVER_LIMIT: Duration = Duration::from_mins(2);
