//! Decides again on what a prober recorded.
//!
//! A record has the inputs of each cluster's [`Evaluator`] in the order in which it took them. With
//! the settings of the recorded prober, the decisions are the same, byte for byte. With other
//! settings they are those that it would have made, had it looked at the same instants.

mod alternative;
mod assumed_fence;
mod round;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ProbeSettings;
use super::leases::{AcceptedList, Lease, ListSpan};
use super::nodes::{Machines, NodeSet};
use super::verdict::{Decision, Evaluator};
use crate::Time;
pub use alternative::Alternative;
pub use round::{RecordedLists, RecordedRound};

/// The state of an evaluator between two of its inputs.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EvaluatorState {
    /// The evaluator, without its settings.
    pub evaluator: Evaluator,
    /// The last list of leases that it took in.
    pub listed: Option<AcceptedList>,
}

/// One cluster of a record, whose decisions are made again.
#[derive(Debug)]
pub struct ClusterReplay {
    evaluator: Evaluator,
    listed: Option<AcceptedList>,
}

/// An input of an evaluator. [`ClusterReplay::observe`] takes all but the rounds.
#[derive(Debug)]
pub enum RecordedInput<L> {
    /// The cluster's own grace period; `None` stands for the configured one.
    Grace(Option<Duration>),
    /// The machines, and whether they are current.
    Machines(Option<Machines>, bool),
    /// A list of leases with its version.
    Leases(ListSpan, Option<u64>, L),
    /// A list of nodes and the instant of its request.
    Nodes(NodeSet, Time),
}

impl ClusterReplay {
    /// Continues a recorded state under these settings.
    pub fn new(state: EvaluatorState, settings: ProbeSettings) -> Self {
        Self {
            evaluator: state.evaluator.restored(settings),
            listed: state.listed,
        }
    }

    /// Takes in an input.
    pub fn observe<'a, L: IntoIterator<Item = Lease<'a>>>(&mut self, input: RecordedInput<L>) {
        let evaluator = &mut self.evaluator;
        match input {
            RecordedInput::Grace(own) => self.observe_grace(own),
            RecordedInput::Machines(machines, are_current) => {
                evaluator.observe_machines(machines.as_ref(), are_current);
            }
            RecordedInput::Leases(span, version, leases) => {
                self.listed = Some(evaluator.observe_leases(span, version, leases));
            }
            RecordedInput::Nodes(mut nodes, read_at) => {
                nodes.repair();
                evaluator.observe_nodes(nodes, read_at);
            }
        }
    }

    /// Sets the cluster's own grace period.
    fn observe_grace(&mut self, own: Option<Duration>) {
        self.evaluator.set_grace(own);
    }

    /// Decides on a round.
    pub fn decide(&mut self, round: &RecordedRound) -> Decision {
        let seen = round.observation(self.listed);
        self.evaluator.decide(&seen)
    }

    /// Returns the state, from which a replay may continue.
    pub fn state(&self) -> EvaluatorState {
        EvaluatorState {
            evaluator: self.evaluator.clone(),
            listed: self.listed,
        }
    }
}
