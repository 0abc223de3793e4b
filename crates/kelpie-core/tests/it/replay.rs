//! An evaluator that is saved and restored decides what it would have decided.

use std::time::Duration;

use kelpie_core::Fraction;
use kelpie_core::Time;
use kelpie_core::prober::replay::{Alternative, ClusterReplay, EvaluatorState};
use kelpie_core::prober::replay::{RecordedInput, RecordedRound};
use kelpie_core::prober::{
    Decision, Delays, Evaluator, FenceState, Lease, ListResult, ListSpan, MachinePhase, Machines,
    Observation, ProbeResult, ProbeSettings, Verdict,
};
use proptest::prelude::*;

use crate::evaluator_fixture::{at, name, node_set, nodes, observation, settings};

const NODES: usize = 5;

/// One step of a cluster's life.
#[derive(Clone, Debug)]
struct Step {
    millis: u32,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    /// A list in which these nodes have renewed, possibly with the version before.
    List {
        renewed: [bool; NODES],
        is_old: bool,
    },
    Failed(u8),
    Review,
    Nodes,
    Machines(bool),
    Grace(Option<u8>),
}

fn what() -> impl Strategy<Value = What> {
    prop_oneof![
        8 => (any::<[bool; NODES]>(), prop::bool::weighted(0.1))
            .prop_map(|(renewed, is_old)| What::List { renewed, is_old }),
        2 => (0_u8..3).prop_map(What::Failed),
        2 => Just(What::Review),
        1 => Just(What::Nodes),
        1 => any::<bool>().prop_map(What::Machines),
        1 => prop::option::of(20_u8..80).prop_map(What::Grace),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (1_u32..15_000, what()).prop_map(|(millis, what)| Step { millis, what });
    prop::collection::vec(step, 1..60)
}

/// The world round a replay: it makes the inputs of each step.
struct World {
    now: Time,
    renewals: [Time; NODES],
    version: u64,
    fence: FenceState,
}

impl World {
    fn new() -> Self {
        Self {
            now: at(1_000.0),
            renewals: [at(995.0); NODES],
            version: 100,
            fence: FenceState::Unknown,
        }
    }

    /// Plays a step with every replay, and returns the decision of each.
    fn play(&mut self, step: &Step, replays: &mut [&mut ClusterReplay]) -> Vec<Option<Decision>> {
        self.now = self.now.after(Duration::from_millis(step.millis.into()));
        let now = self.now;
        let mut seen = observation(now, ListResult::NotAsked);
        seen.fence = self.fence;
        seen.jitter = 1.0 / 3.0;
        seen.delays = Delays {
            write: Duration::from_nanos(1_234_567),
            ..Delays::default()
        };
        let names: Vec<String> = (0..NODES).map(name).collect();
        let inputs = |replay: &mut ClusterReplay, world: &Self| match &step.what {
            What::List { is_old, .. } => {
                let span = ListSpan {
                    start: now,
                    end: now,
                };
                let version = if *is_old { 50 } else { world.version };
                let leases = names
                    .iter()
                    .zip(world.renewals)
                    .map(|(name, renewal)| Lease {
                        name,
                        renew_time: Some(renewal),
                        duration_seconds: Some(40),
                    });
                replay.observe(RecordedInput::Leases(span, Some(version), leases));
            }
            What::Nodes => {
                let nodes = node_set(&nodes(names.clone()));
                replay.observe(RecordedInput::<[Lease<'_>; 0]>::Nodes(nodes, now));
            }
            What::Machines(all) => {
                let alive = names.iter().skip(usize::from(!all));
                let machines: Machines = alive
                    .map(|name| (name.as_str(), MachinePhase::Alive))
                    .collect();
                let input = RecordedInput::<[Lease<'_>; 0]>::Machines(Some(machines), *all);
                replay.observe(input);
            }
            What::Grace(seconds) => {
                let own = seconds.map(|seconds| Duration::from_secs(seconds.into()));
                replay.observe(RecordedInput::<[Lease<'_>; 0]>::Grace(own));
            }
            What::Failed(_) | What::Review => {}
        };
        let round = match &step.what {
            What::List { renewed, .. } => {
                for (renewal, _) in self.renewals.iter_mut().zip(renewed).filter(|(_, r)| **r) {
                    *renewal = now;
                }
                self.version += 1;
                Some(read(seen))
            }
            What::Failed(how) => {
                seen.api_server = ProbeResult::Failure;
                seen.lists = match how {
                    0 => ListResult::Failed,
                    1 => ListResult::Refused,
                    _ => ListResult::Denied,
                };
                Some(RecordedRound::new(&seen))
            }
            What::Review => Some(RecordedRound::new(&seen)),
            What::Nodes | What::Machines(_) | What::Grace(_) => None,
        };
        let decisions: Vec<_> = replays
            .iter_mut()
            .map(|replay| {
                inputs(replay, self);
                round.map(|round| replay.decide(&round))
            })
            .collect();
        if let Some(Some(decision)) = decisions.first() {
            self.fence = match decision.verdict {
                Verdict::Fence => FenceState::Full,
                Verdict::Release => FenceState::None,
                Verdict::Hold => self.fence,
            };
        }
        decisions
    }
}

/// Returns a round whose list was read.
fn read(seen: Observation) -> RecordedRound {
    let mut json = serde_json::to_value(RecordedRound::new(&seen)).unwrap();
    json["lists"] = "read".into();
    serde_json::from_value(json).unwrap()
}

fn fresh(settings: ProbeSettings) -> ClusterReplay {
    let state = EvaluatorState {
        evaluator: Evaluator::new(settings.clone(), at(1_000.0)),
        listed: None,
    };
    ClusterReplay::new(state, settings)
}

/// Saves a state as JSON and restores it.
fn through_json(replay: &ClusterReplay) -> ClusterReplay {
    let json = serde_json::to_string(&replay.state()).unwrap();
    let state: EvaluatorState = serde_json::from_str(&json).unwrap();
    assert_eq!(serde_json::to_string(&state).unwrap(), json);
    ClusterReplay::new(state, settings())
}

proptest! {
    #[test]
    fn restored_state_decides_the_same(before in steps(), after in steps()) {
        let mut world = World::new();
        let mut original = fresh(settings());
        for step in &before {
            world.play(step, &mut [&mut original]);
        }
        let mut restored = through_json(&original);
        for step in &after {
            let decisions = world.play(step, &mut [&mut original, &mut restored]);
            prop_assert_eq!(decisions[0], decisions[1]);
        }
    }

    #[test]
    fn round_survives_json(jitter in any::<u64>(), nanos in any::<u64>(), micros in any::<i64>()) {
        let mut seen = observation(Time::from_micros(micros), ListResult::Denied);
        seen.jitter = f64::from_bits(jitter);
        seen.delays.wake = Duration::from_nanos(nanos);
        let round = RecordedRound::new(&seen);
        let json = serde_json::to_string(&round).unwrap();
        prop_assert_eq!(serde_json::from_str::<RecordedRound>(&json).unwrap(), round);
    }
}

/// Plays three of five nodes that fall silent after a minute. Returns the instant at which each
/// side first wants a fence.
fn play_silence(recorded: ProbeSettings, other: ProbeSettings) -> (Option<Time>, Option<Time>) {
    let mut world = World::new();
    let mut replay = fresh(recorded);
    let mut alternative = Alternative::new(fresh(other.clone()).state(), other);
    let names: Vec<String> = (0..NODES).map(name).collect();
    let (mut first, mut first_other) = (None, None);
    for round in 0..90_u8 {
        world.now = world.now.after(Duration::from_secs(2));
        let now = world.now;
        for (index, renewal) in world.renewals.iter_mut().enumerate() {
            if round % 5 == 0 && (round < 30 || index < 2) {
                *renewal = now;
            }
        }
        world.version += 1;
        let span = ListSpan {
            start: now,
            end: now,
        };
        let leases = || {
            names
                .iter()
                .zip(world.renewals)
                .map(|(name, renewal)| Lease {
                    name,
                    renew_time: Some(renewal),
                    duration_seconds: Some(40),
                })
        };
        let mut note = |at: Time, decision: &Decision| {
            if decision.verdict == Verdict::Fence {
                first_other.get_or_insert(at);
            }
        };
        replay.observe(RecordedInput::Leases(span, Some(world.version), leases()));
        alternative.observe(
            RecordedInput::Leases(span, Some(world.version), leases()),
            &mut note,
        );
        if round == 0 {
            let set = || node_set(&nodes(names.clone()));
            replay.observe(RecordedInput::<[Lease<'_>; 0]>::Nodes(set(), now));
            alternative.observe(
                RecordedInput::<[Lease<'_>; 0]>::Nodes(set(), now),
                &mut note,
            );
        }
        let mut seen = observation(now, ListResult::NotAsked);
        seen.fence = world.fence;
        let round = read(seen);
        let decision = replay.decide(&round);
        if decision.verdict == Verdict::Fence {
            first.get_or_insert(now);
            world.fence = FenceState::Full;
        } else {
            world.fence = FenceState::None;
        }
        alternative.decide(&round, decision.verdict, &mut note);
    }
    (first, first_other)
}

#[test]
fn other_settings_decide_as_the_core_says() {
    let with = |grace: u64, fraction: f64| ProbeSettings {
        grace: Duration::from_secs(grace),
        failure_fraction: Fraction::new(fraction).unwrap(),
        recovery_fraction: Fraction::new(fraction.min(0.6)).unwrap(),
        fence_reserve: Duration::ZERO,
        ..settings()
    };
    // The last renewals are at 1052 s, and leases expire after three quarters of the grace period.
    let expiry = |grace: f64| Some(at(1_052.0 + 0.75 * grace));
    let rows = [
        ("same", with(40, 0.6), expiry(40.0)),
        ("longer grace period", with(80, 0.6), expiry(80.0)),
        ("shorter grace period", with(24, 0.6), expiry(24.0)),
        ("fraction that is not reached", with(40, 0.8), None),
        ("smaller fraction", with(40, 0.3), expiry(40.0)),
    ];
    for (name, other, expected) in rows {
        let (recorded, replayed) = play_silence(with(40, 0.6), other);
        assert_eq!(recorded, expiry(40.0), "{name}");
        assert_eq!(replayed, expected, "{name}");
    }
}
