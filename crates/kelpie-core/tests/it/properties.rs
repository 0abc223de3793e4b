//! Properties of every decision, over arbitrary rounds.

use std::time::Duration;

use kelpie_core::Time;
use kelpie_core::prober::{
    Decision, Delays, EgressState, FenceState, LeaseRole, LeaseStatus, ListResult, ListSpan,
    Observation, ProbeResult, ProbeSettings, Rule, Thresholds, Throttle, Verdict, WakeReason,
};
use proptest::prelude::*;

use crate::evaluator_fixture::{
    EvaluatorFixture, SECOND, at, fraction, lease_list, name, node_set, nodes,
};

#[derive(Clone, Debug)]
struct AnyRound {
    pause: i64,
    duration: i64,
    api_server: ProbeResult,
    external: Option<ProbeResult>,
    egress: EgressState,
    listed: u8,
    throttled: Option<u64>,
    fence: FenceState,
    released: Option<u64>,
    jitter: f64,
    renewals: Vec<bool>,
}

fn any_result() -> impl Strategy<Value = ProbeResult> {
    prop_oneof![
        12 => Just(ProbeResult::Success),
        1 => Just(ProbeResult::Failure),
        1 => Just(ProbeResult::Transient),
    ]
}

fn any_egress() -> impl Strategy<Value = EgressState> {
    let (failing, probed) = (3, 4);
    prop_oneof![
        4 => Just(EgressState::Works),
        1 => Just(EgressState::Unclear),
        1 => Just(EgressState::Suspected { failing, probed }),
    ]
}

fn any_fence() -> impl Strategy<Value = FenceState> {
    prop_oneof![
        4 => Just(FenceState::None),
        1 => Just(FenceState::Unknown),
        1 => Just(FenceState::Partial),
        1 => Just(FenceState::Full),
    ]
}

prop_compose! {
    fn any_round()(
        pause in prop_oneof![0..SECOND, 0..15 * SECOND, 0..60 * SECOND],
        duration in prop_oneof![Just(0), 0..3 * SECOND],
        api_server in any_result(),
        external in prop::option::weighted(0.2, any_result()),
        egress in any_egress(),
        listed in 0_u8..10,
        throttled in prop::option::weighted(0.05, 0_u64..100),
        fence in any_fence(),
        released in prop::option::weighted(0.2, 0_u64..60),
        jitter in 0.0..1.0,
        renewals in prop::collection::vec(prop::bool::weighted(0.4), 12),
    ) -> AnyRound {
        AnyRound {
            pause, duration, api_server, external, egress, listed, throttled, fence, released,
            jitter, renewals,
        }
    }
}

fn any_settings() -> impl Strategy<Value = ProbeSettings> {
    (
        20_u64..60,
        1_u64..60,
        0.1..=1.0,
        0.1..=1.0,
        0_u64..6,
        1_u32..4,
        0_u64..40,
    )
        .prop_map(
            |(grace, interval, f, recovery, reserve, threshold, delay)| ProbeSettings {
                grace: Duration::from_secs(grace),
                probe_interval: Duration::from_secs(interval),
                failure_fraction: fraction(f),
                recovery_fraction: fraction(f * recovery),
                fence_reserve: Duration::from_secs(reserve),
                lease_thresholds: Thresholds {
                    success: threshold,
                    failure: threshold,
                },
                initial_delay: Duration::from_secs(delay),
                ..ProbeSettings::default()
            },
        )
}

/// Runs rounds and returns their decisions. `order` arranges the leases and nodes of each list.
fn run_rounds(
    settings: &ProbeSettings,
    rounds: &[AnyRound],
    order: impl Fn(&mut Vec<(String, Time)>),
    mut check: impl FnMut(&EvaluatorFixture, &Observation, &Decision) -> Result<(), TestCaseError>,
) -> Result<Vec<Decision>, TestCaseError> {
    let mut fixture = EvaluatorFixture::new(settings.clone(), at(0.0));
    let mut now = SECOND;
    let mut renewed = [at(0.0); 12];
    let mut decisions = Vec::new();
    for round in rounds {
        let start = Time::from_micros(now + round.pause);
        let end = Time::from_micros(start.as_micros() + round.duration);
        for (renewal, renews) in renewed.iter_mut().zip(&round.renewals) {
            if *renews {
                *renewal = Time::from_micros(start.as_micros() - SECOND / 2);
            }
        }
        let mut leases: Vec<_> = renewed
            .iter()
            .enumerate()
            .map(|(index, at)| (name(index), *at))
            .collect();
        order(&mut leases);
        let lists = match round.listed {
            _ if round.api_server != ProbeResult::Success => ListResult::NotAsked,
            0 => ListResult::Failed,
            _ => {
                let listed = fixture.evaluator.observe_leases(
                    ListSpan { start, end },
                    None,
                    lease_list(&leases),
                );
                if fixture.evaluator.nodes_due(&listed, round.fence) {
                    let names = leases.iter().map(|(name, _)| name.clone());
                    fixture
                        .evaluator
                        .observe_nodes(node_set(&nodes(names)), start);
                }
                ListResult::Read(listed)
            }
        };
        let observation = Observation {
            start,
            end,
            api_server: round.api_server,
            external: round.external,
            egress: round.egress,
            lists,
            throttled: round.throttled.map(|after| Throttle {
                retry_after: Some(Duration::from_secs(after)),
            }),
            fence: round.fence,
            stands_by: false,
            released: round
                .released
                .map(|ago| start.before(Duration::from_secs(ago))),
            delays: Delays::default(),
            jitter: round.jitter,
        };
        let decision = fixture.evaluator.decide(&observation);
        check(&fixture, &observation, &decision)?;
        decisions.push(decision);
        now = end.as_micros();
    }
    Ok(decisions)
}

