//! An evaluator whose inputs and decisions are recorded.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use kelpie_core::Time;
use kelpie_core::prober::replay::{EvaluatorState, RecordedRound};
use kelpie_core::prober::{
    AcceptedList, Decision, Evaluator, ListSpan, Machines, NodeSet, Observation,
};
use kelpie_kube::lists::LeaseList;

use super::queue::{ClusterRecorder, Entry};

/// An [`Evaluator`] that can be changed only by inputs that are recorded, if there is a recorder.
#[derive(Debug)]
pub(crate) struct RecordedEvaluator {
    evaluator: Evaluator,
    listed: Option<AcceptedList>,
    recorder: Option<ClusterRecorder>,
}

impl RecordedEvaluator {
    pub(crate) fn new(evaluator: Evaluator, recorder: Option<ClusterRecorder>) -> Self {
        Self {
            evaluator,
            listed: None,
            recorder,
        }
    }

    /// Sets the cluster's own grace period.
    pub(crate) fn set_grace(&mut self, own: Option<Duration>) {
        if self.evaluator.own_grace() == own {
            return;
        }
        self.before_input();
        self.evaluator.set_grace(own);
        self.record(|| Entry::Grace(own));
    }

    /// Takes in the machines.
    pub(crate) fn observe_machines(&mut self, machines: Option<&Arc<Machines>>, current: bool) {
        self.before_input();
        let all = machines.map(Arc::as_ref);
        self.evaluator.observe_machines(all, current);
        self.record(|| Entry::Machines(machines.cloned(), current));
    }

    /// Takes in a list of leases.
    pub(crate) fn observe_leases(
        &mut self,
        span: ListSpan,
        version: Option<u64>,
        leases: LeaseList,
    ) -> AcceptedList {
        self.before_input();
        let listed = self.evaluator.observe_leases(span, version, leases.iter());
        self.listed = Some(listed);
        self.record(|| Entry::Leases(span, version, leases));
        listed
    }

    /// Takes in a list of nodes.
    pub(crate) fn observe_nodes(&mut self, nodes: NodeSet, read_at: Time) {
        self.before_input();
        let recorded = self.recorder.as_ref().map(|_| nodes.clone());
        self.evaluator.observe_nodes(nodes, read_at);
        if let Some(nodes) = recorded {
            self.record(|| Entry::Nodes(nodes, read_at));
        }
    }

    /// Decides on the observation of a round. A list of the round is the last one that was taken
    /// in.
    pub(crate) fn decide(&mut self, seen: &Observation) -> Decision {
        self.before_input();
        let decision = self.evaluator.decide(seen);
        self.record(|| Entry::Round(Box::new((RecordedRound::new(seen), decision))));
        decision
    }

    fn before_input(&mut self) {
        if let Some(recorder) = &mut self.recorder {
            let (evaluator, listed) = (&self.evaluator, self.listed);
            recorder.before_input(|| EvaluatorState {
                evaluator: evaluator.clone(),
                listed,
            });
        }
    }

    fn record(&mut self, entry: impl FnOnce() -> Entry) {
        if let Some(recorder) = &mut self.recorder {
            recorder.input(entry());
        }
    }
}

/// Reads need no record.
impl Deref for RecordedEvaluator {
    type Target = Evaluator;

    fn deref(&self) -> &Evaluator {
        &self.evaluator
    }
}
