//! How fast pods are deleted, over all namespaces.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

/// At most so many turns in any period.
const MOST: usize = 50;
/// A little longer than a second: what happens between a turn and its call may take longer for one
/// than for the next.
const PERIOD: Duration = Duration::from_millis(1_005);
/// Between two turns: a burst is spread, so that the controllers can follow.
const SPACING: Duration = Duration::from_millis(10);

/// Gives out turns to delete a pod. Who asks first is served first; every namespace asks for one turn
/// at a time, so that none waits for all of another's pods.
#[derive(Debug, Default)]
pub(crate) struct Pacer {
    /// When the last turns were given out, the oldest first.
    past: Mutex<VecDeque<Instant>>,
}

impl Pacer {
    /// Waits for a turn. Who stops waiting loses nobody's time.
    pub(crate) async fn turn(&self) {
        let mut past = self.past.lock().await;
        let spaced = past.back().map(|last| *last + SPACING);
        let spread = past.front().filter(|_| past.len() >= MOST);
        let spread = spread.map(|first| *first + PERIOD);
        if let Some(at) = spaced.max(spread) {
            sleep_until(at).await;
        }
        if past.len() >= MOST {
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
    async fn no_second_has_more_than_fifty_turns_and_five_hundred_take_ten_seconds() {
        let pacer = Pacer::default();
        let begin = Instant::now();
        let mut turns = Vec::new();
        for _ in 0..500 {
            pacer.turn().await;
            turns.push(begin.elapsed());
        }
        for (index, turn) in turns.iter().enumerate() {
            let within = turns[index..].iter();
            let within = within.take_while(|later| **later < *turn + Duration::from_secs(1));
            assert!(within.count() <= MOST, "from {turn:?} on");
        }
        assert!(turns[499] < Duration::from_secs(10), "{:?}", turns[499]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_single_deletion_does_not_wait() {
        let pacer = Pacer::default();
        let begin = Instant::now();
        pacer.turn().await;
        assert_eq!(begin.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_with_many_pods_does_not_keep_the_others_waiting() {
        let pacer = Arc::new(Pacer::default());
        let (sender, mut order) = mpsc::unbounded_channel();
        for (name, turns) in [("large", 100), ("small", 1)] {
            let (pacer, sender) = (Arc::clone(&pacer), sender.clone());
            tokio::spawn(async move {
                for _ in 0..turns {
                    pacer.turn().await;
                    let _ = sender.send(name);
                }
            });
        }
        drop(sender);
        let mut before = 0;
        while order.recv().await != Some("small") {
            before += 1;
        }
        assert!(before <= 2, "{before} turns of the other came first");
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_waiting_holds_nobody_up() {
        let pacer = Pacer::default();
        pacer.turn().await;
        let begin = Instant::now();
        for _ in 0..1_000 {
            let turn = tokio::time::timeout(Duration::ZERO, pacer.turn()).await;
            assert!(turn.is_err());
        }
        pacer.turn().await;
        assert!(begin.elapsed() < Duration::from_secs(1));
    }
}
