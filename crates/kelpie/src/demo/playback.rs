//! The speed at which virtual time is played back in real time.

use std::time::Duration;

use tokio::time::Instant;

/// The real time for a whole scenario at adaptive speed, without what [`FrameSpeed::Slow`] adds.
const SCENARIO_TIME: Duration = Duration::from_secs(55);

/// The factor by which slow frames are slower than normal ones.
const SLOWDOWN: f64 = 8.0;

/// The speed of a frame at adaptive speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameSpeed {
    /// A fence or a restore is about to happen.
    Slow,
    /// Nothing that needs attention.
    Normal,
    /// Everything is back to normal and nothing more will happen.
    Skip,
}

/// Tracks how much real time should have elapsed. The simulation runs frame by frame and waits for
/// real time between frames, so that it does the same at any speed.
pub(super) struct Playback {
    speed: PlaybackSpeed,
    started: Instant,
    /// The real time that should have elapsed since `started`.
    due: Duration,
}

/// The speed as a factor of real time.
enum PlaybackSpeed {
    Unlimited,
    Constant(f64),
    /// The factor for [`FrameSpeed::Normal`].
    Adaptive(f64),
}

impl Playback {
    /// Plays as fast as possible.
    pub(super) fn unlimited() -> Self {
        Self::new(PlaybackSpeed::Unlimited)
    }

    /// Plays at a factor of real time.
    pub(super) fn constant(speed: f64) -> Self {
        Self::new(PlaybackSpeed::Constant(speed))
    }

    /// Plays a scenario of this length at the speed that each frame asks for.
    pub(super) fn adaptive(length: Duration) -> Self {
        let speed = length.as_secs_f64() / SCENARIO_TIME.as_secs_f64();
        Self::new(PlaybackSpeed::Adaptive(speed))
    }

    fn new(speed: PlaybackSpeed) -> Self {
        Self {
            speed,
            // Outside of the simulation's runtime, this is real time.
            started: Instant::now(),
            due: Duration::ZERO,
        }
    }

    /// Accounts for a frame of virtual time. Only adaptive playback uses `frame_speed`.
    pub(super) fn advance(&mut self, frame: Duration, frame_speed: FrameSpeed) {
        let speed = match (&self.speed, frame_speed) {
            (PlaybackSpeed::Unlimited, _) | (PlaybackSpeed::Adaptive(_), FrameSpeed::Skip) => {
                return;
            }
            (PlaybackSpeed::Constant(speed), _) => *speed,
            (PlaybackSpeed::Adaptive(normal), FrameSpeed::Normal) => normal.max(1.0),
            (PlaybackSpeed::Adaptive(normal), FrameSpeed::Slow) => (normal / SLOWDOWN).max(1.0),
        };
        self.due += frame.div_f64(speed);
    }

    /// Returns the real time that should have elapsed since the start.
    pub(super) fn due(&self) -> Duration {
        self.due
    }

    /// Returns the time to wait until as much real time has elapsed.
    pub(super) fn until_due(&self) -> Duration {
        self.due.saturating_sub(self.started.elapsed())
    }
}

/// Parses a speed-up factor, such as `25` or `0.5x`.
pub(super) fn parse_speed(text: &str) -> Result<f64, String> {
    let speed = text.trim_end_matches('x').parse().ok();
    speed
        .filter(|speed| (0.1..=10_000.0).contains(speed))
        .ok_or_else(|| "expected a number from 0.1 to 10000, such as 25".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn adaptive_speed_follows_the_frames() {
        let mut playback = Playback::adaptive(16 * SCENARIO_TIME);
        playback.advance(16 * SECOND, FrameSpeed::Normal);
        assert_eq!(playback.due(), SECOND);
        playback.advance(2 * SECOND, FrameSpeed::Slow);
        assert_eq!(playback.due(), 2 * SECOND);
        playback.advance(SECOND, FrameSpeed::Skip);
        assert_eq!(playback.due(), 2 * SECOND);
    }

    #[test]
    fn short_scenario_is_not_slower_than_real_time() {
        let mut playback = Playback::adaptive(10 * SECOND);
        playback.advance(SECOND, FrameSpeed::Slow);
        assert_eq!(playback.due(), SECOND);
    }

    #[test]
    fn other_speeds_ignore_the_frames() {
        let frame_speeds = [FrameSpeed::Slow, FrameSpeed::Normal, FrameSpeed::Skip];
        let (mut constant, mut unlimited) = (Playback::constant(3.0), Playback::unlimited());
        for frame_speed in frame_speeds {
            constant.advance(SECOND, frame_speed);
            unlimited.advance(SECOND, frame_speed);
        }
        assert!(constant.due().abs_diff(SECOND) < Duration::from_micros(1));
        assert_eq!(unlimited.until_due(), Duration::ZERO);
    }

    #[test]
    fn unreasonable_speeds_are_rejected() {
        assert_eq!(parse_speed("25"), Ok(25.0));
        assert_eq!(parse_speed("0.5x"), Ok(0.5));
        for wrong in ["", "fast", "0", "-1", "NaN", "inf", "1e9"] {
            assert!(parse_speed(wrong).is_err(), "{wrong}");
        }
    }
}
