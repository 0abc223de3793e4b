//! Protobuf varints.

/// Appends `value` as a varint.
pub(super) fn write(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(low_byte(value) | 0x80);
        value >>= 7;
    }
    to.push(low_byte(value));
}

/// Returns the encoded size in bytes.
pub(super) fn size(value: u64) -> usize {
    // One byte for every seven bits. Zero takes one byte too.
    let bits = 64 - (value | 1).leading_zeros();
    bits.div_ceil(7) as usize
}

/// Reads a varint and advances `from` past it.
pub(super) fn read(from: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = from.split_first()?;
        *from = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn low_byte(value: u64) -> u8 {
    value.to_le_bytes()[0]
}
