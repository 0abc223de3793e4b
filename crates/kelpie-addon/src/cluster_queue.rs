//! The clusters of a hub, each with the time of its next synchronization.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kelpie_core::addon::AddonStatus;
use tokio::time::Instant;

use crate::backoff::Backoff;

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// The longest pause of all clusters. It is short, because a few clusters that fail for reasons of
/// their own may cause it.
const LONGEST_HUB_PAUSE: Duration = Duration::from_secs(5);
/// The number of clusters that are synchronized concurrently, so that a slow one delays no other.
const MAX_CONCURRENT: usize = 8;

/// The clusters by namespace. A failing cluster backs off on its own; all of them pause only when
/// the hub fails as a whole.
pub(crate) struct ClusterQueue {
    clusters: BTreeMap<Arc<str>, QueuedCluster>,
    /// The clusters that are not being synchronized, by the time of their next turn.
    turns: BTreeSet<(Instant, Arc<str>)>,
    /// Every cluster is synchronized at least this often.
    resync: Duration,
    /// The clusters that got no answer since the last success. A second one makes it the hub's
    /// failure.
    unanswered: BTreeSet<Arc<str>>,
    hub_backoff: Backoff,
    paused_until: Option<Instant>,
    failing: BTreeSet<Arc<str>>,
}

struct QueuedCluster {
    status: Arc<AddonStatus>,
    /// `None` while it is being synchronized.
    turn: Option<Instant>,
    /// The status has changed since the synchronization began.
    is_outdated: bool,
    backoff: Backoff,
}

/// The result of a synchronization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClusterResult {
    /// The cluster is up to date.
    Synced,
    /// The synchronization was not finished, without an error.
    Interrupted,
    /// The request for this cluster failed.
    ClusterFailed,
    /// The hub did not answer, or not in time. This may concern one cluster or all of them.
    HubFailed,
    /// The hub rejects all requests of this client for now, or for this time.
    HubRejects(Option<Duration>),
}

impl ClusterQueue {
    pub(crate) fn new(resync: Duration) -> Self {
        Self {
            clusters: BTreeMap::new(),
            turns: BTreeSet::new(),
            resync,
            unanswered: BTreeSet::new(),
            hub_backoff: Backoff::new(FIRST_PAUSE, LONGEST_HUB_PAUSE),
            paused_until: None,
            failing: BTreeSet::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.clusters.len()
    }

    /// Returns the number of clusters whose last synchronization failed.
    pub(crate) fn failing(&self) -> usize {
        self.failing.len()
    }

    /// Adds a cluster, or changes its status. A new status is due at once, except for a failing
    /// cluster, which keeps its pause.
    pub(crate) fn set(&mut self, namespace: &str, status: AddonStatus, now: Instant) {
        if let Some((name, cluster)) = self.clusters.get_key_value(namespace) {
            if *cluster.status == status {
                return;
            }
            let name = Arc::clone(name);
            if !self.failing.contains(&name) {
                self.schedule(&name, now);
            }
            if let Some(cluster) = self.clusters.get_mut(&name) {
                cluster.is_outdated = cluster.turn.is_none();
                cluster.status = Arc::new(status);
            }
            return;
        }
        let name = Arc::<str>::from(namespace);
        let cluster = QueuedCluster {
            status: Arc::new(status),
            turn: Some(now),
            is_outdated: false,
            backoff: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE),
        };
        self.turns.insert((now, Arc::clone(&name)));
        self.clusters.insert(name, cluster);
    }

    pub(crate) fn remove(&mut self, namespace: &str) {
        if let Some((name, cluster)) = self.clusters.remove_entry(namespace) {
            self.failing.remove(&name);
            self.unanswered.remove(&name);
            if let Some(turn) = cluster.turn {
                self.turns.remove(&(turn, name));
            }
        }
    }

    /// Removes all clusters that are not in `listed`.
    pub(crate) fn retain(&mut self, listed: &BTreeSet<String>) {
        let names = self.clusters.keys();
        let gone = names.filter(|name| !listed.contains(&***name));
        for name in gone.cloned().collect::<Vec<_>>() {
            self.remove(&name);
        }
    }

    /// Makes all clusters due, without any pause: another replica may have written since.
    pub(crate) fn restart(&mut self, now: Instant) {
        self.paused_until = None;
        self.unanswered.clear();
        self.hub_backoff.reset();
        for name in self.clusters.keys().cloned().collect::<Vec<_>>() {
            self.schedule(&name, now);
        }
    }

