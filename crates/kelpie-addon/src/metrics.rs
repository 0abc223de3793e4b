//! Metrics of the addon's controllers.

use kelpie_core::addon::{AddonStatus, StandardCondition};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

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

/// Registers all metrics of the addon, each with at least one series, so that the metrics reference
/// shows their labels.
pub fn register_metrics(registry: &mut Registry) {
    let _ = StatusMetrics::new(registry);
    let _ = OperatorMetrics::new(registry);
    let _ = HubStatusMetrics::new(registry);
}

/// Metrics of the status controller. Clones share the series.
#[derive(Clone, Debug)]
pub(crate) struct StatusMetrics {
    pub(crate) leader: Gauge,
    pub(crate) watch_failures: Counter,
    reconciles: Family<ResultLabel, Counter>,
    conditions: Family<ConditionTypeLabel, Gauge>,
    pub(crate) hub: HubMetrics,
}

/// Metrics of the replication to the hub. Clones share the series.
#[derive(Clone, Debug)]
pub(crate) struct HubMetrics {
    syncs: Family<ResultLabel, Counter>,
    current: Gauge,
}

impl StatusMetrics {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let registry = registry.sub_registry_with_prefix(PREFIX);
        let leader = Gauge::default();
        registry.register("leader", LEADER_HELP, leader.clone());
        let watch_failures = Counter::default();
        registry.register(
            "watch_failures",
            "Failed watches of the spoke's addon",
            watch_failures.clone(),
        );
        let reconciles = Family::<ResultLabel, Counter>::default();
        for result in ["changed", "unchanged", "failed"] {
            let _ = reconciles.get_or_create(&ResultLabel { result });
        }
        registry.register(
            "status_reconciles",
            "Reconciliations of the standard conditions, by the result of the write",
            reconciles.clone(),
        );
        let conditions = Family::<ConditionTypeLabel, Gauge>::default();
        for standard in StandardCondition::ALL {
            let _ = conditions.get_or_create(&ConditionTypeLabel {
                r#type: standard.condition_type(),
            });
        }
        registry.register(
            "condition",
            "1 for the standard condition that is True, 0 for the others",
            conditions.clone(),
        );
        Self {
            leader,
            watch_failures,
            reconciles,
            conditions,
            hub: HubMetrics::new(registry),
        }
    }

    pub(crate) fn reconciled<E>(&self, written: &Result<WriteOutcome, E>) {
        let result = match written {
            Ok(WriteOutcome::Changed) => "changed",
            Ok(WriteOutcome::Unchanged) => "unchanged",
            Err(_) => "failed",
        };
        self.reconciles.get_or_create(&ResultLabel { result }).inc();
    }

    pub(crate) fn set_condition(&self, status: Option<&AddonStatus>) {
        let current = status.and_then(AddonStatus::standard_condition);
        for standard in StandardCondition::ALL {
            let label = ConditionTypeLabel {
                r#type: standard.condition_type(),
            };
            let is_true = current == Some(standard);
            self.conditions.get_or_create(&label).set(is_true.into());
        }
    }
}

impl HubMetrics {
    fn new(registry: &mut Registry) -> Self {
        let syncs = Family::<ResultLabel, Counter>::default();
        for result in ["written", "equal", "missing", "going", "failed"] {
            let _ = syncs.get_or_create(&ResultLabel { result });
        }
        registry.register(
            "hub_syncs",
            "Synchronizations of the status to the hub, by result; missing: the hub has no such \
             addon; going: it is being deleted there",
            syncs.clone(),
        );
        let current = Gauge::default();
        registry.register(
            "hub_current",
            "1 if the hub had the spoke's status after the last synchronization, otherwise 0",
            current.clone(),
        );
        Self { syncs, current }
    }

    pub(crate) fn synced(&self, outcome: SyncOutcome) {
        let result = match outcome {
            SyncOutcome::Written => "written",
            SyncOutcome::Equal => "equal",
            SyncOutcome::Missing => "missing",
            SyncOutcome::Terminating => "going",
        };
        let is_current = matches!(outcome, SyncOutcome::Written | SyncOutcome::Equal);
        self.current.set(is_current.into());
        self.syncs.get_or_create(&ResultLabel { result }).inc();
    }

    pub(crate) fn sync_failed(&self) {
        let result = "failed";
        self.current.set(0);
        self.syncs.get_or_create(&ResultLabel { result }).inc();
    }
}

/// Metrics of the operator. Clones share the series.
#[derive(Clone, Debug)]
pub(crate) struct OperatorMetrics {
    pub(crate) leader: Gauge,
    reconciles: Family<ResultLabel, Counter>,
}

impl OperatorMetrics {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let registry = registry.sub_registry_with_prefix(PREFIX);
        let registry = registry.sub_registry_with_prefix("operator");
        let leader = Gauge::default();
        registry.register("leader", LEADER_HELP, leader.clone());
        let reconciles = Family::<ResultLabel, Counter>::default();
        for result in ["clean", "failing", "aborted"] {
            let _ = reconciles.get_or_create(&ResultLabel { result });
        }
        registry.register(
            "reconciles",
            "Reconciliations by result; failing: a collector could not be deployed as desired; \
             aborted: a request to the spoke failed",
            reconciles.clone(),
        );
        Self { leader, reconciles }
    }

    /// Counts a reconciliation. `None` means that it was aborted.
    pub(crate) fn reconciled(&self, is_clean: Option<bool>) {
        let result = match is_clean {
            Some(true) => "clean",
            Some(false) => "failing",
            None => "aborted",
        };
        self.reconciles.get_or_create(&ResultLabel { result }).inc();
    }
}

/// Metrics of the hub status controller. Clones share the series.
#[derive(Clone, Debug)]
pub(crate) struct HubStatusMetrics {
    pub(crate) leader: Gauge,
    pub(crate) written: Counter,
}

impl HubStatusMetrics {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let registry = registry.sub_registry_with_prefix(PREFIX);
        let registry = registry.sub_registry_with_prefix("hop");
        let leader = Gauge::default();
        registry.register("leader", LEADER_HELP, leader.clone());
        let written = Counter::default();
        registry.register(
            "written",
            "ManagedClusterAddOns whose status was written",
            written.clone(),
        );
        Self { leader, written }
    }
}
