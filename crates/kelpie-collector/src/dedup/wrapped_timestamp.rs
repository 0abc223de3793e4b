//! A timestamp in 30 bits.

/// The bits of a timestamp. 2^30 ms are 12 days.
const BITS: u32 = 30;

/// A timestamp in milliseconds, modulo 12 days. Compared timestamps are never six days apart:
/// samples older than a day are not sent, and a series that is absent for two ticks is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WrappedTimestamp(u32);

impl WrappedTimestamp {
    pub(super) fn new(timestamp_ms: i64) -> Self {
        let [a, b, c, d, ..] = timestamp_ms.to_le_bytes();
        Self(u32::from_le_bytes([a, b, c, d]) & mask())
    }

    pub(super) fn is_after(self, other: Self) -> bool {
        let ahead = self.0.wrapping_sub(other.0) & mask();
        ahead != 0 && ahead < 1 << (BITS - 1)
    }

    /// Packs the timestamp with two bits of other data.
    pub(super) fn pack(self, low: u32) -> u32 {
        (self.0 << 2) | (low & 3)
    }

    /// Splits a packed value into the timestamp and the two bits.
    pub(super) fn unpack(packed: u32) -> (Self, u32) {
        (Self(packed >> 2), packed & 3)
    }
}

fn mask() -> u32 {
    (1 << BITS) - 1
}
