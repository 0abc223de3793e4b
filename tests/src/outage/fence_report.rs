//! The fences of all clusters of a seed cluster.

use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

use super::FenceWindow;
use crate::percentiles::Percentiles;

/// The fence of one cluster.
#[derive(Debug, Clone, Copy)]
pub struct ClusterFence {
    pub(super) window: FenceWindow,
    /// The time at which kube-controller-manager was seen without replicas.
    pub(super) kcm: Instant,
    /// The time at which the last target was seen without replicas.
    pub(super) last: Instant,
}

/// The fences of all clusters. Displays as a Markdown table.
#[derive(Debug)]
pub struct FenceReport {
    fences: Vec<ClusterFence>,
    pod_stop: Duration,
}

impl FenceReport {
    pub(super) fn new(fences: Vec<ClusterFence>, pod_stop: Duration) -> Self {
        Self { fences, pod_stop }
    }

    /// The number of fenced clusters.
    pub fn count(&self) -> usize {
        self.fences.len()
    }

    /// The number of clusters whose kube-controller-manager was scaled before the deadline.
    pub fn in_time(&self) -> usize {
        self.gone_in_time(Duration::ZERO)
    }

    /// The number of clusters whose pod is gone before the deadline, `pod_stop` after the scaling.
    fn gone_in_time(&self, pod_stop: Duration) -> usize {
        let in_time = |fence: &&ClusterFence| fence.kcm + pod_stop <= fence.window.deadline;
        self.fences.iter().filter(in_time).count()
    }

    /// The longest delay after a deadline; zero if none was missed.
    pub fn worst_delay(&self) -> Duration {
        let late =
            |fence: &ClusterFence| fence.kcm.saturating_duration_since(fence.window.deadline);
        self.fences.iter().map(late).max().unwrap_or_default()
    }

    /// The time at which the last target of all clusters was scaled down.
    pub fn end(&self) -> Option<Instant> {
        self.fences.iter().map(|fence| fence.last).max()
    }

    /// The share of pairs of clusters with different deadlines in which the kube-controller-manager
    /// with the earlier deadline was scaled first.
    fn in_order(&self) -> f64 {
        let mut pairs = 0_u32;
        let mut ordered = 0_u32;
        for (number, one) in self.fences.iter().enumerate() {
            for other in &self.fences[number + 1..] {
                let is_ordered = match one.window.deadline.cmp(&other.window.deadline) {
                    std::cmp::Ordering::Less => one.kcm <= other.kcm,
                    std::cmp::Ordering::Greater => other.kcm <= one.kcm,
                    std::cmp::Ordering::Equal => continue,
                };
                pairs += 1;
                ordered += u32::from(is_ordered);
            }
        }
        f64::from(ordered) / f64::from(pairs.max(1))
    }
}

impl fmt::Display for FenceReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let after_trip = |at: fn(&ClusterFence) -> Instant| {
            let times = self.fences.iter();
            let times = times.map(|fence| at(fence).saturating_duration_since(fence.window.trip));
            Percentiles::new(times.map(|time| time.as_secs_f64()))
        };
        let margins = self.fences.iter().map(|fence| {
            let left = fence.window.deadline.saturating_duration_since(fence.kcm);
            let late = fence.kcm.saturating_duration_since(fence.window.deadline);
            left.as_secs_f64() - late.as_secs_f64()
        });
        let (kcm, last) = (
            after_trip(|fence| fence.kcm),
            after_trip(|fence| fence.last),
        );
        let margins = Percentiles::new(margins);
        let count = self.count();
        writeln!(f, "| {count} clusters | |\n|---|---|")?;
        writeln!(
            f,
            "| kube-controller-manager scaled before the deadline | {} |",
            self.in_time()
        )?;
        writeln!(
            f,
            "| its pod gone before the deadline ({} s later) | {} |",
            self.pod_stop.as_secs_f64(),
            self.gone_in_time(self.pod_stop)
        )?;
        writeln!(
            f,
            "| scaled after the trip: median, p99, worst | {}, {}, {} |",
            kcm.percentile(50),
            kcm.percentile(99),
            kcm.percentile(100)
        )?;
        writeln!(
            f,
            "| scaled before the deadline: median, worst | {}, {} |",
            margins.percentile(50),
            margins.percentile(0)
        )?;
        writeln!(
            f,
            "| all three targets down after the trip: median, worst | {}, {} |",
            last.percentile(50),
            last.percentile(100)
        )?;
        let order = self.in_order() * 100.0;
        writeln!(
            f,
            "| pairs of clusters in the order of their deadlines | {order:.0} % |"
        )
    }
}
