//! How long a step took: the one place of this crate that reads a clock.

use std::fmt;
use std::time::{Duration, Instant};

/// Runs from its start; displays as `12.3s` or `6m31s`.
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(
        clippy::disallowed_methods,
        reason = "times the steps of a command; no decision depends on it"
    )]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn read(&self) -> Took {
        Took(self.0.elapsed())
    }
}

/// A time a step took, for people.
#[derive(Clone, Copy)]
pub(crate) struct Took(Duration);

impl fmt::Display for Took {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0.as_secs() {
            0..60 => format!("{:.1}s", self.0.as_secs_f64()),
            seconds => format!("{}m{:02}s", seconds / 60, seconds % 60),
        };
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_times_have_tenths_long_ones_minutes() {
        assert_eq!(Took(Duration::from_millis(1234)).to_string(), "1.2s");
        assert_eq!(Took(Duration::from_secs(391)).to_string(), "6m31s");
        assert_eq!(format!("{:>6}", Took(Duration::ZERO)), "  0.0s");
    }
}
