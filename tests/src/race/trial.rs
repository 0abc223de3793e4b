//! What became of one partition.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

/// A partition that is over.
#[derive(Debug, Clone)]
pub struct Trial {
    /// Which shoot was cut off.
    pub shoot: String,
    /// How many nodes it has.
    pub nodes: usize,
    /// When nothing was renewed any more.
    pub cut: Instant,
    /// The first instant at which the node controller may give a node up.
    pub deadline: Instant,
    /// When kube-controller-manager was seen without replicas, if it ever was.
    pub fence: Option<Instant>,
    /// So long it takes a pod to be gone.
    pub pod_stop: Duration,
    /// The nodes that turned Unknown, and when; kube-controller-manager lived a second longer than
    /// its pod would have.
    pub lost: Vec<(String, Instant)>,
    /// The most that the same calls of somebody else took between the cut and the fence.
    pub machine: Duration,
    /// From the end of the partition until all was as before.
    pub restore: Option<Duration>,
}

impl Trial {
    /// How many nodes turned Unknown if the pod is gone so long after the fence.
    pub fn lost_within(&self, pod_stop: Duration) -> usize {
        let end = self.fence.map(|fence| fence + pod_stop);
        let is_seen = |at: Instant| end.is_none_or(|end| at <= end);
        self.lost.iter().filter(|(_, at)| is_seen(*at)).count()
    }

    /// The same for this race's pods.
    pub fn lost(&self) -> usize {
        self.lost_within(self.pod_stop)
    }

    /// From the cut to the fence.
    pub fn fence_after(&self) -> Option<Duration> {
        self.fence.map(|fence| fence - self.cut)
    }

    /// Seconds from the end of kube-controller-manager to the deadline; below zero if it was missed.
    pub fn margin(&self) -> Option<f64> {
        let gone = self.fence? + self.pod_stop;
        let left = self.deadline.saturating_duration_since(gone);
        let late = gone.saturating_duration_since(self.deadline);
        Some(left.as_secs_f64() - late.as_secs_f64())
    }

    /// A line about it.
    pub fn line(&self) -> String {
        let Self { shoot, nodes, .. } = self;
        let Some((fence, margin)) = self.fence_after().zip(self.margin()) else {
            return format!("{shoot}, {nodes} nodes: no fence, {} Unknown", self.lost());
        };
        format!(
            "{shoot}, {nodes} nodes: fenced {:.1} s after the cut, gone {margin:.1} s before the \
             deadline, {} Unknown, restored after {:.1} s",
            fence.as_secs_f64(),
            self.lost(),
            self.restore.unwrap_or_default().as_secs_f64(),
        )
    }

    /// All of it, in seconds since the cut.
    pub fn json(&self) -> Value {
        let since_cut = |at: Instant| (at - self.cut).as_secs_f64();
        let lost = self.lost.iter();
        let lost = lost.map(|(node, at)| json!({ "node": node, "at": since_cut(*at) }));
        json!({
            "shoot": self.shoot,
            "nodes": self.nodes,
            "deadline": since_cut(self.deadline),
            "fence": self.fence.map(since_cut),
            "margin": self.margin(),
            "unknown": self.lost(),
            "lost": lost.collect::<Vec<_>>(),
            "sameCallsOfOthers": self.machine.as_secs_f64(),
            "restore": self.restore.map(|time| time.as_secs_f64()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_counts_if_its_controller_would_still_have_been_there() {
        let cut = Instant::now();
        let at = |seconds: f64| cut + Duration::from_secs_f64(seconds);
        let trial = |fence| Trial {
            shoot: "a".into(),
            nodes: 3,
            cut,
            deadline: at(32.0),
            fence,
            pod_stop: Duration::from_secs(2),
            lost: vec![("x".into(), at(32.5)), ("y".into(), at(33.5))],
            machine: Duration::ZERO,
            restore: None,
        };
        let fenced = trial(Some(at(31.0)));
        let within = |seconds| fenced.lost_within(Duration::from_secs(seconds));
        assert_eq!([within(1), within(2), within(3)], [0, 1, 2]);
        assert_eq!(fenced.margin().map(f64::round), Some(-1.0));
        let unfenced = trial(None);
        assert_eq!((unfenced.lost(), unfenced.margin()), (2, None));
        assert_eq!(unfenced.line(), "a, 3 nodes: no fence, 2 Unknown");
    }
}
