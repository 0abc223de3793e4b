//! A model of one cluster in virtual time: kubelets, kube-controller-manager, targets and faults.
//! The decisions are made by the core, never by the model.

pub mod control_plane;
mod node;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use fastrand::Rng;
use kelpie_core::Time;
use kelpie_core::prober::fence::{Fencing, Step};
use kelpie_core::prober::{
    Delays, EgressState, Evaluator, Lease, ListResult, ListSpan, Node, NodeConventions, NodeSet,
    Observation, ProbeResult, ProbeSettings, Rule, TripCause, Verdict,
};

use control_plane::{ModelNodeController, Targets};
pub use node::{Clocks, ModelNode};

pub const SECOND: i64 = 1_000_000;

pub fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// A disruption of the cluster at [`RaceScenario::DISRUPTION_AT`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Disruption {
    /// All kubelets lose the API server for good.
    Partition,
    /// This share of the kubelets, such as a zone or a subnet, loses the API server for good.
    PartialPartition { share: f64 },
    /// All kubelets lose the API server for this long.
    Hiccup { seconds: f64 },
    /// The nodes restart one after the other. Each is silent for a minute or two.
    RollingRestart,
    /// Nodes are added and removed.
    Autoscaling,
    /// One node dies. The others are not affected.
    OneDeadNode,
    /// The API server is down for all clients.
    ApiOutage { seconds: f64 },
    /// Only the prober's lists fail.
    ListGap { seconds: f64 },
}

/// The scheduling of the rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Policy {
    /// The next round starts when the decision says.
    Deadline,
    /// The next round starts after a fixed interval, and the verdict depends only on 0.75 G and f.
    FixedPoll,
}

#[derive(Clone, Copy, Debug)]
pub struct RaceScenario {
    pub nodes: usize,
    pub grace: f64,
    pub interval: f64,
    pub clocks: Clocks,
    pub disruption: Disruption,
    pub policy: Policy,
    /// The share of the prober's lists that fail.
    pub flaky: f64,
    pub rng_seed: u64,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct RaceReport {
    /// The number of nodes that turned Unknown.
    pub unknown: u32,
    /// The seconds from the disruption to the first trip.
    pub tripped_after: Option<f64>,
    pub cause: Option<TripCause>,
    /// The seconds from the disruption to the scale-down of kube-controller-manager.
    pub fenced_after: Option<f64>,
    /// At some instant, f of the nodes had really not renewed for 0.75 G.
    pub truly_tripped: bool,
    /// The same with a tolerance of 0.3 G, the time between two lists, for the error of a clock.
    pub nearly_tripped: bool,
    /// The longest time since a true renewal of any node at the first trip, in seconds.
    pub longest_silence: f64,
}

impl RaceScenario {
    /// The instant of the disruption, long enough after the start to reach a steady state.
    pub const DISRUPTION_AT: i64 = 300 * SECOND;

    pub fn run(&self) -> RaceReport {
        RaceSimulation::new(self).run()
    }

    fn end(&self) -> Time {
        let length = match self.disruption {
            Disruption::Partition | Disruption::PartialPartition { .. } => self.grace + 35.0,
            Disruption::RollingRestart | Disruption::Autoscaling | Disruption::OneDeadNode => 240.0,
            Disruption::Hiccup { seconds } => seconds + self.grace + 30.0,
            Disruption::ApiOutage { seconds } | Disruption::ListGap { seconds } => seconds + 120.0,
        };
        at(length)
    }
}

/// Returns the instant this many seconds after the disruption.
pub fn at(seconds: f64) -> Time {
    Time::from_micros(RaceScenario::DISRUPTION_AT).after_seconds(seconds)
}

trait AfterSeconds {
    fn after_seconds(self, seconds: f64) -> Self;
    fn seconds_after_disruption(self) -> f64;
}

impl AfterSeconds for Time {
    fn after_seconds(self, seconds: f64) -> Self {
        Time::from_micros(self.as_micros() + (seconds * SECOND as f64) as i64)
    }

    fn seconds_after_disruption(self) -> f64 {
        (self.as_micros() - RaceScenario::DISRUPTION_AT) as f64 / SECOND as f64
    }
}

enum ModelEvent {
    Round,
    Tick,
    Fencing,
    StepDone(Step),
}

/// The state of a run.
struct RaceSimulation<'s> {
    scenario: &'s RaceScenario,
    rng: Rng,
    nodes: Vec<ModelNode>,
    node_controller: ModelNodeController,
    targets: Targets,
    evaluator: Evaluator,
    fencing: Fencing,
    queue: BinaryHeap<Reverse<(Time, u64)>>,
    events: Vec<Option<ModelEvent>>,
    fencing_wake: Option<Time>,
    report: RaceReport,
}

impl<'s> RaceSimulation<'s> {
    fn new(scenario: &'s RaceScenario) -> Self {
        let mut rng = Rng::with_seed(scenario.rng_seed);
        let nodes = node::model_nodes(scenario, &mut rng);
        let settings = ProbeSettings {
            grace: seconds(scenario.grace),
            probe_interval: seconds(scenario.interval),
            ..ProbeSettings::default()
        };
        let started = Time::from_micros(rng.i64(0..30 * SECOND));
        let mut simulation = Self {
            node_controller: ModelNodeController::new(nodes.len(), scenario.grace),
            nodes,
            targets: Targets::gardener(),
            evaluator: Evaluator::new(settings, started),
            fencing: Fencing::new(control_plane::gardener_targets().into()),
            queue: BinaryHeap::new(),
            events: Vec::new(),
            fencing_wake: None,
            report: RaceReport::default(),
            scenario,
            rng,
        };
        let first_tick = Time::from_micros(simulation.rng.i64(0..5 * SECOND));
        simulation.schedule(started, ModelEvent::Round);
        simulation.schedule(first_tick, ModelEvent::Tick);
        simulation
    }

