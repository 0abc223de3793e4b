//! A hash table with open addressing and a high load.

use super::DedupResult;
use super::wrapped_timestamp::WrappedTimestamp;

/// A series. A hash of zero is an empty slot.
#[derive(Clone, Copy, Debug, Default)]
struct DedupEntry {
    hash: u64,
    /// The last offered timestamp, packed with the number of its tick modulo 4.
    offered: u32,
    /// The last timestamp that the hub has, packed with 1 if it has any.
    acknowledged: u32,
}

/// One shard of the table.
///
/// The high bits of the hash, scaled to the capacity, select the slot. The capacity can therefore
/// grow in steps of a fifth, and 16 bytes at a load of at least 0.7 are less than 24 per series.
#[derive(Debug, Default)]
pub(super) struct DedupShard {
    entries: Vec<DedupEntry>,
    len: usize,
}

impl DedupShard {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<DedupEntry>()
    }

    pub(super) fn offer(&mut self, hash: u64, timestamp_ms: i64, tick: u32) -> DedupResult {
        let hash = hash.max(1);
        let timestamp = WrappedTimestamp::new(timestamp_ms);
        let Some(entry) = self.find(hash) else {
            self.insert(DedupEntry {
                hash,
                offered: timestamp.pack(tick),
                acknowledged: 0,
            });
            return DedupResult::New;
        };
        let (offered, offered_in) = WrappedTimestamp::unpack(entry.offered);
        let (acknowledged, is_acknowledged) = WrappedTimestamp::unpack(entry.acknowledged);
        let has =
            |timestamp: WrappedTimestamp| is_acknowledged == 1 && !timestamp.is_after(acknowledged);
        // Batches are delivered concurrently. With two samples of a series on their way, the older
        // one could arrive last and cost its whole batch.
        let is_in_flight = offered_in == tick & 3 && !has(offered);
        if !is_in_flight {
            // Marks the series as live, also if nothing is sent.
            entry.offered = timestamp.pack(tick);
        }
        if has(timestamp) {
            DedupResult::Unchanged
        } else if is_in_flight {
            DedupResult::Repeated
        } else {
            DedupResult::New
        }
    }

    pub(super) fn acknowledge(&mut self, hash: u64, timestamp_ms: i64) {
        let timestamp = WrappedTimestamp::new(timestamp_ms);
        // A missing entry was removed while the request was in flight. The sample is sent once
        // more.
        if let Some(entry) = self.find(hash.max(1)) {
            let (acknowledged, is_acknowledged) = WrappedTimestamp::unpack(entry.acknowledged);
            if is_acknowledged == 0 || timestamp.is_after(acknowledged) {
                entry.acknowledged = timestamp.pack(1);
            }
        }
    }

    /// Removes the series that were offered neither in `tick`, which has ended, nor in the one
    /// before.
    pub(super) fn remove_stale(&mut self, tick: u32) {
        let is_live = |entry: &DedupEntry| {
            let (_, offered_in) = WrappedTimestamp::unpack(entry.offered);
            tick.wrapping_sub(offered_in) & 3 < 2
        };
        let used = self.entries.iter().filter(|entry| entry.hash != 0);
        let kept = used.clone().filter(|entry| is_live(entry)).count();
        if kept == self.len {
            return;
        }
        let kept: Vec<DedupEntry> = used.copied().filter(is_live).collect();
        self.rebuild(kept.len(), kept.iter());
    }

    fn find(&mut self, hash: u64) -> Option<&mut DedupEntry> {
        if self.entries.is_empty() {
            return None;
        }
        let at = self.slot(hash);
        let found = self.entries[at].hash == hash;
        found.then(|| &mut self.entries[at])
    }

    /// Returns the slot of the hash, or the empty slot where it belongs.
    fn slot(&self, hash: u64) -> usize {
        let capacity = self.entries.len();
        let scaled = (u128::from(hash) * capacity as u128) >> 64;
        let mut at = usize::try_from(scaled).unwrap_or_default();
        while self.entries[at].hash != hash && self.entries[at].hash != 0 {
            at += 1;
            if at == capacity {
                at = 0;
            }
        }
        at
    }

    fn insert(&mut self, entry: DedupEntry) {
        if self.len + 1 > max_len(self.entries.len()) {
            let old = std::mem::take(&mut self.entries);
            let live = old.iter().filter(|entry| entry.hash != 0);
            self.rebuild(self.len + self.len / 5 + 8, live);
        }
        let at = self.slot(entry.hash);
        self.entries[at] = entry;
        self.len += 1;
    }

    /// Allocates space for `room` entries and inserts `entries`.
    fn rebuild<'a>(&mut self, room: usize, entries: impl Iterator<Item = &'a DedupEntry>) {
        let capacity = room * 20 / 17 + 1;
        self.entries = vec![DedupEntry::default(); capacity];
        self.len = 0;
        for entry in entries {
            let at = self.slot(entry.hash);
            self.entries[at] = *entry;
            self.len += 1;
        }
    }
}

/// Returns the number of entries at which a table of this capacity grows: 85 %.
fn max_len(capacity: usize) -> usize {
    capacity * 17 / 20
}
