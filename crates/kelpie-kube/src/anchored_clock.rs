//! A monotonic timeline.

use std::time::Duration;

use crate::SystemClock;
use kelpie_core::Time;
use tokio::time::Instant;

/// A monotonic clock that is anchored to the system clock once. Later steps of the system clock do
/// not affect it.
#[derive(Clone, Copy, Debug)]
pub struct AnchoredClock {
    anchor: Instant,
    at_anchor: Time,
}

impl AnchoredClock {
    /// Creates a clock that is anchored to the current time of `clock`.
    pub fn anchored(clock: &SystemClock) -> Self {
        Self {
            anchor: Instant::now(),
            at_anchor: clock.now(),
        }
    }

    /// Returns the current time on this timeline.
    pub fn now(&self) -> Time {
        self.time(Instant::now())
    }

    /// Converts an instant of the runtime to this timeline.
    pub fn time(&self, instant: Instant) -> Time {
        match instant.checked_duration_since(self.anchor) {
            Some(after) => self.at_anchor.after(after),
            None => self.at_anchor.before(self.anchor - instant),
        }
    }

    /// Converts a time on this timeline to an instant of the runtime. Times more than 24 hours
    /// ahead become 24 hours ahead, because not every time has an instant; times before the anchor
    /// become the anchor.
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
    async fn timeline_follows_runtime_clock() {
        let clock = AnchoredClock::anchored(&SystemClock::default());
        let start = clock.now();
        tokio::time::advance(Duration::from_millis(1_500)).await;
        let now = clock.now();
        assert_eq!(now.since(start), Duration::from_millis(1_500));
        assert_eq!(clock.instant(now), Instant::now());
        let ahead = now.after(Duration::from_secs(7));
        assert_eq!(clock.time(clock.instant(ahead)), ahead);
    }

    #[tokio::test(start_paused = true)]
    async fn far_times_are_clamped() {
        let clock = AnchoredClock::anchored(&SystemClock::default());
        let day = Duration::from_hours(24);
        assert_eq!(clock.instant(Time::MAX), Instant::now() + day);
        assert!(clock.instant(Time::MIN) <= Instant::now());
    }
}
