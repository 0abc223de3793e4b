//! The metrics of the weeder. Labels have few values: services and causes, never namespaces or
//! pods.

use std::time::Duration;

use kelpie_core::weeder::SkipReason;
use kelpie_kube::client::ClientMetrics;
use kelpie_kube::events::DroppedEvents;
use kelpie_runtime::MetricSet;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// The prefix of every metric's name.
pub(crate) const PREFIX: &str = "kelpie_weeder";

/// In seconds: from a pod that crash-looped at the recovery to one that does at the end of a
/// window.
const DELETION_BUCKETS: [f64; 11] = [
    0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0, 300.0,
];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ServiceLabel {
    service: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SkipLabels {
    service: String,
    cause: &'static str,
}

/// All metrics of the weeder. Clones share the values.
#[derive(Clone, Debug)]
pub(crate) struct WeederMetrics {
    pub(crate) leader: Gauge,
    pub(crate) services: Gauge,
    pub(crate) ready_services: Gauge,
    pub(crate) active_windows: Gauge,
    pub(crate) watch_failures: Counter,
    pub(crate) task_restarts: Counter,
    recoveries: Family<ServiceLabel, Counter>,
    deleted: Family<ServiceLabel, Counter>,
    skipped: Family<SkipLabels, Counter>,
    failed: Family<ServiceLabel, Counter>,
    recovery_to_deletion: Family<ServiceLabel, Histogram, fn() -> Histogram>,
}

/// The causes for which a pod in CrashLoopBackOff is not deleted: decisions, and a pod that changed
/// before the request.
const SKIP_CAUSES: [&str; 5] = ["leaving", "ownerless", "capped", "dry_run", "changed"];

impl WeederMetrics {
    /// Registers all metrics, with a series for each of these services.
    pub(crate) fn new<'s>(
        registry: &mut Registry,
        services: impl Iterator<Item = &'s str>,
    ) -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(DELETION_BUCKETS);
        let mut set = MetricSet::new(registry, PREFIX);
        let metrics = Self {
            leader: set.add(
                "leader",
                "1 if this replica acts, 0 if it only observes (standby or dry run)",
            ),
            services: set.add("services", "Watched services, over all namespaces"),
            ready_services: set.add(
                "ready_services",
                "Watched services that are ready, over all namespaces",
            ),
            active_windows: set.add(
                "active_windows",
                "Open windows, in which crash-looping dependants are deleted",
            ),
            watch_failures: set.add(
                "watch_failures",
                "Watches on the seed that failed and were restarted",
            ),
            task_restarts: set.add(
                "task_restarts",
                "Namespace workers that panicked (a bug in Kelpie) and were restarted",
            ),
            recoveries: set.add("recoveries", "Recoveries of the service"),
            deleted: set.add(
                "pods_deleted",
                "Pods in CrashLoopBackOff that were deleted after the service recovered",
            ),
            skipped: set.add(
                "pods_skipped",
                "Pods in CrashLoopBackOff that were not deleted, by cause; capped counts owners",
            ),
            failed: set.add(
                "deletions_failed",
                "Deletions that the seed's API server rejected or did not answer. They are retried",
            ),
            recovery_to_deletion: set.register(
                "recovery_to_deletion_seconds",
                "Time from the recovery of the service to each acknowledged deletion of a \
                 dependant. Windows that open at a start, without a recovery, do not count",
                Family::new_with_constructor(histogram),
            ),
        };
        for service in services {
            let label = label(service);
            drop(metrics.recoveries.get_or_create(&label));
            drop(metrics.deleted.get_or_create(&label));
            drop(metrics.failed.get_or_create(&label));
            drop(metrics.recovery_to_deletion.get_or_create(&label));
            for cause in SKIP_CAUSES {
                drop(metrics.skipped.get_or_create(&skip_labels(service, cause)));
            }
        }
        metrics
    }

    pub(crate) fn recovered(&self, service: &str) {
        self.recoveries.get_or_create(&label(service)).inc();
    }

    /// Counts a deletion, `after` the recovery of the service if one was seen.
    pub(crate) fn deleted(&self, service: &str, after: Option<Duration>) {
        let label = label(service);
        self.deleted.get_or_create(&label).inc();
        if let Some(after) = after {
            let took = self.recovery_to_deletion.get_or_create(&label);
            took.observe(after.as_secs_f64());
        }
    }

    /// Counts a pod that was not deleted, for one of the [`SKIP_CAUSES`].
    pub(crate) fn skipped(&self, service: &str, cause: &'static str) {
        let labels = skip_labels(service, cause);
        self.skipped.get_or_create(&labels).inc();
    }

    /// Counts a pod that was not deleted because it had changed.
    pub(crate) fn changed(&self, service: &str) {
        self.skipped(service, "changed");
    }

    pub(crate) fn failed(&self, service: &str) {
        self.failed.get_or_create(&label(service)).inc();
    }
}

/// Returns the cause of a decision not to delete a pod, as the label names it.
pub(crate) fn skip_cause(reason: SkipReason) -> &'static str {
    match reason {
        SkipReason::Terminating => "leaving",
        SkipReason::Ownerless => "ownerless",
        SkipReason::Capped => "capped",
        SkipReason::DryRun => "dry_run",
    }
}

fn label(service: &str) -> ServiceLabel {
    ServiceLabel {
        service: service.to_owned(),
    }
}

fn skip_labels(service: &str, cause: &'static str) -> SkipLabels {
    SkipLabels {
        service: service.to_owned(),
        cause,
    }
}

/// Registers all metrics of the weeder, each with at least one series so that its labels are known.
/// For the generated reference.
pub fn register_metrics(registry: &mut Registry) {
    let _ = WeederMetrics::new(registry, ["etcd-main-client"].into_iter());
    ClientMetrics::register(
        registry,
        PREFIX,
        || [(200, 1)].into(),
        DroppedEvents::default,
        || false,
    );
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn every_family_has_an_example() {
        let mut registry = Registry::default();
        register_metrics(&mut registry);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for (line, next) in lines.iter().zip(&lines[1..]) {
            if line.starts_with("# TYPE ") {
                assert!(!next.starts_with('#'), "{line} has no series");
            }
        }
    }
}
