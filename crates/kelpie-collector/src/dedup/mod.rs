//! Remembers which samples the hub has.

mod shard;
mod wrapped_timestamp;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU32, Ordering};

use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;
use parking_lot::{Mutex, MutexGuard};

use crate::wire::Batch;
use shard::DedupShard;

/// The number of shards, one for each low byte of a hash. Each has its own lock and grows on its
/// own, so that only one of them is copied at a time.
const SHARDS: usize = 256;

/// Remembers the last timestamp that the hub has of every live series. A sample whose timestamp did
/// not advance is not sent again.
///
/// All streams of a process share one table. It takes less than 24 bytes per series. Series are
/// identified by a 64-bit hash with a key of this process, so that names cannot be crafted to
/// collide with other series. Intervals must not exceed a day.
pub struct DedupTable {
    hasher: SeedableRandomState,
    shards: Box<[Mutex<DedupShard>]>,
    /// The number of completed ticks.
    tick: AtomicU32,
}

/// The result of offering a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DedupResult {
    /// The sample is new and should be sent.
    New,
    /// The hub has the series at this timestamp or a later one.
    Unchanged,
    /// Another sample of the series is on its way in this tick.
    Repeated,
}

impl Default for DedupTable {
    fn default() -> Self {
        let key = RandomState::new().build_hasher().finish();
        Self::with_seeds(key, SharedSeed::global_random())
    }
}

impl DedupTable {
    /// Creates a table with a fixed key, so that runs can be compared.
    pub fn with_key(key: u64) -> Self {
        Self::with_seeds(key, SharedSeed::global_fixed())
    }

    fn with_seeds(key: u64, shared: &'static SharedSeed) -> Self {
        Self {
            hasher: SeedableRandomState::with_seed(key, shared),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            tick: AtomicU32::new(0),
        }
    }

    /// Records that the hub accepted all samples of the batch.
    pub fn acknowledge(&self, batch: &Batch) {
        for (hash, timestamp_ms) in batch.sample_keys() {
            self.shard(hash).acknowledge(hash, timestamp_ms);
        }
    }

    /// Ends a tick. Series that did not occur in the last two ticks are removed.
    pub fn end_tick(&self) {
        let tick = self.tick.fetch_add(1, Ordering::Relaxed);
        for shard in &self.shards {
            shard.lock().remove_stale(tick);
        }
    }

    /// Returns the number of series in the table.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    /// Returns true if the table has no series.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the memory of the table in bytes.
    pub fn bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().bytes()).sum()
    }

    pub(crate) fn hash(&self, labels: &[u8]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(labels);
        hasher.finish()
    }

    pub(crate) fn offer(&self, hash: u64, timestamp_ms: i64) -> DedupResult {
        let tick = self.tick.load(Ordering::Relaxed);
        self.shard(hash).offer(hash, timestamp_ms, tick)
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, DedupShard> {
        // The low byte selects the shard, and the shard uses the high bits.
        let [low, ..] = hash.to_le_bytes();
        self.shards[usize::from(low)].lock()
    }
}
