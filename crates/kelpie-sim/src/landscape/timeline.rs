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
        self.pending.insert((now.after(incident.at), true, number));
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
            // Scheduled only now: a fault of no duration ends after its own beginning.
            if let Some(lasts) = incident.lasts {
                self.pending.insert((at.after(lasts), false, number));
            }
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kelpie_config::scenario::{Fault, FaultSite};

    use super::*;

    const START: Time = Time::MIN;

    /// Returns the changes of these incidents, each as whether it begins, and its number.
    fn changes(incidents: &[Incident]) -> Vec<(bool, usize)> {
        let mut timeline = FaultTimeline::default();
        for incident in incidents {
            timeline.add(incident, START);
        }
        let mut changes = Vec::new();
        while let Some((begins, number, _)) = timeline.pop_due(START.after(Duration::from_mins(1)))
        {
            changes.push((begins, number));
        }
        assert!(timeline.is_finished());
        changes
    }

    #[test]
    fn fault_of_no_duration_begins_and_ends() {
        let (at, lasts) = (Duration::from_secs(1), Some(Duration::ZERO));
        let momentary = |fault| Incident::new(at, lasts, fault);
        let faults = [Fault::Crash, Fault::Pause, Fault::Outage(FaultSite::Seed)];
        let changes = changes(&faults.map(momentary));
        for number in 0..3 {
            let own = changes.iter().filter(|(_, other)| *other == number);
            let own: Vec<bool> = own.map(|(begins, _)| *begins).collect();
            assert_eq!(own, [true, false], "{changes:?}");
        }
    }

    #[test]
    fn faults_end_before_others_begin() {
        let second = Duration::from_secs(1);
        let later = Incident::new(second, Some(second), Fault::Pause);
        let earlier = Incident::new(Duration::ZERO, Some(second), Fault::Pause);
        let expected = [(true, 1), (false, 1), (true, 0), (false, 0)];
        assert_eq!(changes(&[later, earlier]), expected);
    }

    #[test]
    fn instant_fault_only_begins() {
        let rotation = Incident::new(Duration::ZERO, Some(Duration::ZERO), Fault::Rotation);
        assert_eq!(changes(&[rotation]), [(true, 0)]);
    }
}
