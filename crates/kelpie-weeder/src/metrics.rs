//! The numbers of the weeder. Labels have few values: services and causes, never namespaces or pods.

use std::time::Duration;

use kelpie_core::weeder::Cause;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Every name begins with this.
pub(crate) const PREFIX: &str = "kelpie_weeder";

/// Seconds: from a pod that crash-looped already to one that does so at the end of a window.
const DELETION_BUCKETS: [f64; 11] = [
    0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0, 300.0,
];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ServiceLabel {
    service: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CauseLabel {
    service: String,
    cause: &'static str,
}

/// All families. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    pub(crate) leader: Gauge,
    pub(crate) services: Gauge,
    pub(crate) ready_services: Gauge,
    pub(crate) active_windows: Gauge,
    pub(crate) watch_failures: Counter,
    pub(crate) task_restarts: Counter,
    recoveries: Family<ServiceLabel, Counter>,
    deleted: Family<ServiceLabel, Counter>,
    skipped: Family<CauseLabel, Counter>,
    failed: Family<ServiceLabel, Counter>,
    recovery_to_deletion: Family<ServiceLabel, Histogram, fn() -> Histogram>,
}

/// What a pod in CrashLoopBackOff was spared for: decisions, and calls that came to nothing.
const CAUSES: [&str; 5] = ["leaving", "ownerless", "capped", "dry_run", "changed"];

impl Metrics {
    /// Registers everything, with a series for each of these services.
    pub(crate) fn new<'s>(
        registry: &mut Registry,
        services: impl Iterator<Item = &'s str>,
    ) -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(DELETION_BUCKETS);
        let metrics = Self {
            leader: Gauge::default(),
            services: Gauge::default(),
            ready_services: Gauge::default(),
            active_windows: Gauge::default(),
            watch_failures: Counter::default(),
            task_restarts: Counter::default(),
            recoveries: Family::default(),
            deleted: Family::default(),
            skipped: Family::default(),
            failed: Family::default(),
            recovery_to_deletion: Family::new_with_constructor(histogram),
        };
        for service in services {
            let label = label(service);
            drop(metrics.recoveries.get_or_create(&label));
            drop(metrics.deleted.get_or_create(&label));
            drop(metrics.failed.get_or_create(&label));
            drop(metrics.recovery_to_deletion.get_or_create(&label));
            for cause in CAUSES {
                drop(metrics.skipped.get_or_create(&cause_label(service, cause)));
            }
        }
        metrics.register(registry.sub_registry_with_prefix(PREFIX));
        metrics
    }

    fn register(&self, registry: &mut Registry) {
        registry.register(
            "leader",
            "1 if this replica acts, 0 if it only observes",
            self.leader.clone(),
        );
        registry.register(
            "services",
            "Services that are watched, over all namespaces",
            self.services.clone(),
        );
        registry.register(
            "ready_services",
            "Services that are watched and ready",
            self.ready_services.clone(),
        );
        registry.register(
            "active_windows",
            "Watch windows that are open",
            self.active_windows.clone(),
        );
        registry.register(
            "watch_failures",
            "Watches on the seed that broke and were begun again",
            self.watch_failures.clone(),
        );
        registry.register(
            "task_restarts",
            "Tasks of a namespace that ended by a defect and were started again",
            self.task_restarts.clone(),
        );
        registry.register(
            "recoveries",
            "Times that a service was seen to come back",
            self.recoveries.clone(),
        );
        registry.register(
            "pods_deleted",
            "Pods in CrashLoopBackOff that were deleted after their service came back",
            self.deleted.clone(),
        );
        registry.register(
            "pods_skipped",
            "Pods in CrashLoopBackOff that were not deleted, by cause; capped counts owners",
            self.skipped.clone(),
        );
        registry.register(
            "deletions_failed",
            "Deletions that the seed's API server refused or did not answer; they are tried again",
            self.failed.clone(),
        );
        registry.register(
            "recovery_to_deletion_seconds",
            "From the recovery of a service to each acknowledged deletion of a dependant",
            self.recovery_to_deletion.clone(),
        );
    }

    pub(crate) fn recovered(&self, service: &str) {
        self.recoveries.get_or_create(&label(service)).inc();
    }

    pub(crate) fn deleted(&self, service: &str, after: Duration) {
        let label = label(service);
        self.deleted.get_or_create(&label).inc();
        let took = self.recovery_to_deletion.get_or_create(&label);
        took.observe(after.as_secs_f64());
    }

    pub(crate) fn skipped(&self, service: &str, cause: Cause) {
        let cause = match cause {
            Cause::Leaving => "leaving",
            Cause::Ownerless => "ownerless",
            Cause::Capped => "capped",
            Cause::DryRun => "dry_run",
        };
        self.skip(service, cause);
    }

    /// A pod had changed when it was to be deleted.
    pub(crate) fn changed(&self, service: &str) {
        self.skip(service, "changed");
    }

    pub(crate) fn failed(&self, service: &str) {
        self.failed.get_or_create(&label(service)).inc();
    }

    fn skip(&self, service: &str, cause: &'static str) {
        let label = cause_label(service, cause);
        self.skipped.get_or_create(&label).inc();
    }
}

fn label(service: &str) -> ServiceLabel {
    ServiceLabel {
        service: service.to_owned(),
    }
}

fn cause_label(service: &str, cause: &'static str) -> CauseLabel {
    CauseLabel {
        service: service.to_owned(),
        cause,
    }
}
