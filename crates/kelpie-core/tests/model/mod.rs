//! A model of one cluster under this core: kubelets, kube-controller-manager, targets and faults,
//! in virtual time. Nothing here decides anything that the product decides.

pub mod landscape;
mod node;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use fastrand::Rng;
use kelpie_core::fence::{Fencing, Step};
use kelpie_core::{
    Judge, Lease, Listing, Lists, Node as NodeFacts, Observation, Outcome, Roster, Rule, Settings,
    Time, TripCause, Verdict,
};

use landscape::{Kcm, Targets};
pub use node::{Clocks, Node};

pub const SECOND: i64 = 1_000_000;

pub fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// What happens to the cluster, at [`Scenario::EVENT`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// Every kubelet loses the API server, for good.
    Partition,
    /// Only this share of them does: a zone, a subnet.
    PartialPartition { share: f64 },
    /// Every kubelet loses it, for this long.
    Hiccup { seconds: f64 },
    /// Nodes restart one after the other, each silent for a minute or two.
    RollingRestart,
    /// Nodes come and go.
    Autoscaling,
    /// One node dies, and is not noticed by anybody else.
    OneDeadNode,
    /// The API server is down for everybody.
    ApiOutage { seconds: f64 },
    /// Only our lists fail.
    ListGap { seconds: f64 },
}

/// When the next round starts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Policy {
    /// When the decision says so.
    Deadline,
    /// After a fixed interval, judged by nothing but 0.75 G and f: what a plain poll does.
    FixedPoll,
}

#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub nodes: usize,
    pub grace: f64,
    pub interval: f64,
    pub clocks: Clocks,
    pub event: Event,
    pub policy: Policy,
    /// The share of our lists that fail.
    pub flaky: f64,
    pub seed: u64,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Nodes that turned Unknown.
    pub unknown: u32,
    /// When the cluster first tripped, after the event.
    pub tripped_after: Option<f64>,
    pub cause: Option<TripCause>,
    /// When kube-controller-manager was scaled, after the event.
    pub fenced_after: Option<f64>,
    /// Whether at any instant f of the nodes had really not renewed for 0.75 G.
    pub truly_tripped: bool,
    /// The same by a clock that may be wrong by as much as leases are listed apart, 0.3 G.
    pub nearly_tripped: bool,
    /// When the first trip came, the longest that any node had really not renewed.
    pub longest_silence: f64,
}

impl Scenario {
    /// The instant of the event: long enough after the start for everything to be in its stride.
    pub const EVENT: i64 = 300 * SECOND;

    pub fn run(&self) -> Report {
        World::new(self).run()
    }

    fn end(&self) -> Time {
        let length = match self.event {
            Event::Partition | Event::PartialPartition { .. } => self.grace + 35.0,
            Event::RollingRestart | Event::Autoscaling | Event::OneDeadNode => 240.0,
            Event::Hiccup { seconds } => seconds + self.grace + 30.0,
            Event::ApiOutage { seconds } | Event::ListGap { seconds } => seconds + 120.0,
        };
        at(length)
    }
}

/// An instant this many seconds after the event.
pub fn at(seconds: f64) -> Time {
    Time::from_micros(Scenario::EVENT).after_seconds(seconds)
}

trait AfterSeconds {
    fn after_seconds(self, seconds: f64) -> Self;
    fn seconds_after_event(self) -> f64;
}

impl AfterSeconds for Time {
    fn after_seconds(self, seconds: f64) -> Self {
        Time::from_micros(self.as_micros() + (seconds * SECOND as f64) as i64)
    }

    fn seconds_after_event(self) -> f64 {
        (self.as_micros() - Scenario::EVENT) as f64 / SECOND as f64
    }
}

enum Happening {
    Round,
    Tick,
    Fencing,
    Done(Step),
}

/// Everything that moves.
struct World<'s> {
    scenario: &'s Scenario,
    rng: Rng,
    nodes: Vec<Node>,
    kcm: Kcm,
    targets: Targets,
    judge: Judge,
    fencing: Fencing,
    agenda: BinaryHeap<Reverse<(Time, u64)>>,
    happenings: Vec<Option<Happening>>,
    fencing_wake: Option<Time>,
    report: Report,
}

impl<'s> World<'s> {
    fn new(scenario: &'s Scenario) -> Self {
        let mut rng = Rng::with_seed(scenario.seed);
        let nodes = node::fleet(scenario, &mut rng);
        let settings = Settings {
            grace: seconds(scenario.grace),
            probe_interval: seconds(scenario.interval),
            ..Settings::default()
        };
        let started = Time::from_micros(rng.i64(0..30 * SECOND));
        let mut world = Self {
            kcm: Kcm::new(nodes.len(), scenario.grace),
            nodes,
            targets: Targets::gardener(),
            judge: Judge::new(settings, started),
            fencing: Fencing::new(landscape::gardener_targets().into()),
            agenda: BinaryHeap::new(),
            happenings: Vec::new(),
            fencing_wake: None,
            report: Report::default(),
            scenario,
            rng,
        };
        let first_tick = Time::from_micros(world.rng.i64(0..5 * SECOND));
        world.plan(started, Happening::Round);
        world.plan(first_tick, Happening::Tick);
        world
    }

    fn plan(&mut self, at: Time, happening: Happening) {
        self.agenda
            .push(Reverse((at, self.happenings.len() as u64)));
        self.happenings.push(Some(happening));
    }

