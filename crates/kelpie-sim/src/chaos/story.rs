//! What is wrong with a run, for people.

use std::time::Duration;

use super::{Chaos, ChaosError, Subject};

/// Lines of the trace that are told, and how many of them came after what is wrong.
const LINES: usize = 60;
const AFTER: usize = 10;

impl Chaos {
    /// What is wrong with a run whose faults go on for `length`, with as few of them as it needs.
    pub fn story<S: Subject>(mut self, length: Duration) -> Result<String, ChaosError> {
        let mut outcome = self.endure::<S>()?;
        let all = self.scenario.incidents.len();
        let mut index = 0;
        while index < self.scenario.incidents.len() {
            let mut fewer = self.clone();
            fewer.scenario.incidents.remove(index);
            let without = fewer.endure::<S>()?;
            if without.wrong.is_empty() {
                index += 1;
            } else {
                (self, outcome) = (fewer, without);
            }
        }
        let trace = &outcome.trace;
        let first = outcome.wrong.first().map_or("", String::as_str);
        let place = trace
            .iter()
            .position(|line| first.contains(line.split(' ').next().unwrap_or("?")));
        let end = place.map_or(trace.len(), |place| (place + AFTER).min(trace.len()));
        let before = trace.get(end.saturating_sub(LINES)..end);
        let incidents = self.scenario.incidents.iter().map(ToString::to_string);
        let incidents: Vec<String> = incidents.collect();
        Ok(format!(
            "seed {seed} fails:\n  {}\nwith {} of its {all} faults:\n  {}\n{} nodes in each of {} clusters, {} \
             watchdogs\nthe trace before:\n  {}\n\
             replay it with: cargo xtask sim {} --seed {seed} --hours {}",
            outcome.wrong.join("\n  "),
            incidents.len(),
            incidents.join("\n  "),
            self.plan.nodes,
            self.plan.clusters,
            self.watchdogs,
            before.unwrap_or_default().join("\n  "),
            S::NAME,
            length.as_secs_f64() / 3_600.0,
            seed = self.plan.seed,
        ))
    }
}
