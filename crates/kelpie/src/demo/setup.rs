//! The simulated clusters and the scenario of a demo.

use std::path::Path;

use anyhow::{Result, bail};
use kelpie_sim::scenario::{ClusterSelection, Fault, NodeSelection, Scenario};
use kelpie_sim::{LandscapePlan, Platform};

use super::watchdog::Protection;
use crate::cli::Invocation;
use crate::config_file;
use crate::printable::printable;

/// The simulated clusters and a scenario that fits them.
pub(super) struct DemoSetup {
    pub(super) plan: LandscapePlan,
    pub(super) scenario: Scenario,
    /// The number of replicas of the prober and of the weeder.
    pub(super) replicas: u16,
    pub(super) protection: Protection,
}

impl DemoSetup {
    /// Gives every incident a duration: one without lasts until the end of the scenario. Fails if
    /// an incident names a cluster or a zone that the plan does not have. `replicas` overrides the
    /// scenario's own number.
    pub(super) fn new(
        plan: LandscapePlan,
        mut scenario: Scenario,
        replicas: Option<u16>,
        protection: Protection,
    ) -> Result<Self> {
        for incident in &mut scenario.incidents {
            let rest = scenario.length.saturating_sub(incident.at);
            incident.lasts.get_or_insert(rest);
            if let ClusterSelection::Numbers(numbers) = &incident.clusters
                && let Some(number) = numbers.iter().find(|number| **number >= plan.clusters)
            {
                bail!(
                    "incident `{incident}`: there is no cluster {number}; the {} clusters are \
                     numbered from 0, and --clusters sets their number",
                    plan.clusters
                );
            }
            if let Fault::Partition(NodeSelection::Zone(zone))
            | Fault::NodeClock(NodeSelection::Zone(zone), _) = incident.fault
                && zone >= LandscapePlan::ZONES
            {
                bail!(
                    "incident `{incident}`: there is no zone {zone}; the {} zones are numbered \
                     from 0",
                    LandscapePlan::ZONES
                );
            }
        }
        Ok(Self {
            replicas: replicas.or(scenario.replicas).unwrap_or(1),
            plan,
            scenario,
            protection,
        })
    }

    /// Returns the lines at the top of the output: the setup, the scenario's summary, and the
    /// meaning of "deadline".
    pub(super) fn header(&self) -> [String; 3] {
        let LandscapePlan {
            rng_seed,
            clusters,
            nodes,
            ..
        } = self.plan;
        let name = &self.scenario.name;
        let replicas = match self.replicas {
            1 => String::new(),
            count => format!(", {count} replicas"),
        };
        let guarded = match self.protection {
            Protection::Fence => "",
            Protection::Guard => ", guarded",
        };
        let platform = match self.plan.platform {
            Platform::Gardener => "",
            Platform::ClusterApi => "Cluster API ",
        };
        [
            format!(
                "kelpie demo: {name}, {clusters} {platform}clusters of {nodes} nodes{guarded}{replicas}, \
                 random seed {rng_seed}"
            ),
            self.scenario.summary.clone(),
            "deadline: the instant at which a cluster's first node can turn Unknown".to_owned(),
        ]
    }
}

/// Returns the built-in scenario of this name, or else the one in this file.
pub(super) fn find_scenario(name: &str) -> Result<Scenario> {
    if let Some(scenario) = Scenario::built_in(name) {
        return Ok(scenario);
    }
    let path = Path::new(name);
    if name != "-" && !path.exists() {
        let names: Vec<_> = Scenario::built_in_names().collect();
        bail!(
            "there is no scenario and no file `{}`; use one of {}, or a file as described in \
             docs/reference/scenarios.md",
            printable(name),
            names.join(", ")
        );
    }
    let parse = |bytes: &[u8], _| Scenario::parse(bytes);
    let scenario = config_file::load(path, Invocation::Kelpie, parse)?;
    let title = match &*scenario.name {
        "" => name,
        title => title,
    };
    Ok(Scenario {
        name: printable(title),
        summary: printable(&scenario.summary),
        ..scenario
    })
}
