//! Metrics of the addon's controllers.

use kelpie_core::addon::{AddonStatus, StandardCondition};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Metric, Registry};

use crate::hub_replication::SyncOutcome;
use crate::status_writer::WriteOutcome;

/// The prefix of all metrics.
const PREFIX: &str = "kelpie_addon";
const LEADER_HELP: &str = "1 if this replica acts, 0 if it only observes (standby or dry run)";

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ConditionTypeLabel {
    r#type: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PartLabel {
    part: &'static str,
}

/// Registers all metrics of the addon, each with at least one series, so that the metrics reference
/// shows their labels.
pub fn register_metrics(registry: &mut Registry) {
    let _ = StatusMetrics::new(registry);
    let _ = OperatorMetrics::new(registry);
    let _ = HubStatusMetrics::new(registry);
}

/// Registers a new metric and returns it.
fn register<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

/// A counter by result. Clones share the series.
#[derive(Clone, Debug)]
struct ResultCounter(Family<ResultLabel, Counter>);

impl ResultCounter {
    fn new(registry: &mut Registry, name: &str, help: &str, results: &[&'static str]) -> Self {
        let counter = Self(register(registry, name, help));
        for result in results {
            let _ = counter.0.get_or_create(&ResultLabel { result });
        }
        counter
    }

    fn inc(&self, result: &'static str) {
        self.0.get_or_create(&ResultLabel { result }).inc();
    }
}

/// Metrics of the status controller. Clones share the series.
#[derive(Clone, Debug)]
pub(crate) struct StatusMetrics {
    pub(crate) leader: Gauge,
    pub(crate) watch_failures: Counter,
    reconciles: ResultCounter,
    conditions: Family<ConditionTypeLabel, Gauge>,
    pub(crate) hub: HubMetrics,
}

/// Metrics of the replication to the hub. Clones share the series.
#[derive(Clone, Debug)]
pub(crate) struct HubMetrics {
    syncs: ResultCounter,
    current: Gauge,
}

impl StatusMetrics {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let registry = registry.sub_registry_with_prefix(PREFIX);
        let metrics = Self {
            leader: register(registry, "leader", LEADER_HELP),
            watch_failures: register(
                registry,
                "watch_failures",
                "Failed watches of the spoke's addon",
            ),
            reconciles: ResultCounter::new(
                registry,
                "status_reconciles",
                "Reconciliations of the standard conditions, by the result of the write",
                &["changed", "unchanged", "failed"],
            ),
            conditions: register(
                registry,
                "condition",
                "1 for the standard condition that is True, 0 for the others",
            ),
            hub: HubMetrics::new(registry),
        };
        metrics.set_condition(None);
        metrics
    }

    pub(crate) fn reconciled<E>(&self, written: &Result<WriteOutcome, E>) {
        self.reconciles.inc(match written {
            Ok(WriteOutcome::Changed) => "changed",
            Ok(WriteOutcome::Unchanged) => "unchanged",
            Err(_) => "failed",
        });
    }

