//! Reports on runs that failed.

use std::time::Duration;

use crate::{ChaosError, ChaosRun, Subject};

/// The lines of the trace in a report, and how many of them follow the violation.
const TRACE_LINES: usize = 60;
const LINES_AFTER: usize = 10;

impl ChaosRun {
    /// Describes the violations of a run whose faults last for `length`, with a minimal set of
    /// faults that still causes one.
    pub fn failure_report<S: Subject>(mut self, length: Duration) -> Result<String, ChaosError> {
        let mut outcome = self.run::<S>()?;
        let all = self.scenario.incidents.len();
        let mut index = 0;
        while index < self.scenario.incidents.len() {
            let mut fewer = self.clone();
            fewer.scenario.incidents.remove(index);
            let without = fewer.run::<S>()?;
            if without.violations.is_empty() {
                index += 1;
            } else {
                (self, outcome) = (fewer, without);
            }
        }
        let trace = &outcome.trace;
        let first = outcome.violations.first().map_or("", String::as_str);
        let position = trace
            .iter()
            .position(|line| first.contains(line.split(' ').next().unwrap_or("?")));
        let end = position.map_or(trace.len(), |position| {
            (position + LINES_AFTER).min(trace.len())
        });
        let before = trace.get(end.saturating_sub(TRACE_LINES)..end);
        let incidents = self.scenario.incidents.iter().map(ToString::to_string);
        let incidents: Vec<String> = incidents.collect();
        Ok(format!(
            "run {run_number} failed:\n  {}\n\
             with {} of its {all} faults:\n  {}\n\
             {} nodes in each of {} clusters, {} watchdogs\n\
             trace up to the violation:\n  {}\n\
             replay with: cargo xtask sim {} --seed {run_number} --hours {}",
            outcome.violations.join("\n  "),
            incidents.len(),
            incidents.join("\n  "),
            self.plan.nodes,
            self.plan.clusters,
            self.watchdogs,
            before.unwrap_or_default().join("\n  "),
            S::NAME,
            length.as_secs_f64() / 3_600.0,
            run_number = self.plan.rng_seed,
        ))
    }
}
