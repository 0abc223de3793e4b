//! Measures how long a step takes. No other module of this crate reads a clock.

use std::fmt;
use std::time::{Duration, Instant};

/// A running stopwatch.
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(
        clippy::disallowed_methods,
        reason = "times the steps of a command; no decision depends on it"
    )]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn read(&self) -> Elapsed {
        Elapsed(self.0.elapsed())
    }
}

/// A measured duration. Displays as `12.3s` or `6m31s`.
#[derive(Clone, Copy)]
pub(crate) struct Elapsed(Duration);

impl fmt::Display for Elapsed {
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
    fn short_durations_have_tenths() {
        assert_eq!(Elapsed(Duration::from_millis(1234)).to_string(), "1.2s");
        assert_eq!(Elapsed(Duration::from_secs(391)).to_string(), "6m31s");
        assert_eq!(format!("{:>6}", Elapsed(Duration::ZERO)), "  0.0s");
    }
}
