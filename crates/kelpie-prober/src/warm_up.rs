//! The warm-up of a replica: the time until it can judge its clusters.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kelpie_core::Time;
use kelpie_core::prober::Decision;
use kelpie_runtime::watch::Sender;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// A cluster that cannot be judged, such as one whose API server is down, is waited for this long
/// after its initial delay.
const PATIENCE: Duration = Duration::from_secs(30);

/// The clusters that a new replica cannot judge yet. Clones share them.
///
/// A replica that is warm could fence any of its clusters at once. Until then it does not stand for
/// election, so that a rollout never replaces a leader that knows its clusters by one that does
/// not. Once warm, a replica stays warm: clusters that come later do not count.
#[derive(Clone, Debug)]
pub(crate) struct WarmUp {
    state: Arc<Mutex<WarmUpState>>,
    /// True if the replica stands for election.
    standing: Sender<bool>,
    /// Notified when no cluster is waited for any longer.
    judged: Arc<Notify>,
}

#[derive(Debug, Default)]
struct WarmUpState {
    started: usize,
    /// The end of the wait for each cluster that was not judged yet.
    waiting: BTreeMap<Arc<str>, Time>,
    is_over: bool,
}

/// Reports the first judgement of a cluster.
#[derive(Clone, Debug)]
pub(crate) struct WarmUpHandle {
    cluster: Arc<str>,
    is_judged: Arc<AtomicBool>,
    warm_up: WarmUp,
}

impl WarmUp {
    /// Begins the warm-up. `standing` holds the replica back from the election.
    pub(crate) fn new(standing: Sender<bool>) -> Self {
        standing.send(false);
        Self {
            state: Arc::default(),
            standing,
            judged: Arc::default(),
        }
    }

    /// Waits until the last of the clusters is judged, so that the end of the warm-up is noticed at
    /// once.
    pub(crate) async fn judged(&self) {
        self.judged.notified().await;
    }

    /// Adds a cluster whose probe judges from `judging_from` on.
    pub(crate) fn start(&self, cluster: &Arc<str>, judging_from: Time) -> WarmUpHandle {
        let mut state = self.state.lock();
        if !state.is_over {
            state.started += 1;
            let limit = judging_from.after(PATIENCE);
            state.waiting.insert(Arc::clone(cluster), limit);
        }
        WarmUpHandle {
            cluster: Arc::clone(cluster),
            is_judged: Arc::default(),
            warm_up: self.clone(),
        }
    }

    /// Ends the warm-up if it is time. All probes must have been started. Returns what is missing
    /// otherwise.
    pub(crate) fn finish(&self, now: Time) -> Result<(), String> {
        let mut state = self.state.lock();
        if state.is_over {
            return Ok(());
        }
        state.waiting.retain(|_, limit| now < *limit);
        let (waiting, started) = (state.waiting.len(), state.started);
        if waiting > 0 {
            let judged = started - waiting;
            return Err(format!("judging {judged} of {started} clusters"));
        }
        state.is_over = true;
        self.standing.send(true);
        Ok(())
    }
}

impl WarmUpHandle {
    /// Takes in a decision. Returns whether the cluster is judged, after which nothing more has to
    /// be reported.
    pub(crate) fn decided(&self, decision: &Decision) -> bool {
        let is_judged = decision.reasons.rule.properties().is_judgement;
        if is_judged {
            self.is_judged.store(true, Ordering::Relaxed);
            self.end();
        }
        is_judged
    }

    /// Returns whether the cluster was judged.
    pub(crate) fn is_judged(&self) -> bool {
        self.is_judged.load(Ordering::Relaxed)
    }

    /// Ends the wait for the cluster.
    pub(crate) fn end(&self) {
        let mut state = self.warm_up.state.lock();
        let was_waited_for = state.waiting.remove(&self.cluster).is_some();
        if was_waited_for && state.waiting.is_empty() {
            self.warm_up.judged.notify_one();
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
    fn replica_without_clusters_is_warm() {
        let standing = Sender::new(true);
        let warm_up = WarmUp::new(standing.clone());
        assert!(!standing.borrow());
        assert_eq!(warm_up.finish(at(0)), Ok(()));
        assert!(standing.borrow());
    }

    #[test]
    fn last_judgement_is_notified() {
        let warm_up = WarmUp::new(Sender::new(true));
        let [first, last] = ["a", "b"].map(|cluster| warm_up.start(&cluster.into(), at(30)));
        first.end();
        assert_eq!(warm_up.judged().now_or_never(), None);
        last.end();
        assert_eq!(warm_up.judged().now_or_never(), Some(()));
        last.end();
        assert_eq!(warm_up.judged().now_or_never(), None);
    }

    #[test]
    fn every_cluster_is_judged_or_waited_for() {
        let standing = Sender::new(true);
        let warm_up = WarmUp::new(standing.clone());
        let [judged, removed, _down] =
            ["a", "b", "c"].map(|cluster| warm_up.start(&cluster.into(), at(30)));
        let waiting = |text: &str| Err(text.to_owned());
        assert_eq!(warm_up.finish(at(1)), waiting("judging 0 of 3 clusters"));
        judged.end();
        judged.end();
        removed.end();
        assert_eq!(warm_up.finish(at(59)), waiting("judging 2 of 3 clusters"));
        assert!(!standing.borrow());
        assert_eq!(warm_up.finish(at(60)), Ok(()));
        assert!(standing.borrow());
        // A cluster that comes later does not count.
        warm_up.start(&"d".into(), at(100));
        assert_eq!(warm_up.finish(at(61)), Ok(()));
    }
}