    pub(crate) fn set_condition(&self, status: Option<&AddonStatus>) {
        let current = status.and_then(AddonStatus::standard_condition);
        for standard in StandardCondition::ALL {
            let r#type = standard.condition_type();
            let gauge = self
                .conditions
                .get_or_create(&ConditionTypeLabel { r#type });
            gauge.set((current == Some(standard)).into());
        }
    }
}

impl HubMetrics {
    fn new(registry: &mut Registry) -> Self {
        Self {
            syncs: ResultCounter::new(
                registry,
                "hub_syncs",
                "Synchronizations of the status to the hub, by result; missing: the hub has no \
                 such addon; going: it is being deleted there",
                &["written", "equal", "missing", "going", "failed"],
            ),
            current: register(
                registry,
                "hub_current",
                "1 if the hub had the spoke's status after the last synchronization, otherwise 0; \
                 0 if the spoke has no addon, which counts as no synchronization",
            ),
        }
    }

    pub(crate) fn synced<E>(&self, result: &Result<SyncOutcome, E>) {
        let (is_current, result) = match result {
            Ok(SyncOutcome::NothingToReplicate) => {
                self.current.set(0);
                return;
            }
            Ok(SyncOutcome::Written) => (true, "written"),
            Ok(SyncOutcome::Equal) => (true, "equal"),
            Ok(SyncOutcome::Missing) => (false, "missing"),
            Ok(SyncOutcome::Terminating) => (false, "going"),
            Err(_) => (false, "failed"),
        };
        self.current.set(is_current.into());
        self.syncs.inc(result);
    }
}

/// Metrics of the operator. Clones share the series.
#[derive(Clone, Debug)]
pub(crate) struct OperatorMetrics {
    pub(crate) leader: Gauge,
    reconciles: ResultCounter,
    ignored_fields: Family<PartLabel, Gauge>,
}

impl OperatorMetrics {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let registry = registry.sub_registry_with_prefix(PREFIX);
        let registry = registry.sub_registry_with_prefix("operator");
        let metrics = Self {
            leader: register(registry, "leader", LEADER_HELP),
            reconciles: ResultCounter::new(
                registry,
                "reconciles",
                "Reconciliations by result; failing: a collector could not be deployed as \
                 desired; retrying: a request for a collector failed and is retried; aborted: the \
                 addon could not be read, or its status not be written",
                &["clean", "failing", "retrying", "aborted"],
            ),
            ignored_fields: register(
                registry,
                "ignored_fields",
                "Fields of the addon that cannot be used, by part; spec: unreadable, so its \
                 default is used; status: not stored by the API server",
            ),
        };
        metrics.set_ignored(0, false);
        metrics
    }

    /// Sets the number of unreadable fields of the spec, and if `status.rollouts` is not stored.
    pub(crate) fn set_ignored(&self, in_spec: usize, drops_rollouts: bool) {
        let set = |part: &'static str, count: usize| {
            let gauge = self.ignored_fields.get_or_create(&PartLabel { part });
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        };
        set("spec", in_spec);
        set("status", drops_rollouts.into());
    }

    pub(crate) fn reconciled(&self, result: ReconcileResult) {
        self.reconciles.inc(match result {
            ReconcileResult::Clean => "clean",
            ReconcileResult::Failing => "failing",
            ReconcileResult::Retrying => "retrying",
            ReconcileResult::Aborted => "aborted",
        });
    }
}

/// The result of a reconciliation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReconcileResult {
    /// Both collectors are as desired.
    Clean,
    /// A collector cannot be deployed as desired until an administrator acts.
    Failing,
    /// A request failed for a reason that may pass.
    Retrying,
    /// Nothing could be done.
    Aborted,
}

/// Metrics of the hub status controller. Clones share the series.
#[derive(Clone, Debug)]
pub(crate) struct HubStatusMetrics {
    pub(crate) leader: Gauge,
    pub(crate) written: Counter,
    pub(crate) failures: Counter,
    pub(crate) watch_failures: Counter,
    clusters: Gauge,
    failing_clusters: Gauge,
}

impl HubStatusMetrics {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let registry = registry.sub_registry_with_prefix(PREFIX);
        let registry = registry.sub_registry_with_prefix("hop");
        Self {
            leader: register(registry, "leader", LEADER_HELP),
            written: register(
                registry,
                "written",
                "ManagedClusterAddOns whose status was written",
            ),
            failures: register(
                registry,
                "failures",
                "Failed synchronizations of a cluster's ManagedClusterAddOn",
            ),
            watch_failures: register(
                registry,
                "watch_failures",
                "Failed watches of the clusters' addons",
            ),
            clusters: register(registry, "clusters", "Clusters that have an addon"),
            failing_clusters: register(
                registry,
                "failing_clusters",
                "Clusters whose last synchronization failed",
            ),
        }
    }

    pub(crate) fn set_clusters(&self, count: usize, failing: usize) {
        for (gauge, value) in [(&self.clusters, count), (&self.failing_clusters, failing)] {
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        }
    }
}
