//! The decisions that other settings would have led to.

use std::time::Duration;

use super::assumed_fence::AssumedFence;
use super::{ClusterReplay, EvaluatorState, RecordedInput, RecordedRound};
use crate::Time;
use crate::prober::leases::Lease;
use crate::prober::{Decision, ProbeSettings, Verdict};

/// A review is added if the record has no decision for this long after it was due.
const LATENESS: Duration = Duration::from_millis(250);

/// The number of reviews that are added between two recorded rounds, which are seconds apart.
const MOST_REVIEWS: u32 = 64;

/// One cluster of a record under other settings than those of the recorded prober.
///
/// The observations are those of the record: a prober with these settings might have looked at
/// other instants. Reviews, which need no answer, are added at the instants at which they were due.
#[derive(Debug)]
pub struct Alternative {
    replay: ClusterReplay,
    fence: AssumedFence,
    /// The grace periods of clusters do not count.
    ignores_own_grace: bool,
    last: Option<(RecordedRound, Decision, Verdict)>,
}

impl Alternative {
    /// Continues a recorded state under other settings.
    pub fn new(state: EvaluatorState, settings: ProbeSettings) -> Self {
        Self {
            replay: ClusterReplay::new(state, settings),
            fence: AssumedFence::default(),
            ignores_own_grace: false,
            last: None,
        }
    }

    /// Ignores the cluster's own grace period: that of the settings applies.
    #[must_use]
    pub fn with_configured_grace(mut self) -> Self {
        self.replay.observe_grace(None);
        self.ignores_own_grace = true;
        self
    }

    /// Takes in an input. `decided` is called for reviews that were due before.
    pub fn observe<'a, L: IntoIterator<Item = Lease<'a>>>(
        &mut self,
        input: RecordedInput<L>,
        decided: impl FnMut(Time, &Decision),
    ) {
        if let RecordedInput::Leases(span, ..) = &input {
            self.review_until(span.end, decided);
        }
        if matches!(input, RecordedInput::Grace(_)) && self.ignores_own_grace {
            return;
        }
        self.replay.observe(input);
    }

    /// Decides on a round, after reviews that were due before it. `recorded` is the verdict of the
    /// record. `decided` is called with the instant of each decision.
    pub fn decide(
        &mut self,
        round: &RecordedRound,
        recorded: Verdict,
        mut decided: impl FnMut(Time, &Decision),
    ) {
        self.review_until(round.end, &mut decided);
        let decision = self.judge(round, recorded);
        decided(round.end, &decision);
    }

    fn judge(&mut self, round: &RecordedRound, recorded: Verdict) -> Decision {
        let decision = self.replay.decide(&self.fence.applied_to(round));
        self.fence.decided(&decision, recorded, round);
        self.last = Some((*round, decision, recorded));
        decision
    }

    /// Makes the reviews that were due before the next recorded event.
    fn review_until(&mut self, next: Time, mut decided: impl FnMut(Time, &Decision)) {
        for _ in 0..MOST_REVIEWS {
            let Some((round, decision, recorded)) = self.last else {
                return;
            };
            let due = decision.review_at.filter(|at| *at > round.end);
            let Some(at) = due.filter(|at| at.after(LATENESS) < next) else {
                return;
            };
            let decision = self.judge(&round.review_at(at), recorded);
            decided(at, &decision);
        }
    }
}
