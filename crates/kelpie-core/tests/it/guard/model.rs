//! A cluster with a guard: kubelets, an API server, kube-controller-manager, and replicas of the
//! prober whose calls may be slow, lost or unanswered.

use std::collections::VecDeque;

use kelpie_core::Time;
use kelpie_core::prober::Verdict;
use kelpie_core::prober::fence::ResourceVersion;
use kelpie_core::prober::guard::{
    GuardCall, GuardContent, GuardReply, GuardRole, GuardSettings, GuardState, HeldGroup,
    Judgement, NodeGuard, PermitJudge, Permits, StoredBinding, StoredPolicy,
};

use crate::evaluator_fixture::{EvaluatorFixture, at, name, settings};

pub const GRACE: f64 = 40.0;
pub const RENEWAL: f64 = 10.0;
/// The time between two steps of the model.
pub const STEP: f64 = 0.25;
/// A change of the policy is enforced after this time.
pub const LAG: f64 = 1.5;
/// kube-controller-manager looks at the nodes this often.
pub const MONITOR_PERIOD: f64 = 5.0;
/// A replica waits this long for the answer to a call.
const CALL_LIMIT: f64 = 10.0;
/// A standby becomes the leader this long after the leader has died.
const TAKEOVER: f64 = 15.0;

pub fn seconds(time: Time) -> f64 {
    time.as_micros() as f64 / 1e6
}

/// A judgement that permits no node.
pub fn all_renew() -> Judgement {
    Judgement {
        permits: no_permits(),
        undecided: Vec::new(),
        held: Vec::new(),
    }
}

pub fn no_permits() -> Permits {
    Permits::from_iter(Vec::<String>::new())
}

/// The policy and the binding, as stored or as enforced.
#[derive(Clone, Debug, Default)]
pub struct GuardObjects {
    pub policy: Option<(u64, Option<GuardContent>)>,
    pub binding: Option<(u64, bool)>,
    /// The annotation of the policy names another watchdog.
    pub is_foreign: bool,
}

impl GuardObjects {
    pub fn content(&self) -> Option<&GuardContent> {
        let is_bound = self.binding.is_some_and(|(_, is_intact)| is_intact);
        let content = self
            .policy
            .as_ref()
            .and_then(|(_, content)| content.as_ref());
        content.filter(|_| is_bound)
    }
}

/// The guard's objects in an API server.
#[derive(Default)]
pub struct ApiServer {
    pub stored: GuardObjects,
    /// The objects with the instant from which they are enforced.
    pub history: Vec<(f64, GuardObjects)>,
    last_version: u64,
    /// The written contents with their instants.
    pub written: Vec<(f64, GuardContent)>,
    pub conflicts: usize,
    /// The time by which its clock is ahead.
    pub clock_offset: f64,
}

impl ApiServer {
    pub fn change(&mut self, now: f64, change: impl FnOnce(&mut GuardObjects, u64)) {
        self.last_version += 1;
        change(&mut self.stored, self.last_version);
        self.history.push((now + LAG, self.stored.clone()));
    }

    pub fn enforced(&self, now: f64) -> Option<&GuardContent> {
        let past = self.history.iter().rev().find(|(at, _)| *at <= now);
        past.and_then(|(_, objects)| objects.content())
    }

    /// Returns whether kube-controller-manager may turn a node Unknown.
    fn allows(&self, node: &str, now: f64) -> bool {
        let server_now = now + self.clock_offset;
        self.enforced(now).is_none_or(|content| {
            content.permits.contains(node) || seconds(content.until) <= server_now
        })
    }

    fn reply(&mut self, call: &GuardCall, now: f64) -> GuardReply {
        let version = |version: u64| ResourceVersion::new(&version.to_string());
        let matches = |stored: Option<u64>, replaces: &Option<ResourceVersion>| {
            stored.map(version) == *replaces
        };
        match call {
            GuardCall::ReadPolicy => {
                let policy = self.stored.policy.clone();
                let owner = if self.stored.is_foreign { "them" } else { "us" };
                GuardReply::Policy(policy.map(|(number, content)| StoredPolicy {
                    version: version(number),
                    owner: owner.into(),
                    content,
                }))
            }
            GuardCall::ReadBinding => {
                let binding = self.stored.binding;
                GuardReply::Binding(binding.map(|(number, is_intact)| StoredBinding {
                    version: version(number),
                    is_intact,
                }))
            }
            GuardCall::WritePolicy { content, replaces } => {
                let stored = self.stored.policy.as_ref().map(|(number, _)| *number);
                if !matches(stored, replaces) {
                    self.conflicts += 1;
                    return GuardReply::Conflict;
                }
                self.written.push((now, content.clone()));
                let content = content.clone();
                self.change(now, |objects, number| {
                    objects.policy = Some((number, Some(content)));
                    objects.is_foreign = false;
                });
                GuardReply::Written(version(self.last_version))
            }
            GuardCall::WriteBinding { replaces } => {
                let stored = self.stored.binding.map(|(number, _)| number);
                if !matches(stored, replaces) {
                    self.conflicts += 1;
                    return GuardReply::Conflict;
                }
                self.change(now, |objects, number| {
                    objects.binding = Some((number, true));
                });
                GuardReply::Written(version(self.last_version))
            }
            GuardCall::AskEnforced => {
                GuardReply::Enforced(self.enforced(now).map(GuardContent::mark))
            }
            GuardCall::Remove => {
                self.change(now, |objects, _| *objects = GuardObjects::default());
                GuardReply::Removed
            }
        }
    }

