//! Exponential back-off with jitter.

use std::time::Duration;

/// Pauses that double from `first` to `longest`, each with a jitter of ±25 %.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    pub(crate) const fn new(first: Duration, longest: Duration) -> Self {
        Self {
            first,
            longest,
            next: first,
        }
    }

    /// Returns the next pause. `random` is between 0 and 1 and determines the jitter.
    pub(crate) fn pause(&mut self, random: f64) -> Duration {
        let pause = self.next.mul_f64(0.75 + 0.5 * random.clamp(0.0, 1.0));
        self.next = self.next.saturating_mul(2).min(self.longest);
        pause.min(self.longest)
    }

    /// Starts again with the first pause, after a success.
    pub(crate) fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let second = Duration::from_secs(1);
        let mut backoff = Backoff::new(second, 60 * second);
        let pauses: Vec<u64> = (0..8).map(|_| backoff.pause(0.5).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        backoff.reset();
        assert_eq!(backoff.pause(0.0), second.mul_f64(0.75));
        assert_eq!(
            Backoff::new(second, second).pause(1.0),
            second,
            "never longer"
        );
    }
}
