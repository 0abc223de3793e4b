//! How fast a stage's time goes by on the wall.

use std::time::Duration;

use tokio::time::Instant;

/// A story would be told in so long, but for what is tense and what comes after its end.
const STORY: Duration = Duration::from_secs(55);

/// Tense moments take so many times as long.
const LINGER: f64 = 8.0;

/// What a frame is like for who looks at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mood {
    /// Something is about to be decided.
    Tense,
    /// Nothing much happens.
    Calm,
    /// Everything is as before, and nothing is to come.
    Over,
}

/// Where the wall's time should be. Stages are played frame by frame and wait for the wall in between,
/// so that what happens on them is the same at any speed.
pub(super) struct Pace {
    speed: Speed,
    begun: Instant,
    /// The wall's time that should have gone by.
    due: Duration,
}

/// How many times as fast as real time.
enum Speed {
    Unbounded,
    Steady(f64),
    /// So fast where nothing happens.
    Story(f64),
}

impl Pace {
    /// As fast as possible.
    pub(super) fn unbounded() -> Self {
        Self::new(Speed::Unbounded)
    }

    /// So many times as fast as real time.
    pub(super) fn steady(speed: f64) -> Self {
        Self::new(Speed::Steady(speed))
    }

    /// For a story of this length: quick where nothing happens, slow where it matters.
    pub(super) fn of_a_story(length: Duration) -> Self {
        Self::new(Speed::Story(length.as_secs_f64() / STORY.as_secs_f64()))
    }

    fn new(speed: Speed) -> Self {
        Self {
            speed,
            // Outside of the stage's runtime this is the wall's.
            begun: Instant::now(),
            due: Duration::ZERO,
        }
    }

    /// A frame was played.
    pub(super) fn step(&mut self, frame: Duration, mood: Mood) {
        let speed = match (&self.speed, mood) {
            (Speed::Unbounded, _) | (Speed::Story(_), Mood::Over) => return,
            (Speed::Steady(speed), _) => *speed,
            (Speed::Story(calm), Mood::Calm) => calm.max(1.0),
            (Speed::Story(calm), Mood::Tense) => (calm / LINGER).max(1.0),
        };
        self.due += frame.div_f64(speed);
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
    fn a_story_takes_its_time_where_it_matters_and_none_after_its_end() {
        let mut pace = Pace::of_a_story(16 * STORY);
        pace.step(16 * SECOND, Mood::Calm);
        assert_eq!(pace.due(), SECOND);
        pace.step(2 * SECOND, Mood::Tense);
        assert_eq!(pace.due(), 2 * SECOND);
        pace.step(SECOND, Mood::Over);
        assert_eq!(pace.due(), 2 * SECOND);
    }

    #[test]
    fn a_short_story_is_not_told_more_slowly_than_it_happens() {
        let mut pace = Pace::of_a_story(10 * SECOND);
        pace.step(SECOND, Mood::Tense);
        assert_eq!(pace.due(), SECOND);
    }

    #[test]
    fn a_speed_that_was_asked_for_is_kept_and_without_one_nobody_waits() {
        let moods = [Mood::Tense, Mood::Calm, Mood::Over];
        let (mut steady, mut unbounded) = (Pace::steady(3.0), Pace::unbounded());
        for mood in moods {
            steady.step(SECOND, mood);
            unbounded.step(SECOND, mood);
        }
        assert!(steady.due().abs_diff(SECOND) < Duration::from_micros(1));
        assert_eq!(unbounded.wait(), Duration::ZERO);
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
