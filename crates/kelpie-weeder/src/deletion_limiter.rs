//! The rate limit on deletions, over all namespaces.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

/// The maximum number of turns in any period.
const MAX_TURNS: usize = 50;
/// Slightly longer than a second: the time between a turn and its request varies, and the requests
/// of any second must stay within the limit.
const PERIOD: Duration = Duration::from_millis(1_005);
/// The shortest time between two turns. It spreads a burst, so that the controllers can keep up.
const SPACING: Duration = Duration::from_millis(10);

/// A rate limiter that hands out turns to delete a pod, first come, first served.
///
/// Every namespace waits for one turn at a time, so none has to wait for all pods of another.
#[derive(Debug, Default)]
pub(crate) struct DeletionLimiter {
    /// The instants of the last turns, the oldest first.
    past: Mutex<VecDeque<Instant>>,
}

impl DeletionLimiter {
    /// Waits for a turn. A caller that stops waiting uses up no turn.
    pub(crate) async fn wait_for_turn(&self) {
        let mut past = self.past.lock().await;
        let spaced = past.back().map(|last| *last + SPACING);
        let spread = past.front().filter(|_| past.len() >= MAX_TURNS);
        let spread = spread.map(|first| *first + PERIOD);
        if let Some(at) = spaced.max(spread) {
            sleep_until(at).await;
        }
        if past.len() >= MAX_TURNS {
            past.pop_front();
        }
        past.push_back(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn at_most_fifty_turns_per_second() {
        let limiter = DeletionLimiter::default();
        let begin = Instant::now();
        let mut turns = Vec::new();
        for _ in 0..500 {
            limiter.wait_for_turn().await;
            turns.push(begin.elapsed());
        }
        for (index, turn) in turns.iter().enumerate() {
            let within = turns[index..].iter();
            let within = within.take_while(|later| **later < *turn + Duration::from_secs(1));
            assert!(within.count() <= MAX_TURNS, "from {turn:?} on");
        }
        assert!(turns[499] < Duration::from_secs(10), "{:?}", turns[499]);
    }

    #[tokio::test(start_paused = true)]
    async fn first_turn_is_immediate() {
        let limiter = DeletionLimiter::default();
        let begin = Instant::now();
        limiter.wait_for_turn().await;
        assert_eq!(begin.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn large_namespace_does_not_block_small_one() {
        let limiter = Arc::new(DeletionLimiter::default());
        let (sender, mut order) = mpsc::unbounded_channel();
        for (name, turns) in [("large", 100), ("small", 1)] {
            let (limiter, sender) = (Arc::clone(&limiter), sender.clone());
            tokio::spawn(async move {
                for _ in 0..turns {
                    limiter.wait_for_turn().await;
                    let _ = sender.send(name);
                }
            });
        }
        drop(sender);
        let mut before = 0;
        while order.recv().await != Some("small") {
            before += 1;
        }
        assert!(before <= 2, "{before} turns of the large one came first");
    }

    #[tokio::test(start_paused = true)]
    async fn cancelled_wait_uses_no_turn() {
        let limiter = DeletionLimiter::default();
        limiter.wait_for_turn().await;
        let begin = Instant::now();
        for _ in 0..1_000 {
            let turn = tokio::time::timeout(Duration::ZERO, limiter.wait_for_turn()).await;
            assert!(turn.is_err());
        }
        limiter.wait_for_turn().await;
        assert!(begin.elapsed() < Duration::from_secs(1));
    }
}
