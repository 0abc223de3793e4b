//! The probe of one cluster: a task that owns all state of the cluster.

use std::pin::pin;
use std::time::Duration;

use kelpie_core::Time;
use kelpie_core::prober::{Decision, Evaluator, Verdict, Wake, WakeReason};
use kelpie_kube::AnchoredClock;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::fence_executor::FenceExecutor;
use crate::inputs::ProbeInputs;
use crate::observer::{Observer, Urgency};

/// The first rounds of all clusters are spread over this time, to avoid a stampede at the start.
const SPREAD: Duration = Duration::from_secs(1);

/// Rounds are urgent in the last part of the grace period before the deadline: this fraction of it.
/// A healthy cluster, which is probed every 10 s and renews every 10 s, never gets that close.
const URGENT_FRACTION: f64 = 0.375;

/// Observes its cluster, evaluates the observation and executes the decision, round after round.
pub(crate) struct Probe {
    pub(crate) clock: AnchoredClock,
    /// The grace period if the cluster has none of its own.
    pub(crate) grace: Duration,
    pub(crate) evaluator: Evaluator,
    pub(crate) observer: Observer,
    pub(crate) executor: FenceExecutor,
    pub(crate) inputs: watch::Receiver<ProbeInputs>,
    /// Cancelled when the cluster is removed or the process shuts down.
    pub(crate) cancelled: CancellationToken,
}

impl Probe {
    /// Runs rounds until the probe is cancelled, then finishes the calls in flight.
    pub(crate) async fn run(&mut self) {
        let cancelled = self.cancelled.clone();
        let now = self.clock.now();
        let mut wake = now.after(SPREAD.mul_f64(fastrand::f64()));
        let mut urgency = Urgency::Routine;
        // Each future is pinned here: one that is passed on by value takes its space in the task
        // twice.
        loop {
            let planned = {
                let waiting = pin!(self.wait_until(wake));
                cancelled.run_until_cancelled(waiting).await
            };
            let Some(planned) = planned else { break };
            let next = {
                let round = pin!(self.round(planned, urgency));
                cancelled.run_until_cancelled(round).await
            };
            let Some(next) = next else { break };
            (wake, urgency) = next;
        }
        self.executor.drain().await;
    }

    /// Executes fencing steps until the next round is due. A change of the grace period ends the
    /// wait too, because the deadline may have moved closer. Returns the time for which the round
    /// was planned.
    async fn wait_until(&mut self, wake: Time) -> Time {
        let instant = self.clock.instant(wake);
        let grace = self.inputs.borrow_and_update().grace;
        let inputs = &mut self.inputs;
        let grace_changed = async move {
            // An error means that the sender is gone: the probe is being cancelled.
            let _ = inputs.wait_for(|inputs| inputs.grace != grace).await;
        };
        tokio::select! {
            biased;
            is_postponed = self.executor.work_until(instant) => {
                if is_postponed { self.clock.now() } else { wake }
            }
            () = grace_changed => wake,
        }
    }

    /// Runs one round. Returns the time of the next round and its urgency.
    async fn round(&mut self, planned: Time, urgency: Urgency) -> (Time, Urgency) {
        let inputs = self.inputs.borrow_and_update().clone();
        self.observer.apply_inputs(&inputs, &mut self.evaluator);
        let round = self.executor.round_context(urgency);
        // On the heap while it lasts: a probe must be small between rounds.
        let observed = Box::pin(self.observer.observe(&mut self.evaluator, round));
        let result = self.executor.work_while(observed).await;
        let decision = self.evaluator.decide(&result.observation);
        self.executor.reporter.round(planned, result, &decision);
        self.executor.apply(&decision);
        let grace = inputs.grace.unwrap_or(self.grace);
        (decision.next_wake.at, urgency_of(&decision, grace))
    }
}

/// Returns the urgency of the next round. An urgent round does not wait for one response before it
/// sends the next request.
///
/// A round is urgent if the cluster would trip then, or if the deadline is so close that the
/// cluster may trip before a slow response arrives. While the cluster is being fenced, a response
/// decides only about the end of the fence, so no round is urgent.
fn urgency_of(decision: &Decision, grace: Duration) -> Urgency {
    let Wake { at, reason } = decision.next_wake;
    let near = grace.mul_f64(URGENT_FRACTION);
    let is_near = decision
        .deadline
        .is_some_and(|deadline| deadline.since(at) < near);
    let is_fenced = decision.verdict == Verdict::Fence;
    if !is_fenced && (is_near || reason == WakeReason::Trip) {
        Urgency::Urgent
    } else {
        Urgency::Routine
    }
}
