//! The result of one partition.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::RaceFault;

/// A partition and its outcome.
#[derive(Debug, Clone)]
pub struct RaceTrial {
    /// The name of the cluster.
    pub cluster: String,
    /// The number of nodes of the cluster.
    pub nodes: usize,
    /// The fault beside the partition.
    pub fault: RaceFault,
    /// True if a fence in time was possible, given the fault ([`Cut::is_winnable`]).
    ///
    /// [`Cut::is_winnable`]: super::Cut::is_winnable
    pub is_winnable: bool,
    /// The time from which no lease was renewed.
    pub partitioned_at: Instant,
    /// The first instant at which the node controller may mark a node Unknown.
    pub deadline: Instant,
    /// The time at which the Deployment of kube-controller-manager was seen without replicas;
    /// `None` if there was no fence.
    pub fenced_at: Option<Instant>,
    /// The time from scaling a Deployment down until its pod is gone.
    pub pod_stop: Duration,
    /// The nodes that became Unknown, with the time. kube-controller-manager ran for a second
    /// longer than its pod would have.
    pub unknown: Vec<(String, Instant)>,
    /// The longest run of the canary, which makes the same requests, between partition and fence.
    pub baseline: Duration,
    /// The time from the end of the partition until all targets were restored.
    pub restore: Option<Duration>,
    /// True if all targets have their replicas of before the fence, and no marker.
    pub is_restored_exactly: bool,
}

impl RaceTrial {
    /// Counts the nodes that become Unknown if the pod is gone `pod_stop` after the fence.
    pub fn unknown_within(&self, pod_stop: Duration) -> usize {
        let end = self.fenced_at.map(|fenced_at| fenced_at + pod_stop);
        let counts = |at: Instant| end.is_none_or(|end| at <= end);
        self.unknown.iter().filter(|(_, at)| counts(*at)).count()
    }

    /// Counts the nodes that become Unknown with the `pod_stop` of this race.
    pub fn unknown_count(&self) -> usize {
        self.unknown_within(self.pod_stop)
    }

    /// The time from the partition to the fence.
    pub fn fence_latency(&self) -> Option<Duration> {
        self.fenced_at
            .map(|fenced_at| fenced_at - self.partitioned_at)
    }

    /// Seconds from the end of kube-controller-manager to the deadline; negative if the deadline
    /// was missed.
    pub fn margin(&self) -> Option<f64> {
        let gone = self.fenced_at? + self.pod_stop;
        let left = self.deadline.saturating_duration_since(gone);
        let late = gone.saturating_duration_since(self.deadline);
        Some(left.as_secs_f64() - late.as_secs_f64())
    }

    /// Formats the result as one line.
    pub fn line(&self) -> String {
        let Self { cluster, nodes, .. } = self;
        let Some((latency, margin)) = self.fence_latency().zip(self.margin()) else {
            let unknown = self.unknown_count();
            return format!("{cluster}, {nodes} nodes: no fence, {unknown} Unknown");
        };
        let restore = match self.restore {
            Some(time) => format!("restored after {:.1} s", time.as_secs_f64()),
            None => "not restored".to_owned(),
        };
        format!(
            "{cluster}, {nodes} nodes: fenced {:.1} s after the partition, gone {margin:.1} s \
             before the deadline, {} Unknown, {restore}{}",
            latency.as_secs_f64(),
            self.unknown_count(),
            if self.is_winnable {
                ""
            } else {
                " (a fence in time was not possible)"
            },
        )
    }

    /// Returns the result as JSON. Times are in seconds since the partition.
    pub fn json(&self) -> Value {
        let seconds = |at: Instant| (at - self.partitioned_at).as_secs_f64();
        let lost = self.unknown.iter();
        let lost = lost.map(|(node, at)| json!({ "node": node, "at": seconds(*at) }));
        json!({
            "shoot": self.cluster,
            "nodes": self.nodes,
            "fault": self.fault.to_string(),
            "possible": self.is_winnable,
            "deadline": seconds(self.deadline),
            "fence": self.fenced_at.map(seconds),
            "margin": self.margin(),
            "unknown": self.unknown_count(),
            "lost": lost.collect::<Vec<_>>(),
            "sameCallsOfOthers": self.baseline.as_secs_f64(),
            "restore": self.restore.map(|time| time.as_secs_f64()),
            "restoredExactly": self.is_restored_exactly,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_nodes_count_until_pod_is_gone() {
        let partitioned_at = Instant::now();
        let at = |seconds: f64| partitioned_at + Duration::from_secs_f64(seconds);
        let trial = |fenced_at| RaceTrial {
            cluster: "a".into(),
            nodes: 3,
            fault: RaceFault::None,
            is_winnable: true,
            partitioned_at,
            deadline: at(32.0),
            fenced_at,
            pod_stop: Duration::from_secs(2),
            unknown: vec![("x".into(), at(32.5)), ("y".into(), at(33.5))],
            baseline: Duration::ZERO,
            restore: None,
            is_restored_exactly: true,
        };
        let fenced = trial(Some(at(31.0)));
        let within = |seconds| fenced.unknown_within(Duration::from_secs(seconds));
        assert_eq!([within(1), within(2), within(3)], [0, 1, 2]);
        assert_eq!(fenced.margin().map(f64::round), Some(-1.0));
        let unfenced = trial(None);
        assert_eq!((unfenced.unknown_count(), unfenced.margin()), (2, None));
        assert_eq!(unfenced.line(), "a, 3 nodes: no fence, 2 Unknown");
    }
}
