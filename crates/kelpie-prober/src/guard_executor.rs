//! The guard executor of a probe: it performs the calls that the guard of its cluster asks for.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, pending};
use kelpie_core::Time;
use kelpie_core::prober::guard::{
    GuardCall, GuardReply, GuardRole, GuardSettings, GuardState, HeldGroup, NodeGuard, PermitJudge,
};
use kelpie_core::prober::{Decision, Evaluator};
use kelpie_kube::AnchoredClock;
use kelpie_kube::guard::{GuardClient, GuardResponse};
use kelpie_kube::leader::Leadership;
use kelpie_kube::tenant::Tenant;
use kelpie_runtime::watch::Receiver;
use tokio::time::{Instant, sleep_until, timeout};

/// The limit of a call. Another one follows if it is exceeded.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// A cluster that is no longer watched gets this long to remove its guard. Otherwise it runs out.
const REMOVAL: Duration = Duration::from_secs(2);

/// The guard of a cluster and its call under way.
pub(crate) struct GuardExecutor {
    clock: AnchoredClock,
    leadership: Receiver<Leadership>,
    /// The identity of this watchdog, which its replicas share.
    owner: Arc<str>,
    guard: NodeGuard,
    judge: PermitJudge,
    /// The groups that the last judgement held back.
    held: Vec<HeldGroup>,
    /// The client that the last call used. Another one has other credentials.
    tenant: Option<Arc<Tenant>>,
    call: Option<BoxFuture<'static, CompletedCall>>,
    /// The state as it was reported last.
    reported: GuardReport,
}

/// The state of a guard for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GuardReport {
    pub(crate) state: GuardState,
    /// The zones and worker pools whose nodes are held back.
    pub(crate) held: Vec<HeldGroup>,
    /// This replica leads.
    pub(crate) is_leader: bool,
    /// The reason why the last call failed.
    pub(crate) problem: Option<String>,
}

struct CompletedCall {
    call: GuardCall,
    response: GuardResponse,
    /// The instants at which the call was sent and answered.
    span: (Time, Time),
}

impl GuardExecutor {
    pub(crate) fn new(
        clock: AnchoredClock,
        leadership: Receiver<Leadership>,
        settings: GuardSettings,
        owner: Arc<str>,
    ) -> Self {
        Self {
            clock,
            leadership,
            judge: PermitJudge::new(&settings),
            guard: NodeGuard::new(settings, &*owner),
            owner,
            held: Vec::new(),
            tenant: None,
            call: None,
            reported: GuardReport {
                state: GuardState::Unknown,
                held: Vec::new(),
                is_leader: false,
                problem: None,
            },
        }
    }

    /// Finds out which nodes may turn Unknown after this decision.
    pub(crate) fn judge(&mut self, evaluator: &Evaluator, decision: &Decision) {
        let now = self.clock.now();
        if let (Some(judgement), Some(until)) =
            (self.judge.judge(evaluator, now), decision.evidence_until)
        {
            self.held.clone_from(&judgement.held);
            self.guard.permit(judgement, until, now);
        }
    }

    /// Makes the calls that are due, over this client, until the state has changed. Never returns
    /// while it stays the same. The future may be dropped at any time.
    pub(crate) async fn next_change(&mut self, tenant: Option<&Arc<Tenant>>) -> GuardReport {
        loop {
            if self.held != self.reported.held {
                self.reported.held.clone_from(&self.held);
                return self.reported.clone();
            }
            let now = self.clock.now();
            let role = self.role();
            if self.call.is_none()
                && let Some(tenant) = tenant
            {
                self.use_tenant(tenant);
                self.call = self
                    .guard
                    .poll(role, now)
                    .map(|call| self.start(tenant, call));
            }
            let next_call = self.guard.next_wake(role, now).filter(|_| tenant.is_some());
            let wake = self.clock.instant(next_call.unwrap_or(Time::MAX));
            // A prober that is blind makes no call that would find this out.
            let runs_out_at = self.guard.runs_out_at(now).unwrap_or(Time::MAX);
            let runs_out_at = self.clock.instant(runs_out_at);
            let done = async {
                match &mut self.call {
                    Some(call) => call.await,
                    None => pending().await,
                }
            };
            tokio::select! {
                biased;
                done = done => {
                    self.call = None;
                    if let Some(report) = self.finish(done) {
                        return report;
                    }
                }
                () = sleep_until(wake) => {}
                () = sleep_until(runs_out_at) => {
                    let problem = self.reported.problem.clone();
                    if let Some(report) = self.report(problem, self.clock.now()) {
                        return report;
                    }
                }
            }
        }
    }

    fn role(&self) -> GuardRole {
        if self.leadership.borrow().may_act(Instant::now()) {
            GuardRole::Leader
        } else {
            GuardRole::Standby
        }
    }

    fn use_tenant(&mut self, tenant: &Arc<Tenant>) {
        let is_same = |known: &Arc<Tenant>| Arc::ptr_eq(known, tenant);
        if !self.tenant.as_ref().is_some_and(is_same) {
            self.tenant = Some(Arc::clone(tenant));
            self.guard.credentials_changed();
        }
    }

    fn start(&self, tenant: &Arc<Tenant>, call: GuardCall) -> BoxFuture<'static, CompletedCall> {
        let (tenant, owner, clock) = (Arc::clone(tenant), Arc::clone(&self.owner), self.clock);
        Box::pin(async move {
            let sent = clock.now();
            let client = GuardClient::new(&tenant, &owner);
            let response = client.perform(&call, Instant::now() + CALL_TIMEOUT).await;
            CompletedCall {
                call,
                response,
                span: (sent, clock.now()),
            }
        })
    }

    /// Takes in the response to a call. Returns the state if it has changed.
    fn finish(&mut self, done: CompletedCall) -> Option<GuardReport> {
        let CompletedCall {
            call,
            response,
            span: (sent, now),
        } = done;
        if let Some(date) = response.date {
            // The header has whole seconds, and was written at some time during the call.
            let half_a_second = Duration::from_millis(500);
            let middle = sent.as_micros().midpoint(now.as_micros());
            self.guard
                .observe_server_time(date.after(half_a_second), Time::from_micros(middle));
        }
        let is_failure = matches!(
            response.reply,
            GuardReply::Failed | GuardReply::Refused | GuardReply::Unsupported
        );
        self.guard.reply(&call, response.reply, now);
        self.report(response.problem.filter(|_| is_failure), now)
    }

    /// Returns the state if it has changed since it was reported.
    fn report(&mut self, problem: Option<String>, now: Time) -> Option<GuardReport> {
        let report = GuardReport {
            state: self.guard.state(now),
            held: self.held.clone(),
            is_leader: self.role() == GuardRole::Leader,
            problem,
        };
        let has_changed = report != self.reported;
        self.reported = report.clone();
        has_changed.then_some(report)
    }

    /// Removes the guard of a cluster that is no longer watched, if this replica leads.
    pub(crate) async fn remove(&mut self) {
        let Some(tenant) = self.tenant.clone() else {
            return;
        };
        if self.role() == GuardRole::Leader {
            let client = GuardClient::new(&tenant, &self.owner);
            let removal = client.perform(&GuardCall::Remove, Instant::now() + REMOVAL);
            // It runs out by itself otherwise.
            let _ = timeout(REMOVAL, removal).await;
        }
    }
}
