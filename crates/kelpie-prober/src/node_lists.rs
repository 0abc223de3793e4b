//! The limit on lists of nodes that are read at once.
//!
//! A list of nodes is the largest answer that a tenant can make the prober decode, and its API
//! server decides how long that takes. No decision but the first of a cluster waits for one.

use std::sync::Arc;
use std::time::Duration;

use kelpie_core::Time;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The lists that clusters may read at once.
const LISTS: usize = 16;
/// The lists that slow clusters may read at once, beside the others.
const SLOW_LISTS: usize = 2;
/// A list that takes longer is slow. One of 5,000 nodes takes a second.
const SLOW: Duration = Duration::from_secs(5);
/// A cluster with a slow list shares the lane of slow clusters for this long.
const SLOW_FOR: Duration = Duration::from_mins(10);

/// Turns for reading lists of nodes, shared by all clusters. Slow clusters, which hold a turn for
/// long, wait for each other and delay no others.
#[derive(Clone, Debug)]
pub(crate) struct NodeListLimit {
    prompt: Arc<Semaphore>,
    slow: Arc<Semaphore>,
}

/// The lane of one cluster, by its own lists.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NodeListLane {
    slow_until: Option<Time>,
}

impl Default for NodeListLimit {
    fn default() -> Self {
        Self {
            prompt: Arc::new(Semaphore::new(LISTS)),
            slow: Arc::new(Semaphore::new(SLOW_LISTS)),
        }
    }
}

impl NodeListLimit {
    /// Waits for a turn in this lane, which lasts until the permit is dropped.
    pub(crate) fn turn(
        &self,
        lane: NodeListLane,
        now: Time,
    ) -> impl Future<Output = Option<OwnedSemaphorePermit>> + use<> {
        let is_slow = lane.slow_until.is_some_and(|until| now < until);
        let semaphore = if is_slow { &self.slow } else { &self.prompt };
        let semaphore = Arc::clone(semaphore);
        // A semaphore that is never closed has no error.
        async move { semaphore.acquire_owned().await.ok() }
    }
}

impl NodeListLane {
    /// Records that a list ended `now`, after it took this long.
    pub(crate) fn ended(&mut self, now: Time, took: Duration) {
        if took > SLOW {
            self.slow_until = Some(now.after(SLOW_FOR));
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn at(seconds: i64) -> Time {
        Time::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn few_lists_are_read_at_once() {
        let limit = NodeListLimit::default();
        let lane = NodeListLane::default();
        let turn = || limit.turn(lane, at(0)).now_or_never().flatten();
        let turns: Vec<_> = (0..=LISTS).map(|_| turn()).collect();
        assert!(turns[..LISTS].iter().all(Option::is_some));
        assert!(turns[LISTS].is_none());
        drop(turns);
        assert!(turn().is_some());
    }

    #[test]
    fn slow_clusters_delay_only_each_other() {
        let limit = NodeListLimit::default();
        let (mut slow, prompt) = (NodeListLane::default(), NodeListLane::default());
        slow.ended(at(30), Duration::from_secs(30));
        let turns: Vec<_> = (0..100)
            .map(|_| limit.turn(slow, at(31)).now_or_never().flatten())
            .collect();
        assert_eq!(turns.iter().flatten().count(), SLOW_LISTS);
        assert!(
            limit
                .turn(prompt, at(31))
                .now_or_never()
                .flatten()
                .is_some()
        );
        // A prompt list does not help, time does.
        slow.ended(at(32), Duration::from_secs(1));
        assert!(limit.turn(slow, at(629)).now_or_never().flatten().is_none());
        assert!(limit.turn(slow, at(631)).now_or_never().flatten().is_some());
    }
}
