//! The hands of a probe: they make the calls that the fencing asks for.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use kelpie_bell::Listener;
use kelpie_core::fence::{Fencing, Polled, Purpose, Reply, Sight, Step};
use kelpie_core::{Decision, Fence, Target, Time, Verdict};
use kelpie_kube::Clock;
use kelpie_kube::leader::Leadership;
use kelpie_kube::seed::{Seed, Survey, TargetError, Targets};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::gate::{Gate, Urgency};
use crate::part::Part;
use crate::scribe::Scribe;

/// A fencing call that is not answered by then is given up and asked anew: the connection may be
/// half open, and the deadline is seconds away.
const CALL_LIMIT: Duration = Duration::from_secs(3);
/// A round may come so much later than planned while calls of the cluster's flow wait for their answers.
const CROWDED: Duration = Duration::from_secs(2);
/// Fencing calls that are under way at once. More would only wait inside the API server, in an order
/// of its own.
const GATE_WIDTH: usize = 64;
/// What is said of a target that others write to all the time.
const CONTESTED: &str = "somebody else changes it again and again; it is tried again";
/// Calls that are under way when a probe ends get this long.
const DRAIN: Duration = Duration::from_secs(2);

/// The way to a cluster's targets in the seed.
#[derive(Clone)]
pub(crate) struct Reach {
    /// For looks: together with those of other clusters, behind the limit on routine calls.
    survey: Survey,
    /// For flows: nothing in front of it but the gate.
    fencing: Targets,
    gate: Gate,
    leadership: Listener<Leadership>,
    /// Look, and write nothing.
    dry_run: bool,
}

impl Reach {
    pub(crate) fn new(
        seed: &Seed,
        survey: Survey,
        leadership: Listener<Leadership>,
        dry_run: bool,
    ) -> Self {
        Self {
            survey,
            fencing: seed.targets().within(CALL_LIMIT),
            gate: Gate::new(GATE_WIDTH),
            leadership,
            dry_run,
        }
    }
}

/// A cluster's targets and the calls under way.
pub(crate) struct Hands {
    cluster: Arc<str>,
    clock: Clock,
    targets: Arc<[Target]>,
    fencing: Fencing,
    reach: Reach,
    /// This replica leads, and may write.
    acts: bool,
    /// It has begun to lead with a fence in hand: a round is due at once.
    is_pressed: bool,
    /// What the flow works against, for its place in the queue.
    deadline: Time,
    /// Cancelled when the verdict changes: what has not been sent by then must not be.
    course: CancellationToken,
    verdict: Option<Verdict>,
    /// Calls of a flow.
    under_way: FuturesUnordered<BoxFuture<'static, Done>>,
    /// Looks, which nobody waits for at the end.
    looks: FuturesUnordered<BoxFuture<'static, Done>>,
    pub(crate) scribe: Scribe,
}

/// A step and what came of it.
struct Done {
    step: Step,
    result: Result<Reply, Hitch>,
}

/// Why a step came to nothing.
enum Hitch {
    /// Leadership is gone, or might be.
    NotLeading,
    /// The verdict has changed before its turn came.
    Superseded,
    Refused(TargetError),
}

impl Hands {
    pub(crate) fn new(
        cluster: Arc<str>,
        clock: Clock,
        targets: Arc<[Target]>,
        reach: Reach,
        scribe: Scribe,
    ) -> Self {
        let mut hands = Self {
            cluster,
            clock,
            fencing: Fencing::new(Arc::clone(&targets)),
            targets,
            reach,
            acts: false,
            is_pressed: false,
            deadline: Time::MAX,
            course: CancellationToken::new(),
            verdict: None,
            under_way: FuturesUnordered::new(),
            looks: FuturesUnordered::new(),
            scribe,
        };
        hands.acts = hands.leads();
        hands
    }

    /// What the targets look like.
    pub(crate) fn fence(&self) -> Fence {
        self.fencing.fence()
    }

    /// Whether there is no fence to make: another replica leads, or nothing is left to scale down.
    pub(crate) fn stand_by(&self) -> bool {
        !(self.acts && self.fencing.is_open())
    }

    /// When the controllers were last started again by us.
    pub(crate) fn released_at(&self) -> Option<Time> {
        self.fencing.released_at()
    }