    /// Returns true if another cluster may be synchronized beside `running` ones. A hub that does
    /// not answer is asked by one at a time.
    pub(crate) fn has_capacity(&self, running: usize) -> bool {
        let is_suspect = self.unanswered.len() > 1;
        running < if is_suspect { 1 } else { MAX_CONCURRENT }
    }

    /// Returns the next cluster that is due, with its status. Its synchronization has to be
    /// reported to [`finished`](Self::finished).
    pub(crate) fn next(&mut self, now: Instant) -> Option<(Arc<str>, Arc<AddonStatus>)> {
        if self.wake()? > now {
            return None;
        }
        let (_, name) = self.turns.pop_first()?;
        let cluster = self.clusters.get_mut(&name)?;
        cluster.turn = None;
        cluster.is_outdated = false;
        Some((name, Arc::clone(&cluster.status)))
    }

    /// Returns the time at which the next cluster is due. `None` if none waits.
    pub(crate) fn wake(&self) -> Option<Instant> {
        let (first, _) = self.turns.first()?;
        Some(self.paused_until.map_or(*first, |until| until.max(*first)))
    }

    /// Records the result of a synchronization. `random` is between 0 and 1 and determines the
    /// jitter. Returns true if the cluster was not failing before and is now.
    pub(crate) fn finished(
        &mut self,
        name: &Arc<str>,
        result: ClusterResult,
        now: Instant,
        random: f64,
    ) -> bool {
        self.record_hub(name, result, now, random);
        let Some(cluster) = self.clusters.get_mut(name) else {
            return false;
        };
        let (turn, is_failing) = match result {
            ClusterResult::Interrupted => (now, self.failing.contains(name)),
            ClusterResult::Synced => {
                cluster.backoff.reset();
                let resync = self.resync.mul_f64(0.75 + 0.25 * random.clamp(0.0, 1.0));
                let turn = if cluster.is_outdated {
                    now
                } else {
                    now + resync
                };
                (turn, false)
            }
            _ => (now + cluster.backoff.pause(random), true),
        };
        cluster.turn = Some(turn);
        self.turns.insert((turn, Arc::clone(name)));
        if is_failing {
            self.failing.insert(Arc::clone(name))
        } else {
            self.failing.remove(name);
            false
        }
    }

    fn record_hub(&mut self, name: &Arc<str>, result: ClusterResult, now: Instant, random: f64) {
        let retry_after = match result {
            ClusterResult::Interrupted => return,
            ClusterResult::Synced | ClusterResult::ClusterFailed => {
                self.unanswered.clear();
                self.hub_backoff.reset();
                return;
            }
            ClusterResult::HubFailed => {
                self.unanswered.insert(Arc::clone(name));
                if self.unanswered.len() < 2 {
                    return;
                }
                None
            }
            ClusterResult::HubRejects(after) => after,
        };
        // Requests that were under way when the pause began do not extend it.
        if self.paused_until.is_none_or(|until| until <= now) {
            let pause = self.hub_backoff.pause(random);
            self.paused_until = Some(now + retry_after.unwrap_or_default().max(pause));
        }
    }

    /// Moves the turn of a cluster that waits.
    fn schedule(&mut self, name: &Arc<str>, at: Instant) {
        let cluster = self.clusters.get_mut(name);
        let turn = cluster.and_then(|cluster| cluster.turn.as_mut());
        let Some(turn) = turn else { return };
        let before = std::mem::replace(turn, at);
        self.turns.remove(&(before, Arc::clone(name)));
        self.turns.insert((at, Arc::clone(name)));
    }
}

#[cfg(test)]
mod tests {
    use kelpie_core::addon::Condition;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const RESYNC: Duration = Duration::from_mins(5);

    fn status(reason: &str) -> AddonStatus {
        let condition = Condition {
            reason: reason.to_owned(),
            ..Condition::default()
        };
        AddonStatus {
            conditions: vec![condition],
            ..AddonStatus::default()
        }
    }

    fn queue(names: &[&str], now: Instant) -> ClusterQueue {
        let mut queue = ClusterQueue::new(RESYNC);
        for name in names {
            queue.set(name, AddonStatus::default(), now);
        }
        queue
    }

    /// Takes all clusters that are due.
    fn due(queue: &mut ClusterQueue, now: Instant) -> Vec<Arc<str>> {
        std::iter::from_fn(|| queue.next(now).map(|(name, _)| name)).collect()
    }

