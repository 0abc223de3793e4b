//! A hash that never changes.

/// Returns the 64-bit FNV-1a hash. Unlike the standard library's hashes, it never changes between
/// compilers, so that it can be stored, and compared by another version.
pub fn fnv1a(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