    /// Carries a decision out, or only notes it where this replica does not act.
    pub(crate) fn follow(&mut self, decision: &Decision) {
        // Renewals are silent: who once saw a stale one must find out that it leads after all.
        self.follow_leadership();
        self.is_pressed = false;
        if self.verdict.replace(decision.verdict) != Some(decision.verdict) {
            self.change_course();
        }
        self.scribe
            .decided(decision, self.fencing.fence(), self.acts);
        self.deadline = decision.deadline.unwrap_or(Time::MAX);
        if self.reach.dry_run {
            self.scribe.would(decision.verdict, self.fencing.sights());
        }
        if self.acts
            && let Some(report) = self.fencing.steer(decision)
        {
            self.scribe.flow_ended(report, self.clock.now());
        }
    }

    /// Works until `other` is done.
    pub(crate) async fn work_while<F: Future>(&mut self, other: F) -> F::Output {
        let mut other = pin!(other);
        loop {
            if let Some(output) = self.turn(other.as_mut()).await {
                return output;
            }
        }
    }

    /// Works until the instant, or until this replica takes over a fence. Rounds of other clusters
    /// come when they would have come: a standby has looked all the time, and knows their deadlines.
    ///
    /// True if it took longer, because calls were under way. They take milliseconds, unless a whole seed
    /// is being fenced; then a round of each of its clusters in every second would take from the
    /// processors what the fences need.
    pub(crate) async fn work_until(&mut self, instant: Instant) -> bool {
        let mut rest = pin!(sleep_until(instant));
        while !self.is_pressed && self.turn(rest.as_mut()).await.is_none() {}
        if !self.is_crowded() {
            return false;
        }
        rest.as_mut().reset(instant + CROWDED);
        while self.is_crowded() && self.turn(rest.as_mut()).await.is_none() {}
        true
    }

    /// Whether calls of a fence are under way, and a round would change nothing about them.
    fn is_crowded(&self) -> bool {
        let is_fencing = self.verdict == Some(Verdict::Fence);
        is_fencing && !self.is_pressed && !self.under_way.is_empty()
    }

    /// Begins what is due and waits for the first thing to happen.
    async fn turn<F: Future + Unpin>(&mut self, other: F) -> Option<F::Output> {
        self.begin_due_steps();
        let wake = self.fencing.next_wake(self.clock.now());
        let wake = self.clock.instant(wake.unwrap_or(Time::MAX));
        tokio::select! {
            biased;
            output = other => return Some(output),
            Some(done) = self.under_way.next() => self.finish(done),
            Some(done) = self.looks.next() => self.finish(done),
            () = self.reach.leadership.heard() => self.follow_leadership(),
            () = sleep_until(wake) => {}
        }
        None
    }

    fn leads(&mut self) -> bool {
        let leadership = self.reach.leadership.value();
        !self.reach.dry_run && leadership.may_act(Instant::now())
    }

    fn follow_leadership(&mut self) {
        let leads = self.leads();
        if leads && !self.acts {
            let is_fenced = self.fencing.fence() != Fence::None;
            self.is_pressed = is_fenced || self.verdict == Some(Verdict::Fence);
            // A predecessor may have fenced, or released what it had fenced.
            self.fencing.forget();
        } else if self.acts && !leads {
            self.stand_down();
        }
        self.acts = leads;
    }

    fn stand_down(&mut self) {
        self.change_course();
        if let Some(report) = self.fencing.stand_down() {
            self.scribe.flow_ended(report, self.clock.now());
        }
    }

    /// Calls that still wait for their turn are not made any more.
    fn change_course(&mut self) {
        std::mem::take(&mut self.course).cancel();
    }

    fn begin_due_steps(&mut self) {
        let Polled { steps, rushed } = self.fencing.poll(self.clock.now());
        for target in rushed {
            self.scribe.rushed(target.0);
        }
        for step in steps {
            self.scribe.calling(&step);
            let target = self.targets[step.target.0].resource.clone();
            let (reach, cluster) = (self.reach.clone(), Arc::clone(&self.cluster));
            let (deadline, course) = (self.deadline, self.course.clone());
            let calls = if step.can_wait() {
                &self.looks
            } else {
                &self.under_way
            };
            calls.push(Box::pin(async move {
                let result = reach
                    .perform(&cluster, &target, &step, deadline, &course)
                    .await;
                Done { step, result }
            }));
        }
    }

