//! The story of a cluster: what happened to it, for the state page.

use std::mem;
use std::time::Duration;

use kelpie_core::Time;
use kelpie_core::prober::fence::{Call, Step};
use kelpie_core::prober::overview::{ClusterOrigin, NodeList, TransitionKind};
use kelpie_core::prober::{Decision, FenceState, Verdict};

use super::ProbeReporter;
use crate::state_page::{ProbeTerms, is_notable};
use crate::subsystem::Subsystem;

/// The terms on which the story of a cluster depends.
#[derive(Debug, Default)]
pub(super) struct StoryTerms {
    is_dry_run: bool,
    /// Another client has undone the current fence, as told last.
    is_undone: bool,
    /// The grace period of the cluster.
    grace: Duration,
}

impl ProbeReporter {
    /// Sets what the condition of the cluster depends on and does not change often.
    pub(crate) fn set_terms(&mut self, is_dry_run: bool, grace: Duration) {
        self.story.is_dry_run = is_dry_run;
        self.story.grace = grace;
    }

    /// Judges the condition of the cluster again.
    pub(super) fn judge(&self, fence: FenceState, now: Time) {
        let fenced_since = self.fenced_since;
        self.state.update(|state| {
            state.fence = Some(fence);
            state.fenced_since = fenced_since;
        });
        let mut failing = self.problems.iter().map(|(subsystem, _)| *subsystem);
        let terms = ProbeTerms {
            is_unfenced: self.unfenced_since.is_some(),
            has_access: !failing.any(|subsystem| subsystem == Subsystem::Kubeconfig),
            has_targets: !self.targets.is_empty(),
            is_dry_run: self.story.is_dry_run,
        };
        self.state.judge(terms, self.story.grace, now);
    }

    /// Tells a new verdict or rule. A cluster that is well from the start has no story.
    pub(super) fn tell_verdict(
        &self,
        decision: &Decision,
        fence: FenceState,
        before: Option<Verdict>,
    ) {
        let (at, rule) = (decision.at, decision.reasons.rule);
        let text = decision.reasons.to_string();
        let is_fenced = matches!(fence, FenceState::Partial | FenceState::Full);
        match decision.verdict {
            Verdict::Fence if before == Some(Verdict::Fence) => {
                self.state
                    .tell(|story| story.push(at, TransitionKind::Hold, &text));
            }
            Verdict::Fence => {
                self.state
                    .tell(|story| story.push(at, TransitionKind::Trip, &text));
            }
            Verdict::Release if is_fenced => {
                self.state
                    .tell(|story| story.push(at, TransitionKind::Release, &text));
            }
            Verdict::Hold | Verdict::Release if is_notable(rule) => {
                self.state
                    .tell(|story| story.push(at, TransitionKind::Hold, &text));
            }
            Verdict::Hold | Verdict::Release => {
                self.state
                    .tell_more(|story| story.push(at, TransitionKind::Recovery, &text));
            }
        }
    }

    pub(super) fn tell(&self, at: Time, kind: TransitionKind, text: &str) {
        self.state.tell(|story| story.push(at, kind, text));
    }

    /// Tells a problem of a subsystem, or its end.
    pub(super) fn tell_trouble(&self, kind: TransitionKind, text: &str) {
        self.tell(self.metrics.now(), kind, text);
    }

    /// Tells a call of a flow that is about to be sent.
    pub(super) fn tell_call(&self, step: &Step) {
        let verb = match &step.call {
            Call::Read => "reading",
            Call::WriteRecord(_) => "recording the setting of",
            Call::Fence(_) => "fencing",
            Call::Restore(_) => "restoring",
            Call::DropMarker(_) => "removing the marker of",
            Call::KeepRecord(_) => "keeping on the leader Lease the record of",
            Call::MoveRecord(_) => "marking",
            Call::DropRecord(_) => "dropping from the leader Lease the record of",
        };
        let target = &self.targets[step.target.0].resource;
        let now = self.metrics.now();
        self.tell(now, TransitionKind::Call, &format!("{verb} {target}"));
    }

    /// Tells that another client has undone the fence, once until the prober has seen to it.
    pub(crate) fn undone(&mut self, is_undone: bool, now: Time) {
        if !mem::replace(&mut self.story.is_undone, is_undone) && is_undone {
            let text = "another client has started a stopped controller";
            self.tell(now, TransitionKind::Undo, text);
        }
    }

    /// Tells that this replica began or ceased to act, if the cluster has a story.
    pub(crate) fn role_changed(&self, acts: bool, now: Time) {
        let text = if acts {
            "this replica became leader"
        } else {
            "this replica is not the leader any more"
        };
        self.state
            .tell_more(|story| story.push(now, TransitionKind::Role, text));
    }

    /// Returns a future that ends when a page wants a list of the nodes.
    pub(crate) fn nodes_wanted(&self) -> impl Future<Output = ()> + Send + use<> {
        self.state.nodes_wanted()
    }

    pub(crate) fn show_nodes(&self, nodes: NodeList) {
        self.state.show_nodes(nodes);
    }

    /// Returns whether the place of a fenced cluster is still to be told.
    pub(crate) fn lacks_origin(&self) -> bool {
        self.fenced_since.is_some() && self.state.lacks_origin()
    }

    pub(crate) fn set_origin(&self, origin: ClusterOrigin) {
        self.state.tell_more(|story| story.origin = Some(origin));
    }
}
