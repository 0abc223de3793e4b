//! Scenarios: what goes wrong, and when.

mod built_in;

use std::time::Duration;

use crate::fault::{Clusters, Fault};

/// A timeline of faults.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scenario {
    /// What it is called.
    pub name: String,
    /// What it shows, in a sentence.
    pub summary: String,
    /// How long it goes on, from its beginning.
    pub length: Duration,
    /// What happens, in any order.
    pub incidents: Vec<Incident>,
}

/// A fault with its time and place.
#[derive(Clone, Debug, PartialEq)]
pub struct Incident {
    /// From the beginning of the scenario.
    pub at: Duration,
    /// How long it lasts; `None`: to the end. What is done at once has no length.
    pub lasts: Option<Duration>,
    /// Where.
    pub clusters: Clusters,
    /// What.
    pub fault: Fault,
}

impl Incident {
    /// A fault of all clusters.
    pub fn new(at: Duration, lasts: Option<Duration>, fault: Fault) -> Self {
        Self {
            at,
            lasts,
            clusters: Clusters::All,
            fault,
        }
    }

    /// The same of only these clusters.
    #[must_use]
    pub fn of(mut self, clusters: Clusters) -> Self {
        self.clusters = clusters;
        self
    }
}

impl std::fmt::Display for Incident {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "at {:?}", self.at)?;
        if !self.fault.is_everywhere() {
            match &self.clusters {
                Clusters::All => f.write_str(" in all clusters")?,
                Clusters::Share(share) => write!(f, " in {share} of the clusters")?,
                Clusters::Numbers(numbers) => write!(f, " in clusters {numbers:?}")?,
            }
        }
        write!(f, ": {}", self.fault)?;
        match self.lasts {
            Some(lasts) if !self.fault.is_deed() => write!(f, " for {lasts:?}"),
            _ => Ok(()),
        }
    }
}
