//! What an auditor looks into.

use kelpie_config::scenario::{Incident, Nodes};
use kelpie_core::Time;

use super::Chaos;
use super::crew::holder;
use crate::fault::{is_meant, numbers};
use crate::landscape::Landscape;

/// A landscape, what is to go wrong there, and what was found to be as it must not be.
#[derive(Debug)]
pub struct Case {
    /// The landscape as it is.
    pub landscape: Landscape,
    /// What is to go wrong there.
    pub chaos: Chaos,
    /// When it began.
    pub start: Time,
    pub(super) wrong: Vec<String>,
    lease: &'static str,
}

impl Case {
    pub(super) fn new(landscape: &Landscape, chaos: &Chaos, lease: &'static str) -> Self {
        Self {
            landscape: landscape.clone(),
            chaos: chaos.clone(),
            start: landscape.now(),
            wrong: Vec::new(),
            lease,
        }
    }

    /// Something is as it must not be.
    pub fn complain(&mut self, at: Time, text: &str) {
        let seconds = at.since(self.start).as_secs_f64();
        self.wrong.push(format!("{seconds:.3}s ({at}) {text}"));
    }

    /// Whether this replica may act now: it is alone, or the Lease names it.
    pub fn may_act(&self, replica: &str) -> bool {
        self.chaos.watchdogs < 2 || holder(&self.landscape, self.lease).as_deref() == Some(replica)
    }

    /// When an incident begins and ends.
    pub fn times(&self, incident: &Incident) -> (Time, Time) {
        let begin = self.start.after(incident.at);
        (begin, begin.after(incident.lasts.unwrap_or_default()))
    }

    /// Whether an incident is about this cluster, if it is about any.
    pub fn is_in(&self, incident: &Incident, cluster: &str) -> bool {
        let plan = &self.chaos.plan;
        let meant = numbers(&incident.clusters, plan.clusters);
        meant
            .into_iter()
            .any(|number| plan.cluster_name(number) == cluster)
    }

    /// How many nodes of a cluster are meant.
    pub fn nodes_in(&self, nodes: Nodes) -> usize {
        let plan = &self.chaos.plan;
        let is_meant =
            |number: &usize| is_meant(nodes, (*number, number % plan.zones.max(1)), plan.nodes);
        (0..plan.nodes).filter(is_meant).count()
    }
}
