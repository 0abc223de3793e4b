//! Fractions, as used for thresholds.

use std::fmt;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

/// A number in (0, 1]: the share of nodes at which a condition counts as met.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct Fraction(f64);

impl Fraction {
    /// A fraction of 1: all nodes.
    pub const ONE: Self = Self(1.0);

    /// Creates a fraction. Returns `None` unless `value` is in (0, 1].
    pub fn new(value: f64) -> Option<Self> {
        (value > 0.0 && value <= 1.0).then_some(Self(value))
    }

    /// Returns the fraction as a number.
    pub const fn get(self) -> f64 {
        self.0
    }

    /// Returns whether `part` of `whole` is this share or more. Always false for an empty whole.
    pub fn is_reached(self, part: u32, whole: u32) -> bool {
        whole > 0 && f64::from(part) / f64::from(whole) >= self.0
    }

    /// Returns the smallest part of `whole` that [reaches](Self::is_reached) this share.
    pub fn quorum(self, whole: u32) -> u32 {
        // The product is an estimate from below. The division in `is_reached` is the definition.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the product is between 0 and `whole`"
        )]
        let mut part = (f64::from(whole) * self.0).floor() as u32;
        while part < whole && !self.is_reached(part, whole) {
            part += 1;
        }
        part
    }
}

impl<'de> Deserialize<'de> for Fraction {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = f64::deserialize(deserializer)?;
        Self::new(value)
            .ok_or_else(|| D::Error::custom("a fraction must be greater than 0 and at most 1"))
    }
}

/// Prints a percentage with up to two decimals.
impl fmt::Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", (self.0 * 10_000.0).round() / 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_outside_zero_to_one_are_rejected() {
        for bad in [0.0, -0.1, 1.000_001, f64::NAN, f64::INFINITY] {
            assert_eq!(Fraction::new(bad), None, "{bad}");
        }
        assert!(Fraction::new(1.0).is_some());
        assert!(Fraction::new(f64::MIN_POSITIVE).is_some());
    }

    #[test]
    fn prints_as_a_percentage() {
        assert_eq!(Fraction(0.6).to_string(), "60 %");
        assert_eq!(Fraction(1.0 / 3.0).to_string(), "33.33 %");
    }

    #[test]
    fn empty_whole_never_reaches_a_share() {
        assert!(!Fraction(0.6).is_reached(0, 0));
        assert_eq!(Fraction(0.6).quorum(0), 0);
    }

    proptest! {
        #[test]
        fn quorum_is_smallest_part_reaching_share(
            share in 0.000_1_f64..=1.0, whole in 1_u32..10_000,
        ) {
            let fraction = Fraction(share);
            let quorum = fraction.quorum(whole);
            prop_assert!(fraction.is_reached(quorum, whole));
            prop_assert!(quorum > 0 && !fraction.is_reached(quorum - 1, whole));
        }
    }
}
