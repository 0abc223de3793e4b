//! A time in few bits.

/// Bits of a stamp; 2^30 ms are 12 days.
const BITS: u32 = 30;

/// A time in milliseconds, modulo 12 days. What is compared is never six days apart: samples older
/// than a day are not sent, and a series that does not show in two ticks is forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp(u32);

impl Stamp {
    pub(super) fn of(timestamp_ms: i64) -> Self {
        let [a, b, c, d, ..] = timestamp_ms.to_le_bytes();
        Self(u32::from_le_bytes([a, b, c, d]) & mask())
    }

    pub(super) fn is_after(self, other: Self) -> bool {
        let ahead = self.0.wrapping_sub(other.0) & mask();
        ahead != 0 && ahead < 1 << (BITS - 1)
    }

    /// Packed with two bits of something else.
    pub(super) fn with(self, low: u32) -> u32 {
        (self.0 << 2) | (low & 3)
    }

    /// Both parts of what was packed.
    pub(super) fn parts(packed: u32) -> (Self, u32) {
        (Self(packed >> 2), packed & 3)
    }
}

fn mask() -> u32 {
    (1 << BITS) - 1
}
