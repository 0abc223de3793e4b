//! Parses values and timestamps like Prometheus.

/// Parses a value. Returns `None` if it is invalid.
///
/// Prometheus uses Go's `ParseFloat`, which unlike Rust rejects a NaN with a sign and a number too
/// large for a float. Prometheus itself rejects hexadecimal numbers and underscores, as Rust does.
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

/// Parses a short integer, as most values are. A float holds it exactly, without rounding.
fn integer(token: &[u8]) -> Option<f64> {
    const EXACT_DIGITS: usize = 9;
    if token.is_empty() || token.len() > EXACT_DIGITS {
        return None;
    }
    u32::try_from(digits(token)?).ok().map(f64::from)
}

/// Parses a timestamp in milliseconds. Like Prometheus it accepts only digits.
pub(super) fn timestamp(token: &[u8]) -> Option<i64> {
    /// The number of digits that cannot overflow.
    const SAFE_DIGITS: usize = 19;
    let mut short = token;
    while short.len() > SAFE_DIGITS {
        short = short.strip_prefix(b"0")?;
    }
    let value = i64::try_from(digits(short)?).ok();
    value.filter(|_| !token.is_empty())
}

fn digits(token: &[u8]) -> Option<u64> {
    token.iter().try_fold(0_u64, |value, byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit <= 9).then(|| value * 10 + u64::from(digit))
    })
}
