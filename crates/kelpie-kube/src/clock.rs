//! The watchdog's own timeline.

use std::time::{Duration, SystemTime};

use kelpie_core::Time;
use tokio::time::Instant;

/// A monotonic clock, anchored to the wall clock once: a step of the host's clock changes nothing.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    anchor: Instant,
    at_anchor: Time,
}

impl Clock {
    /// Anchored now.
    pub fn anchored() -> Self {
        #[expect(
            clippy::disallowed_methods,
            reason = "the one place that reads the wall clock, at start"
        )]
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Self {
            anchor: Instant::now(),
            at_anchor: Time::from_micros(0).after(wall.unwrap_or(Duration::ZERO)),
        }
    }

    /// The present.
    pub fn now(&self) -> Time {
        self.time(Instant::now())
    }

    /// An instant of the runtime, on our timeline.
    pub fn time(&self, instant: Instant) -> Time {
        match instant.checked_duration_since(self.anchor) {
            Some(after) => self.at_anchor.after(after),
            None => self.at_anchor.before(self.anchor - instant),
        }
    }

    /// An instant of our timeline, for the runtime; far ahead if it cannot be told.
    pub fn instant(&self, time: Time) -> Instant {
        let after = time.since(self.at_anchor);
        let far = Duration::from_hours(24);
        self.anchor + after.min(self.anchor.elapsed() + far)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_timeline_runs_with_the_runtime_and_maps_back_and_forth() {
        let clock = Clock::anchored();
        let start = clock.now();
        tokio::time::advance(Duration::from_millis(1_500)).await;
        let now = clock.now();
        assert_eq!(now.since(start), Duration::from_millis(1_500));
        assert_eq!(clock.instant(now), Instant::now());
        let ahead = now.after(Duration::from_secs(7));
        assert_eq!(clock.time(clock.instant(ahead)), ahead);
    }

    #[tokio::test(start_paused = true)]
    async fn what_cannot_be_told_lies_far_ahead_and_the_past_is_now() {
        let clock = Clock::anchored();
        let day = Duration::from_hours(24);
        assert_eq!(clock.instant(Time::MAX), Instant::now() + day);
        assert!(clock.instant(Time::MIN) <= Instant::now());
    }
}
