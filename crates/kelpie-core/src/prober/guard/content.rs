//! The content of the guard's policy.

use super::permits::Permits;
use crate::Time;

/// The content of the guard's policy, apart from its fixed text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardContent {
    /// The end of the guard on the API server's clock, in whole seconds.
    pub until: Time,
    /// The nodes that may turn Unknown before that.
    pub permits: Permits,
}

impl GuardContent {
    /// Returns the hash of the permits, by which an enforced policy is recognized.
    pub fn permits_hash(&self) -> u64 {
        // FNV-1a: the hash only has to differ from those of earlier permits.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let mut add = |byte: u8| {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        };
        match self.permits.names() {
            None => add(b'*'),
            Some(names) => {
                for name in names {
                    name.bytes().chain([b'/']).for_each(&mut add);
                }
            }
        }
        hash
    }

    /// Returns what a denied request tells about this content.
    pub fn mark(&self) -> GuardMark {
        GuardMark {
            until: self.until,
            permits_hash: self.permits_hash(),
        }
    }
}

/// The content of an enforced policy, as a denied request tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuardMark {
    /// The end of the guard.
    pub until: Time,
    /// The hash of the permits.
    pub permits_hash: u64,
}
