//! Direct reads of a kubeconfig whose credentials the cluster rejects.
//!
//! The watch on the Secrets may be late, broken or refused at the moment of a rotation. A probe
//! whose credentials are rejected therefore reads the Secret itself.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use kelpie_core::Time;
use kelpie_kube::client::ClusterClient;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;
use tracing::debug;

use crate::source::{ClusterKubeconfig, ClusterSource, ProbePath};

/// The pause between two reads while a fence may be due soon, and the first pause otherwise.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// The schedule starts over if credentials are accepted this long after the last read.
const STEADY: Duration = Duration::from_mins(2);
/// The number of reads of one cluster under way at once. A further one replaces the oldest.
const MAX_READS: usize = 4;

/// A kubeconfig that was read directly, with its path.
pub(crate) type ReadKubeconfig = (ProbePath, ClusterKubeconfig);

/// Reads kubeconfigs directly, and passes them to the manager. Clones share the channel.
#[derive(Clone)]
pub(crate) struct KubeconfigReader {
    seed: ClusterClient,
    source: Arc<dyn ClusterSource>,
    found: mpsc::UnboundedSender<ReadKubeconfig>,
}

/// Reads the kubeconfig of one cluster and path whenever its credentials are rejected.
///
/// A probe owns one and tells it the result of every request:
///
/// ```ignore
/// let mut refresher = context.kubeconfig_reader.refresher(cluster, ProbePath::Internal);
/// match response.status() {
///     401 | 403 => refresher.denied(clock.now(), is_pressed),
///     _ => refresher.accepted(clock.now()),
/// }
/// ```
///
/// The reads run beside the probe. A kubeconfig that was found goes to the registry, which sends it
/// to the probe as one of its inputs if its text differs from the last one. The same text in a
/// later event of the watch changes nothing.
pub(crate) struct CredentialRefresher {
    cluster: Arc<str>,
    path: ProbePath,
    reader: KubeconfigReader,
    schedule: RefreshSchedule,
    /// The reads under way, the oldest first. They end with the probe.
    reads: VecDeque<AbortOnDropHandle<()>>,
}

impl KubeconfigReader {
    /// Creates a reader, and the channel on which it delivers.
    pub(crate) fn new(
        seed: &ClusterClient,
        source: Arc<dyn ClusterSource>,
    ) -> (Self, mpsc::UnboundedReceiver<ReadKubeconfig>) {
        let (found, receiver) = mpsc::unbounded_channel();
        let seed = seed.clone();
        let reader = Self {
            seed,
            source,
            found,
        };
        (reader, receiver)
    }

    /// Creates the refresher of a cluster.
    pub(crate) fn refresher(&self, cluster: &Arc<str>, path: ProbePath) -> CredentialRefresher {
        CredentialRefresher {
            cluster: Arc::clone(cluster),
            path,
            reader: self.clone(),
            schedule: RefreshSchedule::default(),
            reads: VecDeque::new(),
        }
    }

    async fn read(self, cluster: Arc<str>, path: ProbePath) {
        let read = self.source.read_kubeconfig(&self.seed, &cluster, path);
        match read.await {
            Ok(Some(kubeconfig)) => {
                // An error means that the manager is gone: the process is ending.
                let _ = self.found.send((path, kubeconfig));
            }
            Ok(None) => debug!(%cluster, "the cluster rejects its credentials and has no Secret"),
            Err(error) => debug!(%cluster, %error, "cannot read the kubeconfig Secret directly"),
        }
    }
}

impl CredentialRefresher {
    /// Takes in that the cluster rejected the credentials, and starts a read if one is due: at once
    /// after the first rejection, every second while `is_pressed`, with a growing pause otherwise.
    pub(crate) fn denied(&mut self, now: Time, is_pressed: bool) {
        if !self.schedule.is_due(now, is_pressed) {
            return;
        }
        self.reads.retain(|read| !read.is_finished());
        if self.reads.len() == MAX_READS {
            self.reads.pop_front();
        }
        let read = self
            .reader
            .clone()
            .read(Arc::clone(&self.cluster), self.path);
        self.reads
            .push_back(AbortOnDropHandle::new(tokio::spawn(read)));
    }

    /// Takes in that the cluster accepted the credentials.
    pub(crate) fn accepted(&mut self, now: Time) {
        self.schedule.accepted(now);
        self.reads.clear();
    }
}

/// Decides when to read.
#[derive(Debug, Default)]
struct RefreshSchedule {
    last: Option<Time>,
    /// The next pause while nothing presses.
    pause: Duration,
}

impl RefreshSchedule {
    fn is_due(&mut self, now: Time, is_pressed: bool) -> bool {
        let pause = if is_pressed {
            SHORTEST_PAUSE
        } else {
            self.pause
        };
        if self.last.is_some_and(|last| now < last.after(pause)) {
            return false;
        }
        self.last = Some(now);
        if !is_pressed {
            self.pause = (self.pause * 2).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
        }
        true
    }

    /// Starts over, unless a read was recent: an API server that rejects some requests and accepts
    /// others must not cause a read for each of them.
    fn accepted(&mut self, now: Time) {
        if self.last.is_some_and(|last| now >= last.after(STEADY)) {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Time {
        Time::from_micros(seconds * 1_000_000)
    }

    /// The seconds at which a read is due if every second has a rejection.
    fn due(
        schedule: &mut RefreshSchedule,
        seconds: std::ops::Range<i64>,
        pressed: bool,
    ) -> Vec<i64> {
        seconds
            .filter(|second| schedule.is_due(at(*second), pressed))
            .collect()
    }

    #[test]
    fn pauses_grow_to_a_minute() {
        let mut schedule = RefreshSchedule::default();
        let expected = [0, 1, 3, 7, 15, 31, 63, 123, 183];
        assert_eq!(due(&mut schedule, 0..200, false), expected);
    }

    #[test]
    fn pressed_probe_reads_every_second() {
        let mut schedule = RefreshSchedule::default();
        due(&mut schedule, 0..100, false);
        assert_eq!(
            due(&mut schedule, 100..105, true),
            [100, 101, 102, 103, 104]
        );
        assert!(!schedule.is_due(at(104), true), "not twice in a second");
    }

    #[test]
    fn new_rejection_is_read_at_once() {
        let mut schedule = RefreshSchedule::default();
        due(&mut schedule, 0..64, false);
        schedule.accepted(at(183));
        assert!(schedule.is_due(at(183), false));
    }

    #[test]
    fn alternating_responses_keep_the_pause() {
        let mut schedule = RefreshSchedule::default();
        let reads = (0..200).filter(|second| {
            schedule.accepted(at(*second));
            schedule.is_due(at(*second), false)
        });
        assert!(reads.count() < 12);
    }
}