    fn schedule(&mut self, at: Time, event: ModelEvent) {
        self.queue.push(Reverse((at, self.events.len() as u64)));
        self.events.push(Some(event));
    }

    fn run(mut self) -> RaceReport {
        let end = self.scenario.end();
        while let Some(Reverse((now, id))) = self.queue.pop() {
            if now > end {
                break;
            }
            match self.events[id as usize].take() {
                Some(ModelEvent::Round) => self.round(now),
                Some(ModelEvent::Tick) => self.tick(now),
                Some(ModelEvent::Fencing) if self.fencing_wake == Some(now) => {
                    self.fencing_wake = None;
                    self.drive_fencing(now);
                }
                Some(ModelEvent::StepDone(step)) => {
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
        let (api_server, lists) = match self.scenario.disruption {
            Disruption::ApiOutage { seconds } if start >= at(0.0) && start < at(seconds) => {
                (ProbeResult::Failure, ListResult::NotAsked)
            }
            Disruption::ListGap { seconds } if start >= at(0.0) && start < at(seconds) => {
                (ProbeResult::Success, ListResult::Failed)
            }
            _ if self.rng.f64() < self.scenario.flaky => (ProbeResult::Success, ListResult::Failed),
            _ => (ProbeResult::Success, self.list(start, end)),
        };
        let mut decision = self.evaluator.decide(&Observation {
            start,
            end,
            api_server,
            external: None,
            egress: EgressState::Works,
            lists,
            throttled: None,
            fence: self.fencing.fence(),
            stands_by: false,
            released: self.fencing.released_at(),
            delays: Delays::default(),
            jitter: self.rng.f64(),
        });
        if self.scenario.policy == Policy::FixedPoll {
            decision.verdict = self.fixed_poll_verdict(start);
            // It gets the deadline all the same. Only the scheduling of the rounds differs.
            let reserve = ProbeSettings::default().fence_reserve;
            let parallel_from = decision
                .deadline
                .map_or(start, |deadline| deadline.before(reserve));
            decision.parallel_from = (decision.verdict == Verdict::Fence).then_some(parallel_from);
        }
        if decision.verdict == Verdict::Fence && self.report.tripped_after.is_none() {
            self.report.tripped_after = Some(start.seconds_after_disruption());
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
            "the next round is in the past"
        );
        let next = match self.scenario.policy {
            Policy::Deadline => decision.next_wake.at,
            Policy::FixedPoll => end.after_seconds(self.scenario.interval),
        };
        self.schedule(next, ModelEvent::Round);
        let _cancelled = self.fencing.apply(&decision);
        self.drive_fencing(end);
    }

    /// Returns the verdict of a fixed poll: f of the leases not renewed for 0.75 G is a fence.
    fn fixed_poll_verdict(&self, now: Time) -> Verdict {
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

    fn list(&mut self, start: Time, end: Time) -> ListResult {
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
        let listed = self
            .evaluator
            .observe_leases(ListSpan { start, end }, None, leases);
        if self.evaluator.nodes_due(&listed, self.fencing.fence()) {
            let members: Vec<_> = self
                .nodes
                .iter()
                .filter(|node| node.exists(read_at))
                .map(|node| Node {
                    name: node.name.clone(),
                    ..Node::default()
                })
                .collect();
            self.evaluator.observe_nodes(
                NodeSet::new(
                    &members,
                    None,
                    &BTreeMap::new(),
                    &NodeConventions::default(),
                ),
                start,
            );
        }
        ListResult::Read(listed)
    }

    fn tick(&mut self, now: Time) {
        for node in &mut self.nodes {
            node.advance(now);
        }
        let api_down = matches!(self.scenario.disruption, Disruption::ApiOutage { seconds }
            if now >= at(0.0) && now < at(seconds));
        if self.targets.kcm_runs(now) && !api_down {
            self.report.unknown += self.node_controller.tick(now, &self.nodes);
        } else if !self.targets.kcm_runs(now) {
            self.node_controller.stop();
        }
        // A little over 5 s, because the period starts at the end of a tick.
        let period = 5 * SECOND + self.rng.i64(1_000..20_000);
        self.schedule(
            Time::from_micros(now.as_micros() + period),
            ModelEvent::Tick,
        );
    }

    fn drive_fencing(&mut self, now: Time) {
        for step in self.fencing.poll(now).steps {
            let latency = self.rng.i64(5_000..40_000);
            self.schedule(
                Time::from_micros(now.as_micros() + latency),
                ModelEvent::StepDone(step),
            );
        }
        if self.report.fenced_after.is_none() {
            self.report.fenced_after = self
                .targets
                .kcm_fenced_at()
                .map(AfterSeconds::seconds_after_disruption);
        }
        if let Some(at) = self.fencing.next_wake(now) {
            let at = at.max(now);
            if self.fencing_wake.is_none_or(|planned| at < planned) {
                self.fencing_wake = Some(at);
                self.schedule(at, ModelEvent::Fencing);
            }
        }
    }
}
