//! How the clusters of a seed were fenced.

use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

use super::Due;
use crate::seconds::Seconds;

/// A cluster that is fenced.
#[derive(Debug, Clone, Copy)]
pub struct Fenced {
    pub(super) due: Due,
    /// When kube-controller-manager was seen without replicas.
    pub(super) kcm: Instant,
    /// When the last target was.
    pub(super) last: Instant,
}

/// All of them.
#[derive(Debug)]
pub struct Fences {
    all: Vec<Fenced>,
    pod_stop: Duration,
}

impl Fences {
    pub(super) fn new(all: Vec<Fenced>, pod_stop: Duration) -> Self {
        Self { all, pod_stop }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Clusters whose kube-controller-manager was scaled before the deadline.
    pub fn in_time(&self) -> usize {
        self.gone_in_time(Duration::ZERO)
    }

    /// The same if it has to be gone, so long later.
    fn gone_in_time(&self, later: Duration) -> usize {
        let in_time = |fenced: &&Fenced| fenced.kcm + later <= fenced.due.deadline;
        self.all.iter().filter(in_time).count()
    }

    /// By how much the worst one missed its deadline; nothing if none did.
    pub fn worst_delay(&self) -> Duration {
        let late = |fenced: &Fenced| fenced.kcm.saturating_duration_since(fenced.due.deadline);
        self.all.iter().map(late).max().unwrap_or_default()
    }

    /// When the last target of all was down.
    pub fn end(&self) -> Option<Instant> {
        self.all.iter().map(|fenced| fenced.last).max()
    }

    /// Of all pairs of clusters with different deadlines, the share in which the more urgent one's
    /// kube-controller-manager went first.
    fn in_order(&self) -> f64 {
        let mut pairs = 0_u32;
        let mut ordered = 0_u32;
        for (number, one) in self.all.iter().enumerate() {
            for other in &self.all[number + 1..] {
                let is_other_first = match one.due.deadline.cmp(&other.due.deadline) {
                    std::cmp::Ordering::Less => one.kcm <= other.kcm,
                    std::cmp::Ordering::Greater => other.kcm <= one.kcm,
                    std::cmp::Ordering::Equal => continue,
                };
                pairs += 1;
                ordered += u32::from(is_other_first);
            }
        }
        f64::from(ordered) / f64::from(pairs.max(1))
    }
}

impl fmt::Display for Fences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let after_trip = |at: fn(&Fenced) -> Instant| {
            let times = self.all.iter();
            let times = times.map(|fenced| at(fenced).saturating_duration_since(fenced.due.trip));
            Seconds::of(times.map(|time| time.as_secs_f64()))
        };
        let margins = self.all.iter().map(|fenced| {
            let left = fenced.due.deadline.saturating_duration_since(fenced.kcm);
            let late = fenced.kcm.saturating_duration_since(fenced.due.deadline);
            left.as_secs_f64() - late.as_secs_f64()
        });
        let (kcm, last) = (
            after_trip(|fenced| fenced.kcm),
            after_trip(|fenced| fenced.last),
        );
        let margins = Seconds::of(margins);
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
            kcm.at(50),
            kcm.at(99),
            kcm.at(100)
        )?;
        writeln!(
            f,
            "| scaled before the deadline: median, worst | {}, {} |",
            margins.at(50),
            margins.at(0)
        )?;
        writeln!(
            f,
            "| all three targets down after the trip: median, worst | {}, {} |",
            last.at(50),
            last.at(100)
        )?;
        let order = self.in_order() * 100.0;
        writeln!(
            f,
            "| pairs of clusters in the order of their deadlines | {order:.0} % |"
        )
    }
}
