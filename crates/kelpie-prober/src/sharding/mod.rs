//! Shards: the part of the clusters that this prober watches, and how it knows of the others.
//!
//! `kelpie_core::prober::shard` decides. [`ShardClusters`] keeps what it decides about, and the
//! announcer reads and renews the Leases.

mod announcement;
mod announcer;
mod shard_clusters;
mod shard_state;

pub use announcement::{read_shard, unreadable_selector};
pub(crate) use announcer::{Announcer, ShardReport};
pub(crate) use shard_clusters::{Coverage, ShardClusters};
pub use shard_state::{ShardEntry, ShardState};
