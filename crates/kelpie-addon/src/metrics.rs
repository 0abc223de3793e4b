//! The numbers of the addon's controllers.

use kelpie_core::addon::{Standard, Status};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::hub::Round;
use crate::writer::Written;

/// Every name begins with this.
const PREFIX: &str = "kelpie_addon";

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TypeLabel {
    r#type: &'static str,
}

/// Registers all families of the addon, with at least one series in each, so that their labels show.
pub fn exhibit(registry: &mut Registry) {
    let _ = StatusMetrics::new(registry);
    let _ = OperatorMetrics::new(registry);
    let _ = HopMetrics::new(registry);
}

/// Of the status controller. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct StatusMetrics {
    pub(crate) leader: Gauge,
    pub(crate) watch_failures: Counter,
    settled: Family<ResultLabel, Counter>,
    standing: Family<TypeLabel, Gauge>,
    pub(crate) hub: HubMetrics,
}

/// Of the replication. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct HubMetrics {
    rounds: Family<ResultLabel, Counter>,
    current: Gauge,
}

impl StatusMetrics {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let registry = registry.sub_registry_with_prefix(PREFIX);
        let leader = Gauge::default();
        registry.register("leader", "1 while this replica acts", leader.clone());
        let watch_failures = Counter::default();
        registry.register(
            "watch_failures",
            "Watches of the spoke that broke off",
            watch_failures.clone(),
        );
        let settled = Family::<ResultLabel, Counter>::default();
        for result in ["changed", "unchanged", "failed"] {
            let _ = settled.get_or_create(&ResultLabel { result });
        }
        registry.register(
            "settled",
            "Looks at the components' conditions, by what became of the standard ones",
            settled.clone(),
        );
        let standing = Family::<TypeLabel, Gauge>::default();
        for standard in Standard::ALL {
            let _ = standing.get_or_create(&TypeLabel {
                r#type: standard.condition(),
            });
        }
        registry.register(
            "condition",
            "1 for the standard condition that holds",
            standing.clone(),
        );
        Self {
            leader,
            watch_failures,
            settled,
            standing,
            hub: HubMetrics::new(registry),
        }
    }

    pub(crate) fn settled<E>(&self, written: &Result<Written, E>) {
        let result = match written {
            Ok(Written::Changed) => "changed",
            Ok(Written::Unchanged) => "unchanged",
            Err(_) => "failed",
        };
        self.settled.get_or_create(&ResultLabel { result }).inc();
    }

    pub(crate) fn show(&self, status: Option<&Status>) {
        let standing = status.and_then(Status::standing);
        for standard in Standard::ALL {
            let label = TypeLabel {
                r#type: standard.condition(),
            };
            let holds = standing == Some(standard);
            self.standing.get_or_create(&label).set(holds.into());
        }
    }
}

impl HubMetrics {
    fn new(registry: &mut Registry) -> Self {
        let rounds = Family::<ResultLabel, Counter>::default();
        for result in ["written", "equal", "missing", "going", "failed"] {
            let _ = rounds.get_or_create(&ResultLabel { result });
        }
        registry.register("hub_rounds", "Looks at the hub, by result", rounds.clone());
        let current = Gauge::default();
        registry.register(
            "hub_current",
            "1 if the hub had the status of the spoke when it was last looked at",
            current.clone(),
        );
        Self { rounds, current }
    }

    pub(crate) fn rounds(&self, round: Round) {
        let result = match round {
            Round::Written => "written",
            Round::Equal => "equal",
            Round::Missing => "missing",
            Round::Going => "going",
        };
        let is_current = matches!(round, Round::Written | Round::Equal);
        self.current.set(is_current.into());
        self.rounds.get_or_create(&ResultLabel { result }).inc();
    }

    pub(crate) fn failed(&self) {
        let result = "failed";
        self.current.set(0);
        self.rounds.get_or_create(&ResultLabel { result }).inc();
    }
}

/// Of the operator. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct OperatorMetrics {
    pub(crate) leader: Gauge,
    passes: Family<ResultLabel, Counter>,
}

impl OperatorMetrics {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let registry = registry.sub_registry_with_prefix(PREFIX);
        let registry = registry.sub_registry_with_prefix("operator");
        let leader = Gauge::default();
        registry.register("leader", "1 while this replica acts", leader.clone());
        let passes = Family::<ResultLabel, Counter>::default();
        for result in ["clean", "failing", "aborted"] {
            let _ = passes.get_or_create(&ResultLabel { result });
        }
        registry.register(
            "passes",
            "Passes over everything; failing: a collector is not as it should be; aborted: the \
             spoke did not answer",
            passes.clone(),
        );
        Self { leader, passes }
    }

    /// `None`: the pass could not be made.
    pub(crate) fn passed(&self, clean: Option<bool>) {
        let result = match clean {
            Some(true) => "clean",
            Some(false) => "failing",
            None => "aborted",
        };
        self.passes.get_or_create(&ResultLabel { result }).inc();
    }
}

/// Of the hop on the hub. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct HopMetrics {
    pub(crate) leader: Gauge,
    pub(crate) written: Counter,
}

impl HopMetrics {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let registry = registry.sub_registry_with_prefix(PREFIX);
        let registry = registry.sub_registry_with_prefix("hop");
        let leader = Gauge::default();
        registry.register("leader", "1 while this replica acts", leader.clone());
        let written = Counter::default();
        registry.register(
            "written",
            "ManagedClusterAddOns that were written",
            written.clone(),
        );
        Self { leader, written }
    }
}