    /// Returns how often a write changed the permits.
    pub fn permit_changes(&self) -> usize {
        let writes = self.written.windows(2);
        writes
            .filter(|pair| pair[0].1.permits != pair[1].1.permits)
            .count()
    }
}

#[derive(Clone, Debug)]
pub struct ModelNode {
    /// The kubelet renews at this offset within the renewal period.
    offset: f64,
    pub renewed: f64,
    pub dies_at: f64,
    /// The intervals in which the node cannot reach the API server.
    pub cuts: Vec<(f64, f64)>,
    pub unknown_at: Option<f64>,
    /// The first instant at which the stored policy permitted it.
    pub permitted_at: Option<f64>,
}

impl ModelNode {
    fn run(&mut self, now: f64) {
        let due = ((now - self.offset) / RENEWAL).floor() * RENEWAL + self.offset;
        let is_cut = self
            .cuts
            .iter()
            .any(|(from, to)| (*from..*to).contains(&now));
        if now < self.dies_at && !is_cut && due > self.renewed {
            self.renewed = now;
            self.unknown_at = None;
        }
    }
}

/// The fate of the calls of a replica that begin in an interval.
#[derive(Clone, Copy, Debug)]
pub struct CallFault {
    pub from: f64,
    pub to: f64,
    pub fate: CallFate,
}

#[derive(Clone, Copy, Debug)]
pub enum CallFate {
    /// The request does not arrive.
    Lost,
    /// The request arrives, its answer does not.
    Unanswered,
    /// The request arrives after half of this time, its answer after all of it.
    Slow(f64),
    /// The API server refuses the credentials.
    Refused,
}

/// A call under way.
struct Flight {
    call: GuardCall,
    lands_at: f64,
    answered_at: f64,
    /// The answer, once the call has landed.
    reply: Option<GuardReply>,
    /// The reply that the replica gets, whatever the answer was.
    forced: Option<GuardReply>,
}

/// One replica of the prober.
pub struct ModelReplica {
    pub fixture: EvaluatorFixture,
    judge: PermitJudge,
    pub guard: NodeGuard,
    next_look: f64,
    started_at: f64,
    pub dies_at: f64,
    pub states: Vec<(f64, GuardState)>,
    pub held: Vec<HeldGroup>,
    pub call_faults: Vec<CallFault>,
    flight: Option<Flight>,
    /// Calls whose replica no longer waits for them.
    abandoned: VecDeque<Flight>,
    is_tripped: bool,
    /// The permits that were written during a trip.
    pub permits_while_tripped: Vec<(f64, Permits)>,
}

impl ModelReplica {
    pub fn new(guard: &GuardSettings, first_look: f64) -> Self {
        Self {
            fixture: EvaluatorFixture::new(settings(), at(first_look)),
            judge: PermitJudge::new(guard),
            guard: NodeGuard::new(guard.clone(), "us"),
            next_look: first_look,
            started_at: first_look,
            dies_at: f64::MAX,
            states: Vec::new(),
            held: Vec::new(),
            call_faults: Vec::new(),
            flight: None,
            abandoned: VecDeque::new(),
            is_tripped: false,
            permits_while_tripped: Vec::new(),
        }
    }

    fn is_up(&self, now: f64) -> bool {
        (self.started_at..self.dies_at).contains(&now)
    }

    fn run(&mut self, now: f64, role: GuardRole, leases: &[(String, Time)], api: &mut ApiServer) {
        for flight in &mut self.abandoned {
            flight.land(now, api);
        }
        self.abandoned.retain(|flight| flight.reply.is_none());
        if !self.is_up(now) {
            self.abandoned.extend(self.flight.take());
            return;
        }
        if now >= self.next_look {
            let decision = self.fixture.round(at(now), leases);
            self.next_look = seconds(decision.next_wake.at).max(now + STEP);
            self.is_tripped = decision.verdict == Verdict::Fence;
            if let Some(judgement) = self.judge.judge(&self.fixture.evaluator, at(now)) {
                let until = at(now + GRACE / 2.0);
                self.held.clone_from(&judgement.held);
                self.guard.permit(judgement, until, at(now));
            }
        }
        for _ in 0..10 {
            self.finish(now, api);
            if self.flight.is_some() {
                break;
            }
            let Some(call) = self.guard.poll(role, at(now)) else {
                break;
            };
            if let GuardCall::WritePolicy { content, .. } = &call
                && self.is_tripped
                && content.permits != no_permits()
            {
                self.permits_while_tripped
                    .push((now, content.permits.clone()));
            }
            self.flight = Some(self.start(call, now));
        }
        let state = self.guard.state(at(now));
        if self.states.last().is_none_or(|(_, last)| *last != state) {
            self.states.push((now, state));
        }
    }