/// Returns T, found by trying every instant at which a count can change.
fn trip_instant_by_search(
    fixture: &EvaluatorFixture,
    settings: &ProbeSettings,
    round: &Observation,
) -> Option<Time> {
    let (grace, now) = (settings.grace, round.start);
    let deadline =
        |lease: &LeaseStatus<'_>| lease.renewal.max(round.released).unwrap().after(grace);
    let leases: Vec<_> = fixture
        .evaluator
        .leases()
        .leases(grace)
        .filter(|lease| lease.role == LeaseRole::Candidate)
        .collect();
    let count = leases.len() as u32;
    let mut instants: Vec<Time> = leases
        .iter()
        .flat_map(|lease| {
            let deadline = deadline(lease);
            [
                lease.expires_at,
                lease.silent_at,
                deadline.before(settings.fence_reserve),
            ]
        })
        .filter(|instant| *instant > now)
        .collect();
    instants.sort_unstable();
    instants.into_iter().find(|instant| {
        let reached = |part: usize| settings.failure_fraction.is_reached(part as u32, count);
        let expired = leases
            .iter()
            .filter(|lease| lease.expires_at <= *instant)
            .count();
        let silent = leases
            .iter()
            .filter(|lease| lease.silent_at <= *instant)
            .count();
        let is_close = leases.iter().any(|lease| {
            let deadline = deadline(lease);
            deadline > *instant && deadline <= instant.after(settings.fence_reserve)
        });
        reached(expired) || (!settings.fence_reserve.is_zero() && is_close && reached(silent))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn next_wake_is_between_now_and_trip(
        settings in any_settings(),
        rounds in prop::collection::vec(any_round(), 1..40),
    ) {
        run_rounds(&settings, &rounds, |_| {}, |fixture, round, decision| {
            let wake = decision.next_wake;
            prop_assert!(wake.at >= round.end, "in the past: {decision}");
            let apart = wake.at.since(round.start);
            let least = match wake.reason {
                WakeReason::Trip => 100,
                WakeReason::Pressed => 300,
                _ => 1_000,
            };
            prop_assert!(apart >= Duration::from_millis(least), "a busy loop: {decision}");
            let soonest = round.end.max(round.start.after(Duration::from_millis(100)));
            if let Some(trip) = decision.reasons.trips_at {
                prop_assert!(wake.at <= trip.max(soonest), "after T: {decision}");
            }
            // T is right: nothing trips before the next round.
            let is_judged = matches!(decision.reasons.rule, Rule::LeasesRenewed)
                && decision.reasons.leases.is_some();
            if is_judged && round.throttled.is_none() && round.external.is_none() {
                let trip = trip_instant_by_search(fixture, &settings, round);
                if let Some(trip) = trip {
                    prop_assert!(wake.at <= trip.max(soonest), "T is {trip}: {decision}");
                }
                if let Some(claimed) = decision.reasons.trips_at {
                    prop_assert_eq!(Some(claimed), trip);
                }
            }
            Ok(())
        })?;
    }

    #[test]
    fn list_order_does_not_change_decisions(
        settings in any_settings(),
        rounds in prop::collection::vec(any_round(), 1..30),
        rng_seed in any::<u64>(),
    ) {
        let sorted = run_rounds(&settings, &rounds, |_| {}, |_, _, _| Ok(()))?;
        let shuffled = run_rounds(&settings, &rounds, |leases| {
            fastrand::Rng::with_seed(rng_seed).shuffle(leases);
        }, |_, _, _| Ok(()))?;
        prop_assert_eq!(sorted, shuffled);
    }

    #[test]
    fn restart_never_lifts_a_fence(
        settings in any_settings(),
        nodes in 2_usize..12,
        extra in 0_usize..12,
        unknown_rounds in 0_usize..4,
        pauses in prop::collection::vec(1..12_i64, 1..30),
        last_renewals in prop::collection::vec(1..120_i64, 12),
    ) {
        // At least the recovery fraction of the nodes stays silent, so the cluster has not
        // recovered.
        let quorum = settings.recovery_fraction.quorum(nodes as u32) as usize;
        let silent = (quorum + extra).min(nodes);
        let mut fixture = EvaluatorFixture::new(settings, at(1_000.0));
        let mut now = 1_000;
        for (index, pause) in pauses.iter().enumerate() {
            let leases: Vec<_> = (0..nodes)
                .map(|node| {
                    let renewed = if node < silent { 1_000 - last_renewals[node] } else { now - 1 };
                    (name(node), Time::from_micros(renewed * SECOND))
                })
                .collect();
            let is_unknown = index < unknown_rounds;
            fixture.fence = if is_unknown { FenceState::Unknown } else { FenceState::Full };
            let decision = fixture.round(Time::from_micros(now * SECOND), &leases);
            prop_assert_ne!(decision.verdict, Verdict::Release, "{}", decision);
            now += pause;
        }
    }
}