    fn finish(&mut self, Done { step, result }: Done) {
        let now = self.clock.now();
        let (target, is_of_flow) = (step.target, !step.can_wait());
        let index = target.0;
        let part = if step.call.is_write() {
            Part::Write(index)
        } else {
            Part::Target(index)
        };
        let (reply, mut news) = digest(result, self.targets[index].optional);
        if matches!(reply, Reply::Written(_)) {
            let uid = self.fencing.uid(target);
            self.scribe.written(index, uid, &step.call, now);
        }
        let is_conflict = reply == Reply::Conflict;
        let report = self.fencing.reply(step, reply, now);
        if is_conflict && self.fencing.is_contested(target) {
            news = News::Trouble(CONTESTED.to_owned());
        }
        match news {
            News::None => {}
            News::Works => self.scribe.trouble(part, None),
            News::Trouble(why) => {
                if is_of_flow && self.verdict == Some(Verdict::Fence) {
                    self.scribe.not_fenced(index, &why);
                }
                self.scribe.trouble(part, Some(why));
            }
        }
        self.scribe.saw(self.fencing.sights());
        if let Some(report) = report {
            self.scribe.flow_ended(report, now);
        }
    }

    /// Stops at a step boundary: what is under way may end, nothing new begins. A record that was
    /// written stays: the next start finds it.
    pub(crate) async fn rest(&mut self) {
        self.stand_down();
        let all = async {
            while let Some(done) = self.under_way.next().await {
                self.finish(done);
            }
        };
        // Whatever is not answered by now leaves a record, and the next start repairs the rest.
        let _ = timeout(DRAIN, all).await;
    }
}

impl Reach {
    async fn perform(
        &self,
        cluster: &Arc<str>,
        target: &kelpie_core::ResourceRef,
        step: &Step,
        deadline: Time,
        course: &CancellationToken,
    ) -> Result<Reply, Hitch> {
        let urgency = match step.purpose {
            Purpose::Survey => {
                let look = self.survey.look(cluster, target).await;
                let sight = look.ok_or(Hitch::Superseded)?;
                return sight.map(Reply::Seen).map_err(Hitch::Refused);
            }
            // What is fenced already must not hold up what is not.
            Purpose::Readiness => Urgency::Patient,
            Purpose::Flow | Purpose::Attempt if step.is_pressing => Urgency::Pressing(deadline),
            Purpose::Flow | Purpose::Attempt => Urgency::Deadline(deadline),
        };
        let turn = course.run_until_cancelled(self.gate.enter(urgency)).await;
        let Some(pass) = turn.filter(|_| !course.is_cancelled()) else {
            return Err(Hitch::Superseded);
        };
        // Right before the write: a process that was stopped in between must find out here.
        if step.call.is_write() && !self.leadership.peek().may_act(Instant::now()) {
            return Err(Hitch::NotLeading);
        }
        // Boxed here, not with what waits: a call takes 7 KB while it is under way, and at the start
        // every cluster of a seed has several waiting.
        let reply = Box::pin(self.fencing.perform(cluster, target, &step.call)).await;
        drop(pass);
        reply.map_err(Hitch::Refused)
    }
}

/// What people hear about a call.
#[derive(Debug, PartialEq, Eq)]
enum News {
    /// Nothing.
    None,
    /// It worked.
    Works,
    /// It did not, and why.
    Trouble(String),
}

/// What the fencing and people are told about the end of a call.
fn digest(result: Result<Reply, Hitch>, optional: bool) -> (Reply, News) {
    match result {
        Ok(Reply::Seen(Sight::Missing)) if !optional => {
            let why = "it does not exist, and is not optional".to_owned();
            (Reply::Seen(Sight::Missing), News::Trouble(why))
        }
        // Somebody else's doing, and settled by the next read.
        Ok(Reply::Conflict) => (Reply::Conflict, News::None),
        Ok(reply) => (reply, News::Works),
        Err(Hitch::NotLeading | Hitch::Superseded) => (Reply::Failed, News::None),
        // What does not exist even as a kind does not exist.
        Err(Hitch::Refused(TargetError::UnknownKind { .. })) if optional => {
            (Reply::Seen(Sight::Missing), News::Works)
        }
        Err(Hitch::Refused(error)) => (Reply::Failed, News::Trouble(error.to_string())),
    }
}

#[cfg(test)]
mod tests;
