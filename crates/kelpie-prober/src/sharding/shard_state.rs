//! The shards on the state page.

use serde::{Deserialize, Serialize};

/// The shards as one of them sees them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShardState {
    /// The name of this shard.
    pub name: String,
    /// The selector of this shard in API syntax.
    pub selector: String,
    /// The shards whose Lease has not expired.
    pub live: Vec<ShardEntry>,
    /// The number of clusters that no live shard selects.
    pub unwatched: usize,
    /// Some of them.
    pub unwatched_clusters: Vec<String>,
    /// The number of clusters that several shards select.
    pub contested: usize,
    /// Some of them.
    pub contested_clusters: Vec<String>,
}

/// A shard whose Lease has not expired.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShardEntry {
    /// The name of the shard.
    pub name: String,
    /// Its selector in API syntax; `None` if it cannot be read.
    pub selector: Option<String>,
}
