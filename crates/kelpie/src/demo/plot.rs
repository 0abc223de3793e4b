//! What is played: a fleet and what goes wrong in it.

use std::path::Path;

use anyhow::{Result, bail};
use kelpie_sim::Plan;
use kelpie_sim::scenario::{Clusters, Fault, Nodes, Scenario};

use crate::config_file;
use crate::printable::printable;

/// A fleet and a scenario.
pub(super) struct Plot {
    pub(super) plan: Plan,
    pub(super) scenario: Scenario,
}

impl Plot {
    /// A fault without a length lasts to the end of the scenario. Fails if one is about somebody whom
    /// the fleet does not have.
    pub(super) fn new(plan: Plan, mut scenario: Scenario) -> Result<Self> {
        for incident in &mut scenario.incidents {
            let rest = scenario.length.saturating_sub(incident.at);
            incident.lasts.get_or_insert(rest);
            if let Clusters::Numbers(numbers) = &incident.clusters
                && let Some(number) = numbers.iter().find(|number| **number >= plan.clusters)
            {
                bail!(
                    "the scenario's `{incident}` is about cluster {number}, and there are only {} (from 0; --clusters sets how many)",
                    plan.clusters
                );
            }
            if let Fault::Partition(Nodes::Zone(zone)) | Fault::NodeClock(Nodes::Zone(zone), _) =
                incident.fault
                && zone >= plan.zones
            {
                bail!(
                    "the scenario's `{incident}` is about zone {zone}, and there are only {} (from 0)",
                    plan.zones
                );
            }
        }
        Ok(Self { plan, scenario })
    }

    /// What is about to be seen, in two lines.
    pub(super) fn title(&self) -> [String; 2] {
        let Plan {
            seed,
            clusters,
            nodes,
            ..
        } = self.plan;
        let name = &self.scenario.name;
        [
            format!("kelpie demo: {name}, {clusters} clusters of {nodes} nodes, seed {seed}"),
            self.scenario.summary.clone(),
        ]
    }
}

/// The scenario of this name, or in this file.
pub(super) fn find(name: &str) -> Result<Scenario> {
    if let Some(scenario) = Scenario::built_in(name) {
        return Ok(scenario);
    }
    let path = Path::new(name);
    if name != "-" && !path.exists() {
        let names: Vec<_> = Scenario::built_in_names().collect();
        bail!(
            "there is no scenario `{}`, and no such file; name one of {}, or a file as in docs/scenarios.md",
            printable(name),
            names.join(", ")
        );
    }
    let scenario = config_file::scenario(path)?;
    let called = match &*scenario.name {
        "" => name,
        called => called,
    };
    Ok(Scenario {
        name: printable(called),
        summary: printable(&scenario.summary),
        ..scenario
    })
}
