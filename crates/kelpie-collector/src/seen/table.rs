//! One shard: open addressing with a load that is never low.

use super::Offer;
use super::stamp::Stamp;

/// A series. A hash of zero is an empty place.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    hash: u64,
    /// When it was last offered, with the turn (modulo 4) of that.
    offered: u32,
    /// What the hub has, with 1 if it has anything.
    acknowledged: u32,
}

/// One shard of the table.
///
/// Places are found by the high bits of the hash, scaled to any capacity, so that it can grow in
/// steps of a fifth: 16 bytes at a load of at least 0.7 are less than 24 per series.
#[derive(Debug, Default)]
pub(super) struct Table {
    entries: Vec<Entry>,
    len: usize,
}

impl Table {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
    }

    pub(super) fn offer(&mut self, hash: u64, timestamp_ms: i64, turn: u32) -> Offer {
        let hash = hash.max(1);
        let stamp = Stamp::of(timestamp_ms);
        let Some(entry) = self.find(hash) else {
            self.insert(Entry {
                hash,
                offered: stamp.with(turn),
                acknowledged: 0,
            });
            return Offer::New;
        };
        let (offered, offered_in) = Stamp::parts(entry.offered);
        let (has, has_any) = Stamp::parts(entry.acknowledged);
        let is_repeated = offered_in == turn & 3 && !stamp.is_after(offered);
        // Seen, whatever comes of it; of several samples in one turn the latest counts.
        if !is_repeated {
            entry.offered = stamp.with(turn);
        }
        if has_any == 1 && !stamp.is_after(has) {
            Offer::Unchanged
        } else if is_repeated {
            Offer::Repeated
        } else {
            Offer::New
        }
    }

    pub(super) fn acknowledge(&mut self, hash: u64, timestamp_ms: i64) {
        let stamp = Stamp::of(timestamp_ms);
        // Not there: forgotten while the request was under way. It will be sent once more.
        if let Some(entry) = self.find(hash.max(1)) {
            let (has, has_any) = Stamp::parts(entry.acknowledged);
            if has_any == 0 || stamp.is_after(has) {
                entry.acknowledged = stamp.with(1);
            }
        }
    }

    /// `turn` is over: what was not offered in it or the one before goes.
    pub(super) fn forget(&mut self, turn: u32) {
        let stays = |entry: &Entry| {
            let (_, offered_in) = Stamp::parts(entry.offered);
            turn.wrapping_sub(offered_in) & 3 < 2
        };
        let live = self.entries.iter().filter(|entry| entry.hash != 0);
        let kept = live.clone().filter(|entry| stays(entry)).count();
        if kept == self.len {
            return;
        }
        let kept: Vec<Entry> = live.copied().filter(stays).collect();
        self.rebuild(kept.len(), kept.iter());
    }

    fn find(&mut self, hash: u64) -> Option<&mut Entry> {
        if self.entries.is_empty() {
            return None;
        }
        let at = self.place(hash);
        let found = self.entries[at].hash == hash;
        found.then(|| &mut self.entries[at])
    }

    /// Where the hash is, or the empty place where it belongs.
    fn place(&self, hash: u64) -> usize {
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

    fn insert(&mut self, entry: Entry) {
        if self.len + 1 > most(self.entries.len()) {
            let old = std::mem::take(&mut self.entries);
            let live = old.iter().filter(|entry| entry.hash != 0);
            self.rebuild(self.len + self.len / 5 + 8, live);
        }
        let at = self.place(entry.hash);
        self.entries[at] = entry;
        self.len += 1;
    }

    /// A table with room for so many, and these in it.
    fn rebuild<'a>(&mut self, room: usize, live: impl Iterator<Item = &'a Entry>) {
        let capacity = room * 20 / 17 + 1;
        self.entries = vec![Entry::default(); capacity];
        self.len = 0;
        for entry in live {
            let at = self.place(entry.hash);
            self.entries[at] = *entry;
            self.len += 1;
        }
    }
}

/// Entries that a table of this capacity takes before it grows: 85 %.
fn most(capacity: usize) -> usize {
    capacity * 17 / 20
}
