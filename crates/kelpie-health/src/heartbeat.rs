//! A liveness check for a loop that must keep turning.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::{CheckResult, FailureReason, HealthCheck};

/// A check that passes while a loop beats often enough.
///
/// Clones share the same heartbeat: the loop beats one clone, and livez checks another.
#[derive(Clone, Debug)]
pub struct LoopHeartbeat {
    limit: Duration,
    /// Counts as the first beat.
    created: Instant,
    /// The last beat, in milliseconds after `created`.
    last_beat: Arc<AtomicU64>,
}

impl LoopHeartbeat {
    /// Creates a heartbeat that fails once no beat came for longer than `limit`.
    ///
    /// Choose the longest iteration that the loop ever takes, plus a margin: a process that fails
    /// livez is restarted.
    pub fn new(limit: Duration) -> Self {
        Self {
            limit,
            created: Instant::now(),
            last_beat: Arc::default(),
        }
    }

    /// Records that the loop has turned.
    pub fn beat(&self) {
        let now = u64::try_from(self.created.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_beat.fetch_max(now, Ordering::Relaxed);
    }

    fn age(&self) -> Duration {
        let last = Duration::from_millis(self.last_beat.load(Ordering::Relaxed));
        self.created.elapsed().saturating_sub(last)
    }
}

impl HealthCheck for LoopHeartbeat {
    async fn run(&self) -> CheckResult {
        judge(self.age(), self.limit)
    }
}

fn judge(age: Duration, limit: Duration) -> CheckResult {
    if age <= limit {
        return Ok(());
    }
    let age = age.as_secs_f64();
    Err(FailureReason::of(format_args!(
        "last beat {age:.1}s ago, limit {limit:?}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    #[tokio::test(start_paused = true)]
    async fn stopped_loop_is_dead() {
        let heartbeat = LoopHeartbeat::new(Duration::from_secs(10));
        let in_loop = heartbeat.clone();
        advance(Duration::from_secs(10)).await;
        assert_eq!(heartbeat.run().await, Ok(()), "creation counts as a beat");
        in_loop.beat();
        advance(Duration::from_secs(10)).await;
        assert_eq!(heartbeat.run().await, Ok(()), "at the limit");
        advance(Duration::from_millis(2_345)).await;
        let dead = FailureReason::from("last beat 12.3s ago, limit 10s");
        assert_eq!(heartbeat.run().await, Err(dead));
        in_loop.beat();
        assert_eq!(heartbeat.run().await, Ok(()), "it turns again");
    }
}