    fn start(&self, call: GuardCall, now: f64) -> Flight {
        let mut faults = self.call_faults.iter();
        let fault = faults.find(|fault| (fault.from..fault.to).contains(&now));
        let (lands_at, answered_at, forced) = match fault.map(|fault| fault.fate) {
            None => (now, now, None),
            Some(CallFate::Lost) => (f64::MAX, now + 2.0, Some(GuardReply::Failed)),
            Some(CallFate::Unanswered) => (now, now + 2.0, Some(GuardReply::Failed)),
            Some(CallFate::Refused) => (f64::MAX, now, Some(GuardReply::Refused)),
            Some(CallFate::Slow(time)) => {
                let is_late = (time > CALL_LIMIT).then_some(GuardReply::Failed);
                (now + time / 2.0, now + time.min(CALL_LIMIT), is_late)
            }
        };
        Flight {
            call,
            lands_at,
            answered_at,
            reply: None,
            forced,
        }
    }

    fn finish(&mut self, now: f64, api: &mut ApiServer) {
        let Some(mut flight) = self.flight.take() else {
            return;
        };
        flight.land(now, api);
        if now < flight.answered_at {
            self.flight = Some(flight);
            return;
        }
        let answer = flight.forced.clone().or_else(|| flight.reply.clone());
        if flight.forced.is_none() {
            // The date has whole seconds.
            let date = (now + api.clock_offset).floor() + 0.5;
            self.guard.observe_server_time(at(date), at(now));
        }
        self.guard
            .reply(&flight.call, answer.unwrap_or(GuardReply::Failed), at(now));
        if flight.reply.is_none() && flight.lands_at < f64::MAX {
            self.abandoned.push_back(flight);
        }
    }
}

impl Flight {
    fn land(&mut self, now: f64, api: &mut ApiServer) {
        if self.reply.is_none() && self.lands_at <= now {
            self.reply = Some(api.reply(&self.call, now));
        }
    }
}

pub struct GuardedCluster {
    pub now: f64,
    pub nodes: Vec<ModelNode>,
    pub replicas: Vec<ModelReplica>,
    pub api: ApiServer,
}

impl GuardedCluster {
    pub fn new(nodes: usize, replicas: usize) -> Self {
        Self::with_settings(nodes, replicas, &GuardSettings::default())
    }

    pub fn with_settings(nodes: usize, replicas: usize, guard: &GuardSettings) -> Self {
        Self {
            now: 0.0,
            nodes: (0..nodes)
                .map(|index| ModelNode {
                    offset: RENEWAL * index as f64 / nodes as f64,
                    renewed: -RENEWAL,
                    dies_at: f64::MAX,
                    cuts: Vec::new(),
                    unknown_at: None,
                    permitted_at: None,
                })
                .collect(),
            replicas: (0..replicas)
                .map(|index| ModelReplica::new(guard, index as f64 * 3.0))
                .collect(),
            api: ApiServer::default(),
        }
    }

    pub fn cut(&mut self, from: f64, to: f64) {
        for node in &mut self.nodes {
            node.cuts.push((from, to));
        }
    }

    /// The first replica leads. Another one does some time after those before it have died.
    fn role(&self, index: usize) -> GuardRole {
        let mut before = self.replicas[..index].iter();
        let is_led = before.any(|replica| self.now < replica.dies_at + TAKEOVER);
        if is_led {
            GuardRole::Standby
        } else {
            GuardRole::Leader
        }
    }

    pub fn run(&mut self, end: f64) {
        while self.now < end {
            let now = self.now;
            for node in &mut self.nodes {
                node.run(now);
            }
            let leases: Vec<_> = (self.nodes.iter().enumerate())
                .map(|(index, node)| (name(index), at(node.renewed)))
                .collect();
            for index in 0..self.replicas.len() {
                let role = self.role(index);
                self.replicas[index].run(now, role, &leases, &mut self.api);
            }
            let content = self.api.stored.content();
            for (index, node) in self.nodes.iter_mut().enumerate() {
                if content.is_some_and(|content| content.permits.contains(&name(index))) {
                    node.permitted_at.get_or_insert(now);
                }
                let is_silent = now % MONITOR_PERIOD == 0.0 && now - node.renewed > GRACE;
                if is_silent && self.api.allows(&name(index), now) {
                    node.unknown_at.get_or_insert(now);
                }
            }
            self.now += STEP;
        }
    }

    pub fn unknown(&self) -> usize {
        let unknown = |node: &&ModelNode| node.unknown_at.is_some();
        self.nodes.iter().filter(unknown).count()
    }

    pub fn state(&self) -> GuardState {
        self.replicas[0].guard.state(at(self.now))
    }

    pub fn is_armed(&self) -> bool {
        matches!(self.state(), GuardState::Armed { .. })
    }

    /// Returns the instants at which a write moved the end of the guard back.
    pub fn ends_moved_back(&self) -> Vec<f64> {
        let writes = self.api.written.windows(2);
        writes
            .filter(|pair| pair[1].1.until < pair[0].1.until)
            .map(|pair| pair[1].0)
            .collect()
    }
}
