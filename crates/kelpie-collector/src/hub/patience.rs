//! How long and how often the hub is asked again.

use std::time::Duration;

/// Before the first repetition; doubled with each.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// No request of ours takes longer.
const LONGEST_REQUEST: Duration = Duration::from_secs(10);

/// How long one request may take.
pub(crate) fn request_timeout(interval: Duration) -> Duration {
    LONGEST_REQUEST.min(interval / 3)
}

/// What a tick has for repetitions: half an interval, from the first failure on, for all its
/// requests together. Times are since the tick began.
#[derive(Debug)]
pub(crate) struct Patience {
    budget: Duration,
    over: Option<Duration>,
}

impl Patience {
    pub(crate) fn new(interval: Duration) -> Self {
        Self {
            budget: interval / 2,
            over: None,
        }
    }

    /// How long to wait before a request that has been repeated `times` times is made again; `None`:
    /// it is given up. `after`: what the hub asks for; `roll` between 0 and 1 decides the jitter.
    pub(crate) fn pause(
        &mut self,
        now: Duration,
        times: u32,
        after: Option<Duration>,
        roll: f64,
    ) -> Option<Duration> {
        let over = *self.over.get_or_insert(now + self.budget);
        let own = FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(times));
        // Short intervals have short pauses: there must be time for some.
        let own = own.min(LONGEST_PAUSE).min(self.budget / 4);
        let own = own.mul_f64(0.75 + 0.5 * roll.clamp(0.0, 1.0));
        let pause = own.max(after.unwrap_or_default());
        (now.saturating_add(pause) < over).then_some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_request_takes_ten_seconds_at_most_or_a_third_of_a_short_interval() {
        assert_eq!(request_timeout(300 * SECOND), 10 * SECOND);
        assert_eq!(request_timeout(15 * SECOND), 5 * SECOND);
    }

    #[test]
    fn pauses_grow_and_end_half_an_interval_after_the_first_failure() {
        let mut patience = Patience::new(60 * SECOND);
        let mut now = 7 * SECOND;
        let mut pauses = Vec::new();
        while let Some(pause) = patience.pause(now, u32::try_from(pauses.len()).unwrap(), None, 0.5)
        {
            pauses.push(pause.as_secs_f64());
            now += pause;
        }
        assert_eq!(pauses, [0.5, 1.0, 2.0, 4.0, 7.5, 7.5]);
        assert!(now < 37 * SECOND);
    }

    #[test]
    fn the_half_interval_is_for_all_requests_of_the_tick_together() {
        let mut patience = Patience::new(60 * SECOND);
        assert!(patience.pause(SECOND, 0, None, 0.5).is_some());
        assert!(patience.pause(30 * SECOND, 0, None, 0.5).is_some());
        assert_eq!(patience.pause(31 * SECOND, 0, None, 0.5), None);
    }

    #[test]
    fn what_the_hub_asks_for_is_waited_for_if_there_is_time() {
        let mut patience = Patience::new(60 * SECOND);
        let after = Some(20 * SECOND);
        assert_eq!(patience.pause(SECOND, 0, after, 0.5), after);
        assert_eq!(patience.pause(SECOND, 0, Some(30 * SECOND), 0.5), None);
        let short = Some(SECOND / 10);
        assert_eq!(patience.pause(SECOND, 0, short, 0.5), Some(SECOND / 2));
    }

    #[test]
    fn a_short_interval_has_time_for_some_repetitions() {
        let mut patience = Patience::new(2 * SECOND);
        let (mut now, mut times) = (Duration::ZERO, 0);
        while let Some(pause) = patience.pause(now, times, None, 1.0) {
            (now, times) = (now + pause, times + 1);
        }
        assert!(times >= 3, "{times}");
    }
}
