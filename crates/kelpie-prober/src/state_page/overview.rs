//! The view of one cluster that an operator gets beside its raw state.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use kelpie_core::Time;
use kelpie_core::prober::FenceState;
use kelpie_core::prober::fence::Observed;
use kelpie_core::prober::guard::GuardState;
use kelpie_core::prober::overview::{
    ClusterCondition, ClusterFacts, ClusterOrigin, ClusterSummary, History, LastFence, NodeCounts,
    NodeList, SummaryContext, TransitionKind,
};
use kelpie_core::prober::{Rule, Verdict};

use super::ClusterState;

/// A list of nodes is dropped after this time, unless a page asks for it again.
const NODES_KEPT: Duration = Duration::from_mins(1);

/// The condition of a cluster, and what happened to it. Where nothing happened, it takes next to no
/// memory.
#[derive(Debug)]
pub(super) struct Overview {
    pub(super) condition: ClusterCondition,
    pub(super) since: Time,
    terms: ProbeTerms,
    restoring_since: Option<Time>,
    counts: NodeCounts,
    /// Allocated when something happens.
    story: Option<Box<Story>>,
    /// The nodes, while a page asks for them.
    pub(super) nodes: Option<Arc<NodeList>>,
}

/// The means of the probe of a cluster. They are set with each judgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts about one probe"
)]
pub(crate) struct ProbeTerms {
    /// A fence is wanted, and a target that the deadline is about still runs.
    pub(crate) is_unfenced: bool,
    /// There are credentials that can be used.
    pub(crate) has_access: bool,
    /// Targets are configured.
    pub(crate) has_targets: bool,
    /// The replica writes nothing.
    pub(crate) is_dry_run: bool,
}

/// The events of a cluster.
#[derive(Debug, Default)]
pub(crate) struct Story {
    pub(crate) history: History,
    pub(crate) last_fence: Option<LastFence>,
    pub(crate) origin: Option<ClusterOrigin>,
}

impl Default for Overview {
    fn default() -> Self {
        Self {
            condition: ClusterCondition::Starting,
            since: Time::MIN,
            terms: ProbeTerms::default(),
            restoring_since: None,
            counts: NodeCounts::default(),
            story: None,
            nodes: None,
        }
    }
}

impl Overview {
    /// Judges the condition again. Returns the one before if it is another.
    pub(super) fn judge(
        &mut self,
        state: &ClusterState,
        terms: ProbeTerms,
        now: Time,
    ) -> Option<ClusterCondition> {
        self.terms = terms;
        let counts = state.decision.as_ref();
        if let Some(counts) = counts.and_then(|it| it.reasons.leases.as_ref()) {
            self.counts = counts.into();
        }
        let verdict = state.decision.map(|decision| decision.verdict);
        let is_fenced = matches!(state.fence, Some(FenceState::Partial | FenceState::Full));
        let is_restoring = is_fenced && verdict == Some(Verdict::Release);
        self.restoring_since = is_restoring.then(|| self.restoring_since.unwrap_or(now));
        if !is_fenced
            && let Some(story) = &mut self.story
            && let Some(fence) = &mut story.last_fence
            && fence.fenced_at.is_some()
            && verdict == Some(Verdict::Release)
        {
            fence.end.get_or_insert(now);
        }
        let is_old = |nodes: &Arc<NodeList>| now.since(nodes.at) > NODES_KEPT;
        self.nodes.take_if(|nodes| is_old(nodes));
        let condition = ClusterCondition::of(&self.facts(state), now);
        if self.since == Time::MIN {
            self.since = now;
        }
        if condition == self.condition {
            return None;
        }
        self.since = now;
        Some(mem::replace(&mut self.condition, condition))
    }

    fn facts<'s>(&self, state: &'s ClusterState) -> ClusterFacts<'s> {
        let existing = state.targets.iter().filter_map(|it| match &it.observed {
            Some(Observed::Present(object)) => Some(object.ignored),
            Some(Observed::Missing) | None => None,
        });
        let mut existing = existing.peekable();
        let ProbeTerms {
            is_unfenced,
            has_access,
            has_targets,
            is_dry_run,
        } = self.terms;
        ClusterFacts {
            decision: state.decision.as_ref(),
            fence: state.fence,
            is_unfenced,
            restoring_since: self.restoring_since,
            has_targets,
            is_ignored: existing.peek().is_some() && existing.all(|is_ignored| is_ignored),
            is_guarded: matches!(state.guard, Some(GuardState::Armed { .. })),
            has_access,
            has_problems: !state.problems.is_empty(),
            is_dry_run,
        }
    }

    /// Passes what the cluster is described by.
    pub(super) fn describe<R>(
        &self,
        id: &str,
        state: &ClusterState,
        describe: impl FnOnce(&SummaryContext<'_>) -> R,
    ) -> R {
        describe(&SummaryContext {
            id,
            facts: self.facts(state),
            nodes: self.counts,
            condition: self.condition,
            since: self.since,
            last_fence: self.story().and_then(|story| story.last_fence.as_ref()),
            problem: state.problems.first().map(String::as_str),
        })
    }

    pub(super) fn summary(&self, id: &str, state: &ClusterState) -> ClusterSummary {
        self.describe(id, state, ClusterSummary::new)
    }

    pub(super) fn story(&self) -> Option<&Story> {
        self.story.as_deref()
    }

    /// Returns what happened to the cluster, to add to it.
    pub(super) fn story_mut(&mut self) -> &mut Story {
        self.story.get_or_insert_default()
    }
}

impl Story {
    /// Notes a new trip.
    pub(crate) fn tripped(&mut self, since: Time, deadline: Option<Time>) {
        self.last_fence = Some(LastFence::new(since, deadline));
        self.origin = None;
    }

    pub(crate) fn push(&mut self, at: Time, kind: TransitionKind, text: &str) {
        self.history.push(at, kind, text);
    }
}

/// Returns whether a rule by which nothing is done is worth an entry in the history.
pub(crate) fn is_notable(rule: Rule) -> bool {
    match rule {
        Rule::InitialDelay { .. }
        | Rule::LeasesRenewed
        | Rule::NoNodes
        | Rule::Undecided { fence_found: None } => false,
        Rule::ApiServerNotHealthy
        | Rule::ExternalUnhealthy
        | Rule::EgressUnclear
        | Rule::EgressSuspected { .. }
        | Rule::ListFailed
        | Rule::StaleList
        | Rule::BothProbesHealthy
        | Rule::NoCandidates { .. }
        | Rule::Tripped { .. }
        | Rule::TooFewCandidates { .. }
        | Rule::Counting { .. }
        | Rule::Undecided {
            fence_found: Some(_),
        } => true,
    }
}
