//! Which samples the hub has.

mod stamp;
mod table;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;

use crate::wire::Batch;
use table::Table;

/// Parts of the table, one for each low byte of a hash. Each has its own lock and grows for itself:
/// what grows is never more than one of them.
const SHARDS: usize = 256;

/// For every live series the time up to which the hub has it: a sample that did not advance is not
/// sent again.
///
/// One per process, shared by all streams. Takes less than 24 bytes per series. A series is known
/// by a 64-bit hash with a key of this process: who names series cannot aim at the hash of others.
/// Intervals of more than a day are too long for it.
pub struct Seen {
    hasher: SeedableRandomState,
    shards: Box<[Mutex<Table>]>,
    /// Ticks so far.
    turn: AtomicU32,
}

/// What is to be done with a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// Send it.
    New,
    /// The hub has the series at this time or a later one.
    Unchanged,
    /// The series was offered in this turn already, at this time or a later one.
    Repeated,
}

impl Default for Seen {
    fn default() -> Self {
        let key = RandomState::new().build_hasher().finish();
        Self::with_seeds(key, SharedSeed::global_random())
    }
}

impl Seen {
    /// A table with a known key: runs can be compared.
    pub fn with_key(key: u64) -> Self {
        Self::with_seeds(key, SharedSeed::global_fixed())
    }

    fn with_seeds(key: u64, shared: &'static SharedSeed) -> Self {
        Self {
            hasher: SeedableRandomState::with_seed(key, shared),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            turn: AtomicU32::new(0),
        }
    }

    /// The hub has answered 2xx: it has all samples of the batch.
    pub fn acknowledge(&self, batch: &Batch) {
        for (hash, timestamp_ms) in batch.marks() {
            self.shard(hash).acknowledge(hash, timestamp_ms);
        }
    }

    /// A tick is over. A series that did not show in the last two is forgotten.
    pub fn turn(&self) {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        for shard in &self.shards {
            lock(shard).forget(turn);
        }
    }

    /// Series in the table.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).len()).sum()
    }

    /// Whether no series is in the table.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory that the table takes.
    pub fn bytes(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).bytes()).sum()
    }

    pub(crate) fn hash(&self, labels: &[u8]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(labels);
        hasher.finish()
    }

    pub(crate) fn offer(&self, hash: u64, timestamp_ms: i64) -> Offer {
        let turn = self.turn.load(Ordering::Relaxed);
        self.shard(hash).offer(hash, timestamp_ms, turn)
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, Table> {
        // Its table finds it by the high bits.
        let [low, ..] = hash.to_le_bytes();
        lock(&self.shards[usize::from(low)])
    }
}

/// A table is whole at any moment: a panic elsewhere does not spoil it.
fn lock(shard: &Mutex<Table>) -> MutexGuard<'_, Table> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}
