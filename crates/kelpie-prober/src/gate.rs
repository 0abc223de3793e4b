//! Who goes first when many clusters are fenced at once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kelpie_core::Time;
use tokio::sync::oneshot;

/// Lets a number of fencing calls through at a time, the most urgent first.
///
/// When the seed's API server is the limit, a queue forms somewhere. Here it is sorted by deadline;
/// inside the server, or in its connections, it would be sorted by luck.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    free: usize,
    arrivals: u64,
    /// By urgency, then by arrival.
    waiting: BTreeMap<(Urgency, u64), oneshot::Sender<Pass>>,
}

/// What a call waits for its turn with, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Urgency {
    /// A call for the very target that this deadline is about.
    Pressing(Time),
    /// A call of a flow that works against this deadline.
    Deadline(Time),
    /// It only looks whether pods have followed.
    Patient,
}

/// The right to make one call. Dropping it lets the next one in.
#[derive(Debug)]
pub(crate) struct Pass {
    /// `None`: it was refused, and its right was handed on already.
    state: Option<Arc<Mutex<State>>>,
}

impl Gate {
    /// A gate that lets `width` calls through at a time.
    pub(crate) fn new(width: usize) -> Self {
        let state = State {
            free: width,
            arrivals: 0,
            waiting: BTreeMap::new(),
        };
        Self {
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Waits for its turn; the most urgent goes first.
    pub(crate) async fn enter(&self, urgency: Urgency) -> Pass {
        let turn = {
            let mut state = lock(&self.state);
            if state.free > 0 {
                state.free -= 1;
                None
            } else {
                let (sender, turn) = oneshot::channel();
                let arrival = state.arrivals;
                state.arrivals += 1;
                state.waiting.insert((urgency, arrival), sender);
                Some(turn)
            }
        };
        let pass = match turn {
            None => None,
            // A sender is dropped only with the gate itself.
            Some(turn) => turn.await.ok(),
        };
        pass.unwrap_or_else(|| Pass {
            state: Some(Arc::clone(&self.state)),
        })
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        while let Some(state) = self.state.take() {
            let next = {
                let mut state = lock(&state);
                let next = state.waiting.pop_first();
                if next.is_none() {
                    state.free += 1;
                }
                next
            };
            let Some((_, next)) = next else { return };
            // Who no longer waits gives it back; the loop then offers it to the next.
            if let Err(mut unused) = next.send(Self { state: Some(state) }) {
                self.state = unused.state.take();
            }
        }
    }
}

/// Every change of the state is complete before the lock is given back.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
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

    fn at(instant: i64) -> Urgency {
        Urgency::Deadline(seconds(instant))
    }

    #[tokio::test]
    async fn what_presses_goes_first_by_deadline_and_readiness_last() {
        let gate = Gate::new(1);
        let first = gate.enter(Urgency::Patient).await;
        let (done, mut order) = mpsc::unbounded_channel();
        let without_deadline = Urgency::Deadline(Time::MAX);
        for (name, urgency) in [
            ("h", Urgency::Patient),
            ("d", at(9)),
            ("e", at(9)),
            ("g", without_deadline),
            ("f", at(30)),
            ("c", at(2)),
            ("b", Urgency::Pressing(seconds(5))),
            ("a", Urgency::Pressing(seconds(4))),
        ] {
            let (gate, done) = (gate.clone(), done.clone());
            let waiting = async move {
                let pass = gate.enter(urgency).await;
                let _ = done.send(name);
                drop(pass);
            };
            let task = tokio::spawn(waiting);
            // Let it arrive before the next one does.
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
    async fn who_gives_up_waiting_holds_nobody_up() {
        let gate = Gate::new(2);
        let passes = [gate.enter(at(1)).await, gate.enter(at(1)).await];
        for _ in 0..10_000 {
            let gave_up = tokio::time::timeout(Duration::ZERO, gate.enter(at(0))).await;
            assert!(gave_up.is_err());
        }
        let waiting = gate.enter(at(5));
        let mut waiting = std::pin::pin!(waiting);
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(passes);
        assert!(waiting.now_or_never().is_some());
        let again = [gate.enter(at(1)), gate.enter(at(1))];
        for turn in again {
            assert!(turn.now_or_never().is_some(), "both places are free");
        }
    }
}
