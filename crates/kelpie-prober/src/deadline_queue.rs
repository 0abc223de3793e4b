//! The queue of fencing calls when many clusters are fenced at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kelpie_core::Time;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// The number of calls under way that the queue never goes below, and never above. More would only
/// queue inside the API server, in an order of its own.
const LEAST_CALLS: f64 = 4.0;
const MOST_CALLS: f64 = 64.0;
/// Signs of overload within this time are one sign: the calls were sent together.
const ONE_SIGN: Duration = Duration::from_millis(500);

/// A semaphore for fencing calls that hands out permits by deadline, the most urgent first.
///
/// When the seed's API server is the bottleneck, a queue forms somewhere. This one is sorted by
/// deadline; a queue inside the server or in its connections has an arbitrary order. The number of
/// permits adapts to the API server: it grows by one with each full set of successful calls, and is
/// halved by an overload. Clones share the queue.
#[derive(Clone, Debug)]
pub(crate) struct DeadlineQueue {
    state: Arc<Mutex<QueueState>>,
}

#[derive(Debug)]
struct QueueState {
    /// The number of calls that may be under way.
    limit: f64,
    least: f64,
    in_use: u32,
    overloaded_at: Option<Instant>,
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
    queue: DeadlineQueue,
    /// False if the right was passed on already.
    is_held: bool,
}

impl DeadlineQueue {
    /// Creates a queue that allows `permits` calls at a time, until it learns better.
    pub(crate) fn new(permits: u32) -> Self {
        let limit = f64::from(permits).min(MOST_CALLS);
        let state = QueueState {
            limit,
            least: LEAST_CALLS.min(limit),
            in_use: 0,
            overloaded_at: None,
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
            if state.has_room() {
                state.in_use += 1;
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
        permit.unwrap_or_else(|| self.permit())
    }

    fn permit(&self) -> Permit {
        Permit {
            queue: self.clone(),
            is_held: true,
        }
    }

    /// Returns the number of calls that may be under way.
    pub(crate) fn limit(&self) -> f64 {
        self.state.lock().limit
    }

    /// Notes a call that the API server has answered.
    pub(crate) fn succeeded(&self) {
        let mut state = self.state.lock();
        state.limit = (state.limit + state.limit.recip()).min(MOST_CALLS.max(state.least));
    }

    /// Notes a call that the API server has throttled or not answered.
    pub(crate) fn overloaded(&self) {
        let mut state = self.state.lock();
        let now = Instant::now();
        if state.overloaded_at.is_none_or(|at| now >= at + ONE_SIGN) {
            state.overloaded_at = Some(now);
            state.limit = (state.limit / 2.0).max(state.least);
        }
    }

    /// Hands free permits to the most urgent callers.
    fn serve(&self) {
        loop {
            let next = {
                let mut state = self.state.lock();
                let has_room = state.has_room();
                let next = has_room.then(|| state.waiting.pop_first()).flatten();
                state.in_use += u32::from(next.is_some());
                next
            };
            let Some((_, next)) = next else { return };
            // A caller that stopped waiting returns the permit; the loop offers it to the next.
            if let Err(mut unused) = next.send(self.permit()) {
                unused.is_held = false;
                self.state.lock().in_use -= 1;
            }
        }
    }
}

impl QueueState {
    fn has_room(&self) -> bool {
        f64::from(self.in_use) + 1.0 <= self.limit
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.is_held {
            self.queue.state.lock().in_use -= 1;
            self.queue.serve();
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

    #[tokio::test(start_paused = true)]
    async fn overload_halves_the_permits_once() {
        let queue = DeadlineQueue::new(64);
        for _ in 0..20 {
            queue.overloaded();
        }
        assert!((queue.limit() - 32.0).abs() < 1e-9, "{}", queue.limit());
        for _ in 0..10 {
            tokio::time::advance(ONE_SIGN).await;
            queue.overloaded();
        }
        assert!((queue.limit() - LEAST_CALLS).abs() < 1e-9);
        let permits: Vec<_> = (0..4).map(|_| queue.enter(at(1)).now_or_never()).collect();
        assert!(permits.iter().all(Option::is_some));
        assert!(queue.enter(at(1)).now_or_never().is_none());
        for _ in 0..10_000 {
            queue.succeeded();
        }
        assert!((queue.limit() - MOST_CALLS).abs() < 1e-9);
    }
}
