//! A watchdog for a loop: it must turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::{Check, Reason, Verdict};

/// A check that passes while somebody beats often enough. Clones are the same pulse: the loop beats
/// one, livez checks another.
#[derive(Clone, Debug)]
pub struct Pulse {
    limit: Duration,
    /// Counts as the first beat.
    born: Instant,
    /// Milliseconds after `born`.
    last: Arc<AtomicU64>,
}

impl Pulse {
    /// The longest pause that is still alive: the longest turn the loop ever takes, with a margin,
    /// since whoever fails livez is restarted.
    pub fn new(limit: Duration) -> Self {
        Self {
            limit,
            born: Instant::now(),
            last: Arc::default(),
        }
    }

    /// The loop turned.
    pub fn beat(&self) {
        let now = u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.fetch_max(now, Ordering::Relaxed);
    }

    fn age(&self) -> Duration {
        let last = Duration::from_millis(self.last.load(Ordering::Relaxed));
        self.born.elapsed().saturating_sub(last)
    }
}

impl Check for Pulse {
    async fn run(&self) -> Verdict {
        verdict(self.age(), self.limit)
    }
}

fn verdict(age: Duration, limit: Duration) -> Verdict {
    if age <= limit {
        return Ok(());
    }
    let age = age.as_secs_f64();
    Err(Reason::of(format_args!(
        "last beat {age:.1}s ago, limit {limit:?}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_stops_turning_is_dead() {
        let pulse = Pulse::new(Duration::from_secs(10));
        let turning = pulse.clone();
        advance(Duration::from_secs(10)).await;
        assert_eq!(pulse.run().await, Ok(()), "being born is a beat");
        turning.beat();
        advance(Duration::from_secs(10)).await;
        assert_eq!(pulse.run().await, Ok(()), "at the limit");
        advance(Duration::from_millis(2_345)).await;
        let dead = Reason::from("last beat 12.3s ago, limit 10s");
        assert_eq!(pulse.run().await, Err(dead));
        turning.beat();
        assert_eq!(pulse.run().await, Ok(()), "it turns again");
    }
}
