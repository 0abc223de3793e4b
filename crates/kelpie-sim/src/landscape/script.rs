//! Which faults are to come, and which are there.

use std::collections::{BTreeMap, BTreeSet};

use kelpie_config::scenario::Incident;
use kelpie_core::Time;

use crate::fault::numbers;

/// The timeline of faults.
#[derive(Debug, Default)]
pub(super) struct Script {
    incidents: Vec<Incident>,
    /// At the same instant, ends come before beginnings.
    due: BTreeSet<(Time, bool, usize)>,
    active: BTreeMap<usize, Incident>,
}

/// What is to be done.
#[derive(Debug)]
pub(super) enum Due {
    Begin(usize, Incident),
    End(usize, Incident),
}

impl Script {
    /// Adds an incident, counted from `now`.
    pub(super) fn add(&mut self, incident: &Incident, now: Time) {
        let number = self.incidents.len();
        let at = now.after(incident.at);
        self.due.insert((at, true, number));
        if let Some(lasts) = incident.lasts
            && !incident.fault.is_deed()
        {
            self.due.insert((at.after(lasts), false, number));
        }
        self.incidents.push(incident.clone());
    }

    /// When something is next to be done.
    pub(super) fn next(&self) -> Option<Time> {
        self.due.first().map(|(at, ..)| *at)
    }

    /// The next thing that is to be done by now.
    pub(super) fn due(&mut self, now: Time) -> Option<Due> {
        let (at, begins, number) = *self.due.first()?;
        if at > now {
            return None;
        }
        self.due.pop_first();
        let incident = self.incidents.get(number)?.clone();
        if !begins {
            self.active.remove(&number);
            return Some(Due::End(number, incident));
        }
        if !incident.fault.is_deed() {
            self.active.insert(number, incident.clone());
        }
        Some(Due::Begin(number, incident))
    }

    /// The faults that a cluster has now, in words.
    pub(super) fn active_in(&self, cluster: usize, clusters: usize) -> Vec<String> {
        let there = self.active.values().filter(|incident| {
            incident.fault.is_everywhere()
                || numbers(&incident.clusters, clusters).contains(&cluster)
        });
        there.map(|incident| incident.fault.to_string()).collect()
    }

    /// Nothing is there, and nothing is to come.
    pub(super) fn is_quiet(&self) -> bool {
        self.active.is_empty() && self.due.is_empty()
    }
}
