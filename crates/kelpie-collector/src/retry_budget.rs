//! Limits the retries of a tick.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The backoff before the first retry. It doubles with each further one.
const FIRST_BACKOFF: Duration = Duration::from_millis(500);
const MAX_BACKOFF: Duration = Duration::from_secs(15);

/// A [`RetryBudget`] that the tasks of a tick share.
#[derive(Debug)]
pub(crate) struct SharedRetryBudget {
    pub(crate) started: Instant,
    budget: Mutex<RetryBudget>,
}

impl SharedRetryBudget {
    /// Starts the budget of a tick.
    pub(crate) fn start(interval: Duration) -> Self {
        Self {
            started: Instant::now(),
            budget: Mutex::new(RetryBudget::new(interval)),
        }
    }

    /// Returns true if a request may wait until this instant.
    pub(crate) fn allows_wait(&self, until: Instant) -> bool {
        let wait = until.saturating_duration_since(Instant::now());
        self.budget.lock().allows(self.started.elapsed(), wait)
    }

    /// Returns the wait before the next retry, as [`RetryBudget::backoff`] does.
    pub(crate) fn backoff(&self, retries: u32, retry_after: Option<Duration>) -> Option<Duration> {
        let now = self.started.elapsed();
        let random = fastrand::f64();
        self.budget
            .lock()
            .backoff(now, retries, retry_after, random)
    }
}

/// The time that a tick may spend on retries: half an interval from the first failure on, for all
/// of its requests together. Times are relative to the start of the tick.
#[derive(Debug)]
struct RetryBudget {
    budget: Duration,
    /// The end of the budget. `None` before the first failure.
    deadline: Option<Duration>,
}

impl RetryBudget {
    fn new(interval: Duration) -> Self {
        Self {
            budget: interval / 2,
            deadline: None,
        }
    }

    /// Returns true if a request may wait this long before it is sent.
    fn allows(&mut self, now: Duration, wait: Duration) -> bool {
        let deadline = *self.deadline.get_or_insert(now + self.budget);
        now.saturating_add(wait) < deadline
    }

    /// Returns the wait before the next retry of a request that was retried `retries` times, or
    /// `None` to give up. `retry_after` is the wait that the hub requested, and `random` between 0
    /// and 1 decides the jitter.
    fn backoff(
        &mut self,
        now: Duration,
        retries: u32,
        retry_after: Option<Duration>,
        random: f64,
    ) -> Option<Duration> {
        let backoff = FIRST_BACKOFF.saturating_mul(2_u32.saturating_pow(retries));
        // A short interval has short backoffs, so that it has time for several.
        let backoff = backoff.min(MAX_BACKOFF).min(self.budget / 4);
        let backoff = backoff.mul_f64(0.75 + 0.5 * random.clamp(0.0, 1.0));
        let wait = backoff.max(retry_after.unwrap_or_default());
        self.allows(now, wait).then_some(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn backoff_grows_until_budget_is_spent() {
        let mut budget = RetryBudget::new(60 * SECOND);
        let mut now = 7 * SECOND;
        let mut backoffs = Vec::new();
        while let Some(backoff) =
            budget.backoff(now, u32::try_from(backoffs.len()).unwrap(), None, 0.5)
        {
            backoffs.push(backoff.as_secs_f64());
            now += backoff;
        }
        assert_eq!(backoffs, [0.5, 1.0, 2.0, 4.0, 7.5, 7.5]);
        assert!(now < 37 * SECOND);
    }

    #[test]
    fn requests_of_a_tick_share_budget() {
        let mut budget = RetryBudget::new(60 * SECOND);
        assert!(budget.backoff(SECOND, 0, None, 0.5).is_some());
        assert!(budget.backoff(30 * SECOND, 0, None, 0.5).is_some());
        assert_eq!(budget.backoff(31 * SECOND, 0, None, 0.5), None);
    }

    #[test]
    fn retry_after_is_honoured_within_budget() {
        let mut budget = RetryBudget::new(60 * SECOND);
        let requested = Some(20 * SECOND);
        assert_eq!(budget.backoff(SECOND, 0, requested, 0.5), requested);
        assert_eq!(budget.backoff(SECOND, 0, Some(30 * SECOND), 0.5), None);
        let short = Some(SECOND / 10);
        assert_eq!(budget.backoff(SECOND, 0, short, 0.5), Some(SECOND / 2));
    }

    #[test]
    fn short_interval_allows_several_retries() {
        let mut budget = RetryBudget::new(2 * SECOND);
        let (mut now, mut retries) = (Duration::ZERO, 0);
        while let Some(backoff) = budget.backoff(now, retries, None, 1.0) {
            (now, retries) = (now + backoff, retries + 1);
        }
        assert!(retries >= 3, "{retries}");
    }
}
