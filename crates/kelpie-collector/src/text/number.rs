//! Values and timestamps, as Prometheus' own reader takes them.

/// A value, or nothing if it is none.
///
/// Prometheus reads with Go's `ParseFloat`: unlike Rust it refuses a NaN with a sign and a number
/// too large for a float. Prometheus itself refuses hexadecimal and underscores, as Rust does.
pub(super) fn value(token: &str) -> Option<f64> {
    if let Some(value) = integer(token.as_bytes()) {
        return Some(value);
    }
    let value: f64 = token.parse().ok()?;
    if value.is_nan() {
        return token.starts_with(['n', 'N']).then_some(value);
    }
    let is_spelled_out = || token.bytes().any(|byte| byte.eq_ignore_ascii_case(&b'i'));
    (value.is_finite() || is_spelled_out()).then_some(value)
}

/// Most values are short integers: those that a float holds exactly need no rounding.
fn integer(token: &[u8]) -> Option<f64> {
    const EXACT_DIGITS: usize = 9;
    if token.is_empty() || token.len() > EXACT_DIGITS {
        return None;
    }
    let mut value: u32 = 0;
    for byte in token {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + u32::from(digit);
    }
    Some(f64::from(value))
}

/// Milliseconds, or nothing if they are none. Prometheus takes digits only.
pub(super) fn timestamp(token: &[u8]) -> Option<i64> {
    /// As many digits as never overflow.
    const SAFE_DIGITS: usize = 19;
    let mut digits = token;
    while digits.len() > SAFE_DIGITS {
        digits = digits.strip_prefix(b"0")?;
    }
    let mut value: u64 = 0;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + u64::from(digit);
    }
    i64::try_from(value).ok().filter(|_| !token.is_empty())
}