    fn run(mut self) -> Report {
        let end = self.scenario.end();
        while let Some(Reverse((now, id))) = self.agenda.pop() {
            if now > end {
                break;
            }
            match self.happenings[id as usize].take() {
                Some(Happening::Round) => self.round(now),
                Some(Happening::Tick) => self.tick(now),
                Some(Happening::Fencing) if self.fencing_wake == Some(now) => {
                    self.fencing_wake = None;
                    self.drive_fencing(now);
                }
                Some(Happening::Done(step)) => {
                    let reply = self.targets.apply(&step, now);
                    self.fencing.reply(step, reply, now);
                    self.drive_fencing(now);
                }
                _ => {}
            }
        }
        let grace = self.scenario.grace;
        self.report.truly_tripped = node::ever_silent(&mut self.nodes, end, 0.75 * grace);
        self.report.nearly_tripped = node::ever_silent(&mut self.nodes, end, 0.45 * grace);
        self.report
    }

    fn round(&mut self, start: Time) {
        let latency = self.rng.i64(5_000..50_000);
        let end = Time::from_micros(start.as_micros() + latency);
        let (api_server, lists) = match self.scenario.event {
            Event::ApiOutage { seconds } if start >= at(0.0) && start < at(seconds) => {
                (Outcome::Failure, Lists::NotAsked)
            }
            Event::ListGap { seconds } if start >= at(0.0) && start < at(seconds) => {
                (Outcome::Success, Lists::Failed)
            }
            _ if self.rng.f64() < self.scenario.flaky => (Outcome::Success, Lists::Failed),
            _ => (Outcome::Success, self.list(start, end)),
        };
        let mut decision = self.judge.decide(&Observation {
            start,
            end,
            api_server,
            external: None,
            lists,
            throttled: None,
            fence: self.fencing.fence(),
            stands_by: false,
            released: self.fencing.released_at(),
            jitter: self.rng.f64(),
        });
        if self.scenario.policy == Policy::FixedPoll {
            decision.verdict = self.plain_rule(start);
            // It is told the deadline all the same: only the looking differs.
            let reserve = Settings::default().fence_reserve;
            let rush_at = decision
                .deadline
                .map_or(start, |deadline| deadline.before(reserve));
            decision.rush_at = (decision.verdict == Verdict::Fence).then_some(rush_at);
        }
        if decision.verdict == Verdict::Fence && self.report.tripped_after.is_none() {
            self.report.tripped_after = Some(start.seconds_after_event());
            let oldest = self
                .nodes
                .iter()
                .filter(|node| node.exists(start))
                .map(|node| node.renewed);
            self.report.longest_silence = oldest
                .map(|renewed| start.since(renewed))
                .max()
                .unwrap_or_default()
                .as_secs_f64();
            if let Rule::Tripped { cause, .. } = decision.reasons.rule {
                self.report.cause = Some(cause);
            }
        }
        assert!(
            decision.next_wake.at >= end,
            "the next look lies in the past"
        );
        let next = match self.scenario.policy {
            Policy::Deadline => decision.next_wake.at,
            Policy::FixedPoll => end.after_seconds(self.scenario.interval),
        };
        self.plan(next, Happening::Round);
        let _cut_off = self.fencing.steer(&decision);
        self.drive_fencing(end);
    }

    /// A lease is expired 0.75 G after its renewal; f of them expired is a fence.
    fn plain_rule(&self, now: Time) -> Verdict {
        let limit = seconds(0.75 * self.scenario.grace);
        let expired = self
            .nodes
            .iter()
            .filter(|node| now.since(node.renewed) >= limit)
            .count();
        if expired as f64 / self.nodes.len() as f64 >= 0.6 {
            Verdict::Fence
        } else {
            Verdict::Hold
        }
    }

    fn list(&mut self, start: Time, end: Time) -> Lists {
        let read_at = Time::from_micros(self.rng.i64(start.as_micros()..=end.as_micros()));
        for node in &mut self.nodes {
            node.advance(read_at);
        }
        let leases = self
            .nodes
            .iter()
            .filter(|node| node.exists(read_at))
            .map(|node| Lease {
                name: &node.name,
                renew_time: Some(node.value),
                duration_seconds: Some(40),
            });
        let listed = self.judge.read(Listing { start, end }, leases);
        if self.judge.nodes_due(&listed, self.fencing.fence()) {
            let facts: Vec<_> = self
                .nodes
                .iter()
                .filter(|node| node.exists(read_at))
                .map(|node| NodeFacts {
                    name: node.name.clone(),
                    ..NodeFacts::default()
                })
                .collect();
            self.judge
                .learn(Roster::new(&facts, None, &BTreeMap::new()), start);
        }
        Lists::Read(listed)
    }

    fn tick(&mut self, now: Time) {
        for node in &mut self.nodes {
            node.advance(now);
        }
        let api_down = matches!(self.scenario.event, Event::ApiOutage { seconds }
            if now >= at(0.0) && now < at(seconds));
        if self.targets.kcm_runs(now) && !api_down {
            self.report.unknown += self.kcm.tick(now, &self.nodes);
        } else if !self.targets.kcm_runs(now) {
            self.kcm.stop();
        }
        // A little over 5 s: the period starts when the work of a tick is done.
        let period = 5 * SECOND + self.rng.i64(1_000..20_000);
        self.plan(Time::from_micros(now.as_micros() + period), Happening::Tick);
    }

    fn drive_fencing(&mut self, now: Time) {
        for step in self.fencing.poll(now).steps {
            let latency = self.rng.i64(5_000..40_000);
            self.plan(
                Time::from_micros(now.as_micros() + latency),
                Happening::Done(step),
            );
        }
        if self.report.fenced_after.is_none() {
            self.report.fenced_after = self
                .targets
                .kcm_fenced_at()
                .map(AfterSeconds::seconds_after_event);
        }
        if let Some(at) = self.fencing.next_wake(now) {
            let at = at.max(now);
            if self.fencing_wake.is_none_or(|planned| at < planned) {
                self.fencing_wake = Some(at);
                self.plan(at, Happening::Fencing);
            }
        }
    }
}
