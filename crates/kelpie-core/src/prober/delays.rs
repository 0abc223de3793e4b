//! Measured delays between evidence and an effective fence.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Time;

/// A sample counts in full when it is recorded and has no weight after this time.
const MEMORY: Duration = Duration::from_mins(1);

/// The recent worst of a delay. A sample fades linearly over a minute, so that one slow request
/// does not move the trip instant for long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecentWorst {
    sample: Duration,
    at: Time,
}

impl RecentWorst {
    /// Takes in a sample. A request that timed out counts with the time that it was given.
    pub fn record(&mut self, now: Time, sample: Duration) {
        if sample >= self.at(now) {
            *self = Self { sample, at: now };
        }
    }

    /// Returns the delay to expect at `now`.
    pub fn at(&self, now: Time) -> Duration {
        let left = MEMORY.saturating_sub(now.since(self.at));
        self.sample.mul_f64(left.div_duration_f64(MEMORY))
    }
}

/// The measured delays that a fence has to allow for, beside the configured reserve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delays {
    /// The time that a lease list takes.
    pub list: Duration,
    /// The time that a write to the seed takes.
    pub write: Duration,
    /// The time that writes of clusters with earlier deadlines take before that.
    pub queue: Duration,
    /// The time from an acknowledged write to the end of the pods.
    pub pod_stop: Duration,
    /// The lateness of the prober's own timers.
    pub wake: Duration,
}

impl Delays {
    /// Returns the time before the deadline at which a fence has to start. `configured` is
    /// `fenceReserve`, which covers the pods; zero turns the last call off.
    pub fn reserve(&self, configured: Duration) -> Duration {
        if configured.is_zero() {
            return configured;
        }
        let before_pods = [self.list, self.write, self.queue, self.wake];
        before_pods
            .into_iter()
            .fold(configured.max(self.pod_stop), Duration::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::from_unix(1_700_000_000, 0).after(Duration::from_secs(seconds))
    }

    #[test]
    fn worst_sample_fades_over_a_minute() {
        let mut worst = RecentWorst::default();
        assert_eq!(worst.at(at(0)), Duration::ZERO);
        worst.record(at(0), Duration::from_secs(6));
        worst.record(at(1), Duration::from_secs(1));
        assert_eq!(worst.at(at(0)), Duration::from_secs(6));
        assert_eq!(worst.at(at(30)), Duration::from_secs(3));
        assert_eq!(worst.at(at(60)), Duration::ZERO);
        worst.record(at(30), Duration::from_secs(4));
        assert_eq!(worst.at(at(30)), Duration::from_secs(4));
    }

    #[test]
    fn reserve_adds_delays_to_the_slower_pods() {
        let second = Duration::from_secs(1);
        let delays = Delays {
            list: second,
            write: 2 * second,
            queue: second,
            pod_stop: 5 * second,
            wake: second,
        };
        assert_eq!(delays.reserve(3 * second), 10 * second);
        assert_eq!(delays.reserve(Duration::ZERO), Duration::ZERO);
        assert_eq!(Delays::default().reserve(3 * second), 3 * second);
    }
}
