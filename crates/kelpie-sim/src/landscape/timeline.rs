//! The timeline of faults.

use std::collections::{BTreeMap, BTreeSet};

use kelpie_config::scenario::Incident;
use kelpie_core::Time;

use super::LandscapePlan;

/// The scheduled and the active faults.
#[derive(Debug, Default)]
pub(super) struct FaultTimeline {
    incidents: Vec<Incident>,
    /// The changes to come: time, whether the fault begins, and its number. At the same instant,
    /// faults end before others begin.
    pending: BTreeSet<(Time, bool, usize)>,
    active: BTreeMap<usize, Incident>,
}

impl FaultTimeline {
    /// Schedules an incident, relative to `now`.
    pub(super) fn add(&mut self, incident: &Incident, now: Time) {
        let number = self.incidents.len();
        let at = now.after(incident.at);
        self.pending.insert((at, true, number));
        if let Some(lasts) = incident.lasts
            && !incident.fault.is_instant()
        {
            self.pending.insert((at.after(lasts), false, number));
        }
        self.incidents.push(incident.clone());
    }

    /// Returns the time of the next change.
    pub(super) fn next_change(&self) -> Option<Time> {
        self.pending.first().map(|(at, ..)| *at)
    }

    /// Returns the next change that is due by `now`: whether a fault begins, and its number.
    pub(super) fn pop_due(&mut self, now: Time) -> Option<(bool, usize, Incident)> {
        let (at, begins, number) = *self.pending.first()?;
        if at > now {
            return None;
        }
        self.pending.pop_first();
        let incident = self.incidents.get(number)?.clone();
        if !begins {
            self.active.remove(&number);
        } else if !incident.fault.is_instant() {
            self.active.insert(number, incident.clone());
        }
        Some((begins, number, incident))
    }

    /// Returns descriptions of the faults that are active in a cluster.
    pub(super) fn active_in(&self, cluster: usize, plan: &LandscapePlan) -> Vec<String> {
        let active = self.active.values().filter(|incident| {
            incident.fault.is_global()
                || plan.cluster_numbers(&incident.clusters).contains(&cluster)
        });
        active.map(|incident| incident.fault.to_string()).collect()
    }

    /// Returns whether no fault is active or scheduled.
    pub(super) fn is_finished(&self) -> bool {
        self.active.is_empty() && self.pending.is_empty()
    }
}
