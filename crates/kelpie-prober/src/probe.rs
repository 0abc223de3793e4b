//! One cluster's probe: a task that owns all state of the cluster.

use std::pin::pin;
use std::time::Duration;

use kelpie_core::{Decision, Judge, Time, Verdict, Wake, WakeReason};
use kelpie_kube::Clock;
use kelpie_kube::tenant::Haste;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::eyes::{Eyes, Round};
use crate::hands::Hands;
use crate::inputs::Inputs;

/// First rounds are spread over this long, so that a start with many clusters is no stampede.
const SPREAD: Duration = Duration::from_secs(1);

/// Rounds are urgent in this share of the grace period before the deadline. A healthy cluster, looked
/// at every 10 s and renewing every 10 s, never comes that near.
const URGENT_SHARE: f64 = 0.375;

/// Looks at its cluster, lets the judge decide, and lets the hands follow.
pub(crate) struct Probe {
    pub(crate) clock: Clock,
    /// Where the cluster has no grace period of its own.
    pub(crate) grace: Duration,
    pub(crate) judge: Judge,
    pub(crate) eyes: Eyes,
    pub(crate) hands: Hands,
    pub(crate) inputs: watch::Receiver<Inputs>,
    /// The cluster goes, or the process ends.
    pub(crate) cancelled: CancellationToken,
}

impl Probe {
    /// Until it is cancelled.
    pub(crate) async fn run(&mut self) {
        let cancelled = self.cancelled.clone();
        let now = self.clock.now();
        let mut wake = now.after(SPREAD.mul_f64(fastrand::f64()));
        let mut haste = Haste::Routine;
        // Each is pinned here: a future that is handed on by value has its place in the task twice.
        loop {
            let planned = {
                let waiting = pin!(self.wait_until(wake));
                cancelled.run_until_cancelled(waiting).await
            };
            let Some(planned) = planned else { break };
            let next = {
                let round = pin!(self.round(planned, haste));
                cancelled.run_until_cancelled(round).await
            };
            let Some(next) = next else { break };
            (wake, haste) = next;
        }
        self.hands.rest().await;
    }

    /// Works with the hands until the next round is due, or the grace period changes: the deadline
    /// may have moved nearer. Gives the time at which the round is meant to be.
    async fn wait_until(&mut self, wake: Time) -> Time {
        let instant = self.clock.instant(wake);
        let grace = self.inputs.borrow_and_update().grace;
        let inputs = &mut self.inputs;
        let moved = async move {
            // Also when the other end is gone: the probe is being cancelled then.
            let _ = inputs.wait_for(|inputs| inputs.grace != grace).await;
        };
        tokio::select! {
            biased;
            is_put_off = self.hands.work_until(instant) => if is_put_off { self.clock.now() } else { wake },
            () = moved => wake,
        }
    }

    /// One round; gives the time of the next, and how urgent that will be.
    async fn round(&mut self, planned: Time, haste: Haste) -> (Time, Haste) {
        let inputs = self.inputs.borrow_and_update().clone();
        self.eyes.take(&inputs, &mut self.judge);
        let round = Round {
            fence: self.hands.fence(),
            stands_by: self.hands.stand_by(),
            released: self.hands.released_at(),
            haste,
        };
        // On the heap while it lasts: between rounds, a probe must be small.
        let look = Box::pin(self.eyes.look(&mut self.judge, round));
        let sighting = self.hands.work_while(look).await;
        let decision = self.judge.decide(&sighting.observation);
        self.hands.scribe.round(planned, sighting, &decision);
        self.hands.follow(&decision);
        let grace = inputs.grace.unwrap_or(self.grace);
        (decision.next_wake.at, haste_of(&decision, grace))
    }
}

/// Whether the next round has time for one request after the other: not if the cluster trips then, or
/// if the deadline is so near that it may trip before a slow answer is there. Once it is being fenced,
/// nothing hangs on an answer but the end of the fence.
fn haste_of(decision: &Decision, grace: Duration) -> Haste {
    let Wake { at, reason } = decision.next_wake;
    let near = grace.mul_f64(URGENT_SHARE);
    let is_near = decision
        .deadline
        .is_some_and(|deadline| deadline.since(at) < near);
    let is_fenced = decision.verdict == Verdict::Fence;
    if !is_fenced && (is_near || reason == WakeReason::Trip) {
        Haste::Urgent
    } else {
        Haste::Routine
    }
}
