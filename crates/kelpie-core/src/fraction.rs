//! A share of a whole, as thresholds use it.

use std::fmt;

use serde::Serialize;

/// A number in (0, 1]: the share of nodes at which something counts as true.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct Fraction(f64);

impl Fraction {
    /// The whole.
    pub const ONE: Self = Self(1.0);

    /// `None` unless `value` lies in (0, 1].
    pub fn new(value: f64) -> Option<Self> {
        (value > 0.0 && value <= 1.0).then_some(Self(value))
    }

    /// The number itself.
    pub const fn get(self) -> f64 {
        self.0
    }

    /// Whether `part` of `whole` is this share or more. No part of nothing is.
    pub fn is_reached(self, part: u32, whole: u32) -> bool {
        whole > 0 && f64::from(part) / f64::from(whole) >= self.0
    }

    /// The smallest part of `whole` that [reaches](Self::is_reached) this share.
    pub fn quorum(self, whole: u32) -> u32 {
        // An estimate from below; the division above is the definition, not this product.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it lies between 0 and the whole"
        )]
        let mut part = (f64::from(whole) * self.0).floor() as u32;
        while part < whole && !self.is_reached(part, whole) {
            part += 1;
        }
        part
    }
}

/// As a percentage, with as many digits as it needs.
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
    fn only_shares_in_zero_to_one_exist() {
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
    fn no_part_of_nothing_reaches_a_share() {
        assert!(!Fraction(0.6).is_reached(0, 0));
        assert_eq!(Fraction(0.6).quorum(0), 0);
    }

    proptest! {
        #[test]
        fn the_quorum_is_the_smallest_part_that_reaches_the_share(
            share in 0.000_1_f64..=1.0, whole in 1_u32..10_000,
        ) {
            let fraction = Fraction(share);
            let quorum = fraction.quorum(whole);
            prop_assert!(fraction.is_reached(quorum, whole));
            prop_assert!(quorum > 0 && !fraction.is_reached(quorum - 1, whole));
        }
    }
}
