//! The information that an auditor works with.

use kelpie_core::Time;
use kelpie_sim::Landscape;
use kelpie_sim::scenario::{Fault, Incident, NodeSelection};

use crate::{ChaosRun, FaultPeriod};

/// A landscape, its scheduled faults, and the violations found so far.
#[derive(Debug)]
pub struct AuditContext {
    /// The landscape under audit.
    pub landscape: Landscape,
    /// The run's plan and faults.
    pub chaos: ChaosRun,
    /// The landscape's time at the start of the run.
    pub start: Time,
    pub(crate) violations: Vec<String>,
    lease: &'static str,
}

impl AuditContext {
    pub(crate) fn new(landscape: &Landscape, chaos: &ChaosRun, lease: &'static str) -> Self {
        Self {
            landscape: landscape.clone(),
            chaos: chaos.clone(),
            start: landscape.now(),
            violations: Vec::new(),
            lease,
        }
    }

    /// Reports a violated invariant.
    pub fn report_violation(&mut self, at: Time, text: &str) {
        let seconds = at.since(self.start).as_secs_f64();
        self.violations.push(format!("{seconds:.3}s ({at}) {text}"));
    }

    /// Returns whether a replica may act now: it is the only one, or it holds the Lease.
    pub fn may_act(&self, replica: &str) -> bool {
        self.chaos.watchdogs < 2
            || self.landscape.lease_holder(self.lease).as_deref() == Some(replica)
    }

    /// Returns when an incident begins and ends.
    pub fn period(&self, incident: &Incident) -> (Time, Time) {
        let begin = self.start.after(incident.at);
        (begin, begin.after(incident.lasts.unwrap_or_default()))
    }

    /// Returns whether an incident affects this cluster.
    pub fn affects(&self, incident: &Incident, cluster: &str) -> bool {
        let plan = &self.chaos.plan;
        let affected = plan.cluster_numbers(&incident.clusters).into_iter();
        affected
            .map(|number| plan.cluster_name(number))
            .any(|name| name == cluster)
    }

    /// Returns the faults that affect a cluster, the seed or the watchdog, apart from partitions.
    pub fn other_faults(&self, cluster: &str) -> Vec<FaultPeriod> {
        let incidents = self.chaos.scenario.incidents.iter().filter(|incident| {
            !matches!(incident.fault, Fault::Partition(_))
                && (incident.fault.is_global() || self.affects(incident, cluster))
        });
        let period = |incident: &Incident| {
            let (begin, end) = self.period(incident);
            let end = incident.lasts.map_or(Time::MAX, |_| end);
            FaultPeriod {
                begin,
                end,
                incident: incident.clone(),
            }
        };
        incidents.map(period).collect()
    }

    /// Returns how many nodes of a cluster are selected.
    pub fn count_nodes(&self, nodes: NodeSelection) -> usize {
        let plan = &self.chaos.plan;
        (0..plan.nodes)
            .filter(|number| plan.selects_node(nodes, *number))
            .count()
    }
}
