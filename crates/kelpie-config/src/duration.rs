//! Durations in Go's syntax: `1h30m`, `1.5s`, `500ms`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Serialize, Serializer};
use thiserror::Error;

/// A duration that is parsed and displayed in Go's syntax.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration(pub Duration);

/// An error in parsing a [`GoDuration`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DurationError {
    /// The text is empty.
    #[error("is empty")]
    Empty,
    /// The duration is negative, which Go allows but no setting does.
    #[error("is negative")]
    Negative,
    /// A number has no unit.
    #[error("has no unit")]
    NoUnit,
    /// A unit is not one of Go's.
    #[error("has the unknown unit `{0}`")]
    UnknownUnit(String),
    /// The duration exceeds 2^63 - 1 nanoseconds.
    #[error("is too long (the limit is 2562047h)")]
    TooLong,
    /// Any other syntax error.
    #[error("is not a duration")]
    Malformed,
}

const NANOS_PER_SECOND: u64 = 1_000_000_000;

impl FromStr for GoDuration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        let (negative, unsigned) = match text.as_bytes().first() {
            None => return Err(DurationError::Empty),
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            Some(_) => (false, text),
        };
        let nanos = magnitude(unsigned)?;
        if negative && nanos > 0 {
            return Err(DurationError::Negative);
        }
        Ok(Self(Duration::from_nanos(nanos)))
    }
}

/// Parses a duration without a sign into nanoseconds.
fn magnitude(text: &str) -> Result<u64, DurationError> {
    if text == "0" {
        return Ok(0);
    }
    if text.is_empty() {
        return Err(DurationError::Malformed);
    }
    let mut total = 0_u64;
    let mut rest = text;
    while !rest.is_empty() {
        let (nanos, after) = term(rest)?;
        total = total
            .checked_add(nanos)
            .filter(|&sum| i64::try_from(sum).is_ok())
            .ok_or(DurationError::TooLong)?;
        rest = after;
    }
    Ok(total)
}

/// Parses the number and unit at the start of `text`. Returns nanoseconds and the rest of the text.
fn term(text: &str) -> Result<(u64, &str), DurationError> {
    let (integer, rest) = digits(text);
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(after) => digits(after),
        None => ("", rest),
    };
    if integer.is_empty() && fraction.is_empty() {
        return Err(DurationError::Malformed);
    }
    let end = rest
        .find(|c: char| c == '.' || c.is_ascii_digit())
        .unwrap_or(rest.len());
    let (name, rest) = rest.split_at(end);
    let unit = match name {
        "" => return Err(DurationError::NoUnit),
        "ns" => 1,
        // The micro sign and the Greek letter mu look the same.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => NANOS_PER_SECOND,
        "m" => 60 * NANOS_PER_SECOND,
        "h" => 3_600 * NANOS_PER_SECOND,
        other if other.contains(char::is_whitespace) => return Err(DurationError::Malformed),
        other => return Err(DurationError::UnknownUnit(other.to_owned())),
    };
    let integer: u64 = match integer {
        "" => 0,
        number => number.parse().map_err(|_| DurationError::TooLong)?,
    };
    let nanos = integer.checked_mul(unit).ok_or(DurationError::TooLong)?;
    let nanos = nanos
        .checked_add(part_of(unit, fraction))
        .ok_or(DurationError::TooLong)?;
    Ok((nanos, rest))
}

/// Computes `0.{fraction}` of `unit`, rounded down.
fn part_of(unit: u64, fraction: &str) -> u64 {
    // An hour has 3.6e12 nanoseconds, so digits beyond the 15th make no difference.
    let (numerator, denominator) = fraction
        .bytes()
        .take(15)
        .fold((0_u128, 1_u128), |(n, d), digit| {
            (n * 10 + u128::from(digit - b'0'), d * 10)
        });
    u64::try_from(u128::from(unit) * numerator / denominator).unwrap_or(unit)
}

fn digits(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    text.split_at(end)
}