    #[test]
    fn synced_cluster_is_due_within_the_resync() {
        let now = Instant::now();
        let mut queue = queue(&["a"], now);
        let [a] = &due(&mut queue, now)[..] else {
            panic!("one cluster");
        };
        assert_eq!(queue.wake(), None, "it is being synchronized");
        queue.finished(a, ClusterResult::Synced, now, 1.0);
        assert_eq!(queue.wake(), Some(now + RESYNC));
        queue.set("a", status("new"), now + SECOND);
        assert_eq!(queue.wake(), Some(now + SECOND));
        queue.set("a", status("new"), now + 2 * SECOND);
        assert_eq!(queue.wake(), Some(now + SECOND));
    }

    #[test]
    fn status_that_changes_meanwhile_is_due_again() {
        let now = Instant::now();
        let mut queue = queue(&["a"], now);
        let names = due(&mut queue, now);
        queue.set("a", status("new"), now);
        assert_eq!(due(&mut queue, now), Vec::<Arc<str>>::new());
        queue.finished(&names[0], ClusterResult::Synced, now, 1.0);
        let (_, taken) = queue.next(now).unwrap();
        assert_eq!(*taken, status("new"));
    }

    #[test]
    fn failing_cluster_backs_off_alone() {
        let now = Instant::now();
        let mut queue = queue(&["a", "b"], now);
        let names = due(&mut queue, now);
        assert!(queue.finished(&names[0], ClusterResult::ClusterFailed, now, 0.5));
        queue.finished(&names[1], ClusterResult::Synced, now, 1.0);
        assert_eq!((queue.len(), queue.failing()), (2, 1));
        // A new status does not shorten the pause.
        queue.set("a", status("new"), now);
        assert_eq!(queue.wake(), Some(now + SECOND));
        queue.set("b", status("new"), now);
        assert_eq!(due(&mut queue, now), [Arc::from("b")]);
        let later = now + SECOND;
        assert_eq!(due(&mut queue, later), [Arc::from("a")]);
        let is_new = queue.finished(&names[0], ClusterResult::ClusterFailed, later, 0.5);
        assert!(!is_new);
        assert_eq!(queue.wake(), Some(later + 2 * SECOND));
    }

    #[test]
    fn hub_that_does_not_answer_is_left_alone() {
        let now = Instant::now();
        let mut queue = queue(&["a", "b", "c"], now);
        let take = |queue: &mut ClusterQueue, now| queue.next(now).unwrap().0;
        let first = take(&mut queue, now);
        queue.finished(&first, ClusterResult::HubFailed, now, 0.5);
        // The failure may concern only the first cluster.
        let second = take(&mut queue, now);
        let third = take(&mut queue, now);
        assert!(queue.has_capacity(2));
        queue.finished(&second, ClusterResult::HubFailed, now, 0.5);
        assert!(queue.has_capacity(0) && !queue.has_capacity(1));
        queue.finished(&third, ClusterResult::HubFailed, now, 0.5);
        assert_eq!(queue.next(now), None);
        assert_eq!(queue.wake(), Some(now + SECOND));
        let after = Some(7 * SECOND);
        let later = now + SECOND;
        let first = take(&mut queue, later);
        queue.finished(&first, ClusterResult::HubRejects(after), later, 0.5);
        assert_eq!(queue.wake(), Some(later + 7 * SECOND));
        queue.restart(later);
        assert_eq!(due(&mut queue, later).len(), 3);
    }

    #[test]
    fn one_cluster_without_answer_pauses_no_other() {
        let now = Instant::now();
        let mut queue = queue(&["a"], now);
        for minute in 0..4 {
            let later = now + minute * 60 * SECOND;
            let names = due(&mut queue, later);
            queue.finished(&names[0], ClusterResult::HubFailed, later, 0.5);
        }
        let later = now + 181 * SECOND;
        queue.set("b", AddonStatus::default(), later);
        assert_eq!(due(&mut queue, later), [Arc::from("b")]);
    }

    #[test]
    fn removed_cluster_leaves_nothing_behind() {
        let now = Instant::now();
        let mut queue = queue(&["a", "b"], now);
        let names = due(&mut queue, now);
        queue.remove("a");
        assert!(!queue.finished(&names[0], ClusterResult::ClusterFailed, now, 0.5));
        queue.finished(&names[1], ClusterResult::ClusterFailed, now, 0.5);
        queue.retain(&BTreeSet::new());
        assert_eq!((queue.len(), queue.failing()), (0, 0));
        assert_eq!(queue.wake(), None);
    }
}
