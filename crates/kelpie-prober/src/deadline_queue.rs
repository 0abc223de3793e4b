//! The queue of fencing calls when many clusters are fenced at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use kelpie_core::Time;
use parking_lot::Mutex;
use tokio::sync::oneshot;

/// A semaphore for fencing calls that hands out permits by deadline, the most urgent first.
///
/// When the seed's API server is the bottleneck, a queue forms somewhere. This one is sorted by
/// deadline; a queue inside the server or in its connections has an arbitrary order. Clones share
/// the queue.
#[derive(Clone, Debug)]
pub(crate) struct DeadlineQueue {
    state: Arc<Mutex<QueueState>>,
}

#[derive(Debug)]
struct QueueState {
    free_permits: usize,
    /// The number of calls that ever had to wait, for first come, first served among equals.
    arrivals: u64,
    /// The waiting calls by priority, then by arrival.
    waiting: BTreeMap<(Priority, u64), oneshot::Sender<Permit>>,
}

/// The priority of a call, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Priority {
    /// A call for the target that has to be scaled down before this deadline.
    Pressing(Time),
    /// Another call of a flow with this deadline.
    Deadline(Time),
    /// A read of the pods' readiness after scaling.
    Patient,
}

/// The right to make one call. Dropping it passes it on to the next call in the queue.
#[derive(Debug)]
pub(crate) struct Permit {
    /// `None` if the right was passed on already.
    state: Option<Arc<Mutex<QueueState>>>,
}

impl DeadlineQueue {
    /// Creates a queue that allows `permits` calls at a time.
    pub(crate) fn new(permits: usize) -> Self {
        let state = QueueState {
            free_permits: permits,
            arrivals: 0,
            waiting: BTreeMap::new(),
        };
        Self {
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Waits for a permit. A caller may stop waiting at any time without delaying the others.
    pub(crate) async fn enter(&self, priority: Priority) -> Permit {
        let turn = {
            let mut state = self.state.lock();
            if state.free_permits > 0 {
                state.free_permits -= 1;
                None
            } else {
                let (sender, turn) = oneshot::channel();
                let arrival = state.arrivals;
                state.arrivals += 1;
                state.waiting.insert((priority, arrival), sender);
                Some(turn)
            }
        };
        let permit = match turn {
            None => None,
            // A sender is dropped only together with the queue.
            Some(turn) => turn.await.ok(),
        };
        permit.unwrap_or_else(|| Permit {
            state: Some(Arc::clone(&self.state)),
        })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        while let Some(state) = self.state.take() {
            let next = {
                let mut state = state.lock();
                let next = state.waiting.pop_first();
                if next.is_none() {
                    state.free_permits += 1;
                }
                next
            };
            let Some((_, next)) = next else { return };
            // A caller that stopped waiting returns the permit; the loop offers it to the next.
            if let Err(mut unused) = next.send(Self { state: Some(state) }) {
                self.state = unused.state.take();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt;
    use tokio::sync::mpsc;

    use super::*;

    fn seconds(seconds: i64) -> Time {
        Time::from_micros(seconds * 1_000_000)
    }

    fn at(instant: i64) -> Priority {
        Priority::Deadline(seconds(instant))
    }

    #[tokio::test]
    async fn most_urgent_call_goes_first() {
        let queue = DeadlineQueue::new(1);
        let first = queue.enter(Priority::Patient).await;
        let (done, mut order) = mpsc::unbounded_channel();
        let without_deadline = Priority::Deadline(Time::MAX);
        for (name, priority) in [
            ("h", Priority::Patient),
            ("d", at(9)),
            ("e", at(9)),
            ("g", without_deadline),
            ("f", at(30)),
            ("c", at(2)),
            ("b", Priority::Pressing(seconds(5))),
            ("a", Priority::Pressing(seconds(4))),
        ] {
            let (queue, done) = (queue.clone(), done.clone());
            let waiting = async move {
                let permit = queue.enter(priority).await;
                let _ = done.send(name);
                drop(permit);
            };
            let task = tokio::spawn(waiting);
            // The task starts to wait before the next one is spawned.
            tokio::task::yield_now().await;
            drop(task);
        }
        assert!(order.recv().now_or_never().is_none(), "one at a time");
        drop((first, done));
        let mut seen = Vec::new();
        while let Some(name) = order.recv().await {
            seen.push(name);
        }
        assert_eq!(seen, ["a", "b", "c", "d", "e", "f", "g", "h"]);
    }

    #[tokio::test(start_paused = true)]
    async fn cancelled_wait_delays_no_call() {
        let queue = DeadlineQueue::new(2);
        let permits = [queue.enter(at(1)).await, queue.enter(at(1)).await];
        for _ in 0..10_000 {
            let gave_up = tokio::time::timeout(Duration::ZERO, queue.enter(at(0))).await;
            assert!(gave_up.is_err());
        }
        let waiting = queue.enter(at(5));
        let mut waiting = std::pin::pin!(waiting);
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(permits);
        assert!(waiting.now_or_never().is_some());
        let again = [queue.enter(at(1)), queue.enter(at(1))];
        for turn in again {
            assert!(turn.now_or_never().is_some(), "both permits are free");
        }
    }
}