/// Formats like Go's `Duration.String`: `1h30m0s`, `1.5s`, `500ms`, `0s`.
impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, nanos) = (self.0.as_secs(), self.0.subsec_nanos());
        if seconds > 0 {
            let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
            if hours > 0 {
                write!(f, "{hours}h")?;
            }
            if hours > 0 || minutes > 0 {
                write!(f, "{minutes}m")?;
            }
            return write!(f, "{}{}s", seconds % 60, decimals(nanos, 9));
        }
        let (unit, name, digits) = match nanos {
            0 => return f.write_str("0s"),
            1..1_000 => (1, "ns", 0),
            1_000..1_000_000 => (1_000, "\u{b5}s", 3),
            _ => (1_000_000, "ms", 6),
        };
        write!(
            f,
            "{}{}{name}",
            nanos / unit,
            decimals(nanos % unit, digits)
        )
    }
}

/// Formats `part` as the decimals of a number with `digits` places, without trailing zeros.
fn decimals(part: u32, digits: usize) -> String {
    match format!(".{part:0digits$}").trim_end_matches('0') {
        "." => String::new(),
        decimals => decimals.to_owned(),
    }
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<Duration, DurationError> {
        text.parse::<GoDuration>().map(|duration| duration.0)
    }

    #[test]
    fn parses_go_durations() {
        for (text, nanos) in [
            ("0", 0),
            ("-0", 0),
            ("+0", 0),
            ("0s", 0),
            ("-0s", 0),
            ("5s", 5_000_000_000),
            ("+5s", 5_000_000_000),
            ("1h30m", 5_400_000_000_000),
            ("1.5s", 1_500_000_000),
            ("1.s", 1_000_000_000),
            (".5s", 500_000_000),
            ("500ms", 500_000_000),
            ("1us", 1_000),
            ("1\u{b5}s", 1_000),
            ("1\u{3bc}s", 1_000),
            ("10.5s4m", 250_500_000_000),
            ("1m1m", 120_000_000_000),
            ("0.999999999999999999h", 3_599_999_999_999),
            ("0.0000000000000000000001h", 0),
            ("9223372036854775807ns", i64::MAX.unsigned_abs()),
            ("2562047h47m16.854775807s", i64::MAX.unsigned_abs()),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_nanos(nanos)), "{text}");
        }
    }

    #[test]
    fn rejects_invalid_durations_with_the_reason() {
        for (text, error) in [
            ("", DurationError::Empty),
            ("10", DurationError::NoUnit),
            ("1.5", DurationError::NoUnit),
            ("1h30", DurationError::NoUnit),
            ("1d", DurationError::UnknownUnit("d".into())),
            ("10 s", DurationError::Malformed),
            ("10S", DurationError::UnknownUnit("S".into())),
            ("-1s", DurationError::Negative),
            ("-", DurationError::Malformed),
            (".", DurationError::Malformed),
            (".s", DurationError::Malformed),
            ("s", DurationError::Malformed),
            ("--1s", DurationError::Malformed),
            ("soon", DurationError::Malformed),
            ("9223372036854775808ns", DurationError::TooLong),
            ("99999999999999999999s", DurationError::TooLong),
            ("2562048h", DurationError::TooLong),
            ("2562047h2562047h", DurationError::TooLong),
            ("18446744073709551615.9ns1h", DurationError::TooLong),
        ] {
            assert_eq!(parse(text), Err(error), "{text}");
        }
    }

    #[test]
    fn displays_like_go() {
        for (nanos, text) in [
            (0, "0s"),
            (1, "1ns"),
            (1_100, "1.1\u{b5}s"),
            (2_200_000, "2.2ms"),
            (3_300_000_000, "3.3s"),
            (245_000_000_000, "4m5s"),
            (245_001_000_000, "4m5.001s"),
            (18_367_001_000_000, "5h6m7.001s"),
            (5_400_000_000_000, "1h30m0s"),
            (480_000_000_001, "8m0.000000001s"),
        ] {
            assert_eq!(GoDuration(Duration::from_nanos(nanos)).to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn displayed_durations_round_trip(nanos in 0..=i64::MAX.unsigned_abs()) {
            let duration = Duration::from_nanos(nanos);
            prop_assert_eq!(parse(&GoDuration(duration).to_string()), Ok(duration));
        }

        #[test]
        fn short_durations_round_trip(nanos in 0..10_000_000_000_u64) {
            let duration = Duration::from_nanos(nanos);
            prop_assert_eq!(parse(&GoDuration(duration).to_string()), Ok(duration));
        }

        #[test]
        fn arbitrary_text_never_panics(text in "[-+.0-9a-z\u{b5} ]{0,30}|.*") {
            let _ = parse(&text);
        }
    }
}
