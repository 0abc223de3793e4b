//! How fast a stage's time goes by on the wall.

use std::time::Duration;

use tokio::time::Instant;

/// A story is told in about so long; what is tense takes some more.
const STORY: Duration = Duration::from_secs(40);

/// Tense moments take so many times as long.
const LINGER: f64 = 8.0;

/// Where the wall's time should be. Stages are played frame by frame and wait for the wall in between,
/// so that what happens on them is the same at any speed.
pub(super) struct Pace {
    /// Times as fast as real time, if there is any limit.
    calm: Option<f64>,
    tense: f64,
    begun: Instant,
    /// The wall's time that should have gone by.
    due: Duration,
}

impl Pace {
    /// As fast as possible.
    pub(super) fn unbounded() -> Self {
        Self::new(None, 0.0)
    }

    /// So many times as fast as real time.
    pub(super) fn steady(speed: f64) -> Self {
        Self::new(Some(speed), speed)
    }

    /// For a story of this length: quick where nothing happens, slow where it matters.
    pub(super) fn of_a_story(length: Duration) -> Self {
        let calm = (length.as_secs_f64() / STORY.as_secs_f64()).max(1.0);
        Self::new(Some(calm), (calm / LINGER).max(1.0))
    }

    fn new(calm: Option<f64>, tense: f64) -> Self {
        Self {
            calm,
            tense,
            // Outside of the stage's runtime this is the wall's.
            begun: Instant::now(),
            due: Duration::ZERO,
        }
    }

    /// A frame was played.
    pub(super) fn step(&mut self, frame: Duration, is_tense: bool) {
        if let Some(calm) = self.calm {
            self.due += frame.div_f64(if is_tense { self.tense } else { calm });
        }
    }

    /// The wall's time as it should be.
    pub(super) fn due(&self) -> Duration {
        self.due
    }

    /// How long to wait until it is.
    pub(super) fn wait(&self) -> Duration {
        self.due.saturating_sub(self.begun.elapsed())
    }
}

/// Reads a speed.
pub(super) fn speed(text: &str) -> Result<f64, String> {
    let speed = text.trim_end_matches('x').parse().ok();
    speed
        .filter(|speed| (0.1..=10_000.0).contains(speed))
        .ok_or_else(|| "a number from 0.1 to 10000 is needed, such as 25".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_story_takes_its_time_where_it_matters() {
        let mut pace = Pace::of_a_story(40 * 16 * SECOND);
        pace.step(16 * SECOND, false);
        assert_eq!(pace.due(), SECOND);
        pace.step(2 * SECOND, true);
        assert_eq!(pace.due(), 2 * SECOND);
    }

    #[test]
    fn a_short_story_is_not_told_more_slowly_than_it_happens() {
        let mut pace = Pace::of_a_story(10 * SECOND);
        pace.step(SECOND, true);
        assert_eq!(pace.due(), SECOND);
    }

    #[test]
    fn without_a_limit_nobody_waits() {
        let mut pace = Pace::unbounded();
        pace.step(SECOND, true);
        assert_eq!(pace.wait(), Duration::ZERO);
    }

    #[test]
    fn speeds_are_numbers_within_reason() {
        assert_eq!(speed("25"), Ok(25.0));
        assert_eq!(speed("0.5x"), Ok(0.5));
        for wrong in ["", "fast", "0", "-1", "NaN", "inf", "1e9"] {
            assert!(speed(wrong).is_err(), "{wrong}");
        }
    }
}
