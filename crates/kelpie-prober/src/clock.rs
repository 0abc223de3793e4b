//! The watchdog's own timeline.

use std::time::Duration;

use kelpie_core::Time;
use kelpie_kube::WallClock;
use tokio::time::Instant;

/// A monotonic clock, anchored to the wall clock once: a step of the host's clock changes nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    anchor: Instant,
    at_anchor: Time,
}

impl Clock {
    /// Anchored now.
    pub(crate) fn anchored(wall: &WallClock) -> Self {
        Self {
            anchor: Instant::now(),
            at_anchor: wall.now(),
        }
    }

    /// The present.
    pub(crate) fn now(&self) -> Time {
        self.time(Instant::now())
    }

    /// An instant of the runtime, on our timeline.
    pub(crate) fn time(&self, instant: Instant) -> Time {
        match instant.checked_duration_since(self.anchor) {
            Some(after) => self.at_anchor.after(after),
            None => self.at_anchor.before(self.anchor - instant),
        }
    }

    /// An instant of our timeline, for the runtime; far ahead if it cannot be told.
    pub(crate) fn instant(&self, time: Time) -> Instant {
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
        let clock = Clock::anchored(&WallClock::default());
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
        let clock = Clock::anchored(&WallClock::default());
        let day = Duration::from_hours(24);
        assert_eq!(clock.instant(Time::MAX), Instant::now() + day);
        assert!(clock.instant(Time::MIN) <= Instant::now());
    }
}
