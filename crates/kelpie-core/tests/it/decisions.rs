//! The verdict, row by row, and what every decision promises.

use std::time::Duration;

use kelpie_core::{
    Decision, Fence, Fraction, Listing, Lists, Observation, Outcome, Rule, Settings, Thresholds,
    Throttle, Time, TripCause, Verdict, WakeReason,
};
use proptest::prelude::*;

use crate::stage::{SECOND, Stage, at, lease_list, name, nodes, roster, seen, settings};

fn fraction(value: f64) -> Fraction {
    Fraction::new(value).unwrap()
}

/// Leases of `total` nodes; the first `silent` last renewed at 0, the others just before `now`.
fn leases(total: usize, silent: usize, now: f64) -> Vec<(String, Time)> {
    (0..total)
        .map(|index| {
            (
                name(index),
                if index < silent {
                    at(0.0)
                } else {
                    at(now - 1.0)
                },
            )
        })
        .collect()
}

/// Rounds every 10 s over ten nodes of which `silent` stop renewing at 0; the decision at 30 s.
fn after_silence(settings: Settings, silent: usize) -> (Stage, Decision) {
    let mut stage = Stage::new(settings, at(-30.0));
    for now in [-30.0, -20.0, -10.0] {
        stage.round(at(now), &leases(10, 0, now));
    }
    for now in [0.0, 10.0, 20.0] {
        stage.round(at(now), &leases(10, silent, now));
    }
    let decision = stage.round(at(30.0), &leases(10, silent, 30.0));
    (stage, decision)
}

#[test]
fn six_of_ten_expired_leases_are_a_fence_and_five_are_not() {
    let (_, six) = after_silence(settings(), 6);
    assert_eq!(six.verdict, Verdict::Fence);
    assert_eq!(
        six.reasons.rule,
        Rule::Tripped {
            since: at(30.0),
            cause: TripCause::Expired
        }
    );
    assert_eq!(six.deadline, Some(at(40.0)));
    let (_, five) = after_silence(settings(), 5);
    assert_eq!(
        (five.verdict, five.reasons.rule),
        (Verdict::Release, Rule::Well)
    );
}

#[test]
fn an_api_server_that_is_not_healthy_holds_whatever_the_leases_say() {
    let (mut stage, _) = after_silence(settings(), 10);
    for outcome in [
        Outcome::Failure,
        Outcome::Failure,
        Outcome::Failure,
        Outcome::Transient,
    ] {
        let round = Observation {
            api_server: outcome,
            ..seen(at(31.0), Lists::NotAsked)
        };
        let decision = stage.judge.decide(&round);
        assert_eq!(decision.reasons.rule, Rule::ApiServerNotHealthy);
        assert_eq!(decision.verdict, Verdict::Hold);
    }
}

#[test]
fn an_unhealthy_external_path_fences_even_where_a_list_failed() {
    let mut stage = Stage::new(settings(), at(0.0));
    let round = |now: f64, lists| Observation {
        external: Some(Outcome::Failure),
        ..seen(at(now), lists)
    };
    for now in [0.0, 1.0] {
        let lists = Lists::Read(stage.list(at(now), &leases(10, 0, now)));
        assert_eq!(
            stage.judge.decide(&round(now, lists)).verdict,
            Verdict::Hold,
            "{now}"
        );
    }
    let decision = stage.judge.decide(&round(2.0, Lists::Failed));
    assert_eq!(decision.reasons.rule, Rule::ExternalUnhealthy);
    assert_eq!(decision.verdict, Verdict::Fence);
}

#[test]
fn a_healthy_cluster_whose_external_path_is_not_yet_healthy_holds() {
    let mut stage = Stage::new(settings(), at(0.0));
    for now in [0.0, 10.0, 20.0] {
        let lists = Lists::Read(stage.list(at(now), &leases(10, 0, now)));
        let external = if now > 15.0 {
            Outcome::Success
        } else {
            Outcome::Transient
        };
        let round = Observation {
            external: Some(external),
            ..seen(at(now), lists)
        };
        let verdict = stage.judge.decide(&round).verdict;
        assert_eq!(
            verdict,
            if now > 15.0 {
                Verdict::Release
            } else {
                Verdict::Hold
            },
            "{now}"
        );
    }
}

#[test]
fn a_failed_list_holds_and_leaves_the_counts_alone() {
    let (mut stage, _) = after_silence(settings(), 10);
    for lists in [Lists::Failed, Lists::NotAsked] {
        let decision = stage.judge.decide(&seen(at(31.0), lists));
        assert_eq!(
            (decision.verdict, decision.reasons.rule),
            (Verdict::Hold, Rule::ListFailed)
        );
        assert_eq!(decision.deadline, Some(at(40.0)), "the last known one");
    }
    assert_eq!(
        stage.round(at(32.0), &leases(10, 10, 32.0)).verdict,
        Verdict::Fence
    );
}

#[test]
fn a_cluster_without_nodes_is_released() {
    let (mut stage, decision) = after_silence(settings(), 10);
    assert_eq!(decision.verdict, Verdict::Fence);
    let listed = stage.list(at(31.0), &[]);
    stage.judge.learn(roster(&[]), at(31.0));
    let decision = stage.judge.decide(&seen(at(31.0), Lists::Read(listed)));
    assert_eq!(
        (decision.verdict, decision.reasons.rule),
        (Verdict::Release, Rule::NoNodes)
    );
}

#[test]
fn where_every_node_is_filtered_out_no_fence_is_made_and_all_nodes_leases_lift_one() {
    let excluded = || {
        let mut nodes = nodes((0..10).map(name));
        for node in &mut nodes {
            node.unmanaged = true;
        }
        roster(&nodes)
    };
    let decide = |stage: &mut Stage, now: f64, silent: usize| {
        let listed = stage.list(at(now), &leases(10, silent, now));
        stage.judge.learn(excluded(), at(now));
        stage.judge.decide(&seen(at(now), Lists::Read(listed)))
    };
    let (mut stage, _) = after_silence(settings(), 5);
    let decision = decide(&mut stage, 31.0, 10);
    assert_eq!(
        decision.reasons.rule,
        Rule::NoCandidates { well: true },
        "no new fence"
    );
    assert_eq!(decision.reasons.leases.unwrap().excluded.total(), 10);

    let (mut stage, decision) = after_silence(settings(), 10);
    assert_eq!(decision.verdict, Verdict::Fence);
    let decision = decide(&mut stage, 31.0, 10);
    assert_eq!(
        (decision.verdict, decision.reasons.rule),
        (Verdict::Hold, Rule::NoCandidates { well: false },)
    );
    let decision = decide(&mut stage, 35.0, 2);
    assert_eq!(
        decision.verdict,
        Verdict::Release,
        "eight of ten renewed since the trip"
    );
}

#[test]
fn too_few_candidates_cause_no_fence_but_may_lift_one() {
    let settings = Settings {
        min_candidates: 11,
        ..settings()
    };
    let (mut stage, decision) = after_silence(settings, 10);
    assert_eq!(
        (decision.verdict, decision.reasons.rule),
        (Verdict::Hold, Rule::TooFewCandidates { required: 11 },)
    );
    assert_eq!(
        stage.round(at(35.0), &leases(10, 0, 35.0)).verdict,
        Verdict::Release
    );
}

#[test]
fn after_a_trip_the_cluster_is_well_when_enough_have_renewed_since() {
    let settings = Settings {
        recovery_fraction: fraction(0.3),
        ..settings()
    };
    let (mut stage, _) = after_silence(settings, 6);
    assert_eq!(
        stage.round(at(31.0), &leases(10, 6, 30.5)).verdict,
        Verdict::Fence,
        "what renewed before the trip does not count"
    );
    assert_eq!(
        stage.round(at(36.0), &leases(10, 3, 36.0)).verdict,
        Verdict::Fence,
        "three of ten is not below 30 %"
    );
    assert_eq!(
        stage.round(at(37.0), &leases(10, 2, 37.0)).verdict,
        Verdict::Release
    );
}

#[test]
fn last_call_fences_a_small_cluster_before_its_first_node_is_lost() {
    let mut stage = Stage::new(settings(), at(-30.0));
    let renewed = |early: f64, late: f64| vec![(name(0), at(early)), (name(1), at(late))];
    for now in [-30.0, -20.0, -10.0] {
        stage.round(at(now), &renewed(now - 9.9, now));
    }
    stage.round(at(0.0), &renewed(-9.9, 0.0));
    let decision = stage.round(at(10.0), &renewed(-9.9, 0.0));
    assert_eq!(decision.verdict, Verdict::Release);
    let decision = stage.round(at(20.1), &renewed(-9.9, 0.0));
    assert_eq!(decision.deadline, Some(at(30.1)));
    assert_eq!(
        decision.reasons.trips_at,
        Some(at(27.1)),
        "3 s before the deadline"
    );
    assert_eq!(decision.next_wake.at, at(27.1));
    let decision = stage.round(at(27.1), &renewed(-9.9, 0.0));
    assert_eq!(
        decision.reasons.rule,
        Rule::Tripped {
            since: at(27.1),
            cause: TripCause::LastCall
        }
    );

    let without = Settings {
        fence_reserve: Duration::ZERO,
        ..settings()
    };
    let mut stage = Stage::new(without, at(-30.0));
    for now in [-30.0, -20.0, -10.0, 0.0] {
        stage.round(at(now), &renewed(now - 9.9, now));
    }
    stage.round(at(10.0), &renewed(-9.9, 0.0));
    assert_eq!(
        stage.round(at(20.1), &renewed(-9.9, 0.0)).reasons.trips_at,
        Some(at(30.0)),
        "off"
    );
}

#[test]
fn lease_failures_are_counted_once_a_second() {
    let lease_thresholds = Thresholds {
        success: 2,
        failure: 3,
    };
    let (mut stage, first) = after_silence(
        Settings {
            lease_thresholds,
            ..settings()
        },
        10,
    );
    assert_eq!(
        (first.verdict, first.next_wake.reason),
        (Verdict::Hold, WakeReason::Hurry)
    );
    assert_eq!(first.next_wake.at, at(31.0));
    assert_eq!(
        stage.round(at(31.0), &leases(10, 10, 31.0)).verdict,
        Verdict::Hold
    );
    assert_eq!(
        stage.round(at(32.0), &leases(10, 10, 32.0)).verdict,
        Verdict::Fence
    );
    assert_eq!(
        stage.round(at(36.0), &leases(10, 0, 36.0)).verdict,
        Verdict::Hold
    );
    assert_eq!(
        stage.round(at(37.0), &leases(10, 0, 37.0)).verdict,
        Verdict::Release
    );
}

#[test]
fn a_cluster_s_own_grace_period_wins_also_while_running() {
    let patient = Settings {
        grace: Duration::from_mins(1),
        ..settings()
    };
    let (mut stage, decision) = after_silence(patient, 10);
    assert_eq!(decision.verdict, Verdict::Release, "expired after 45 s");
    stage.judge.set_grace(Some(Duration::from_secs(40)));
    assert_eq!(
        stage.round(at(31.0), &leases(10, 10, 31.0)).verdict,
        Verdict::Fence
    );
    let (mut stage, _) = after_silence(settings(), 5);
    stage.judge.set_grace(Some(Duration::from_secs(80)));
    stage.judge.set_grace(None);
    assert_eq!(
        stage.round(at(31.0), &leases(10, 5, 31.0)).deadline,
        Some(at(40.0))
    );
}

#[test]
fn a_release_gives_every_node_a_whole_grace_period() {
    let (mut stage, _) = after_silence(settings(), 5);
    stage.judge.set_released(at(29.0));
    let decision = stage.round(at(31.0), &leases(10, 5, 31.0));
    assert_eq!(
        decision.deadline,
        Some(at(69.0)),
        "a new kube-controller-manager has no memory"
    );
}

#[test]
fn the_initial_delay_only_observes() {
    let mut stage = Stage::new(
        Settings {
            initial_delay: Duration::from_secs(30),
            ..settings()
        },
        at(0.0),
    );
    for now in [0.0, 10.0, 20.0] {
        let decision = stage.round(at(now), &leases(10, 10, 20.0));
        assert_eq!(
            decision.reasons.rule,
            Rule::InitialDelay { until: at(30.0) }
        );
    }
    let decision = stage.round(at(25.0), &leases(10, 10, 20.0));
    assert_eq!(
        decision.next_wake,
        kelpie_core::Wake {
            at: at(30.0),
            reason: WakeReason::FirstJudgement
        }
    );
    assert_eq!(
        stage.round(at(30.0), &leases(10, 10, 20.0)).verdict,
        Verdict::Fence
    );
}

#[test]
fn an_api_server_outage_does_not_end_in_a_fence() {
    let (mut stage, _) = after_silence(settings(), 5);
    for second in 31..90 {
        let now = f64::from(second);
        let round = Observation {
            api_server: Outcome::Failure,
            ..seen(at(now), Lists::NotAsked)
        };
        stage.judge.decide(&round);
    }
    // Nobody could renew. The kubelets have 15 s from the first list.
    for now in [90.0, 95.0, 100.0, 104.0] {
        let decision = stage.round(at(now), &leases(10, 10, now));
        assert_ne!(decision.verdict, Verdict::Fence, "{now}");
    }
    assert_eq!(
        stage.round(at(105.0), &leases(10, 10, 105.0)).verdict,
        Verdict::Fence
    );
}

// === the schedule ===

#[test]
fn a_healthy_cluster_is_looked_at_every_interval_or_three_tenths_of_the_grace_period() {
    let next = |interval: u64, jitter: f64, random: f64, takes: f64| {
        let settings = Settings {
            probe_interval: Duration::from_secs(interval),
            jitter,
            ..settings()
        };
        let mut stage = Stage::new(settings, at(0.0));
        let lists = Lists::Read(stage.list(at(0.0), &leases(10, 0, 0.0)));
        let end = at(takes);
        let wake = stage.judge.decide(&Observation {
            jitter: random,
            end,
            ..seen(at(0.0), lists)
        });
        (wake.next_wake.at, wake.next_wake.reason)
    };
    assert_eq!(next(10, 0.2, 0.0, 0.0), (at(10.0), WakeReason::Interval));
    assert_eq!(
        next(10, 0.2, 0.5, 0.5),
        (at(11.5), WakeReason::Interval),
        "sliding"
    );
    assert_eq!(next(30, 0.2, 0.0, 0.0), (at(12.0), WakeReason::Freshness));
    assert_eq!(next(5, 0.0, f64::NAN, 0.0), (at(5.0), WakeReason::Interval));
}

#[test]
fn failures_of_the_api_server_are_repeated_after_a_second_then_paused_then_every_interval() {
    let mut stage = Stage::new(settings(), at(0.0));
    let mut fail = |now: f64| {
        let round = Observation {
            api_server: Outcome::Failure,
            ..seen(at(now), Lists::NotAsked)
        };
        let wake = stage.judge.decide(&round).next_wake;
        (wake.at.since(at(now)).as_secs(), wake.reason)
    };
    assert_eq!(fail(0.0), (1, WakeReason::Recheck));
    assert_eq!(fail(1.0), (1, WakeReason::Recheck));
    assert_eq!(fail(2.0), (30, WakeReason::Pause));
    assert_eq!(fail(32.0), (10, WakeReason::Interval));
}

#[test]
fn failed_lists_are_repeated_ever_more_slowly() {
    let mut stage = Stage::new(settings(), at(0.0));
    let mut fail = |now: f64| {
        stage
            .judge
            .decide(&seen(at(now), Lists::Failed))
            .next_wake
            .at
            .since(at(now))
            .as_secs()
    };
    assert_eq!(
        [fail(0.0), fail(1.0), fail(3.0), fail(7.0), fail(15.0)],
        [1, 2, 4, 8, 10]
    );
}

#[test]
fn throttling_is_obeyed_within_bounds_and_never_past_the_last_chance() {
    let throttled = |stage: &mut Stage, now: f64, retry_after: Option<u64>| {
        let throttled = Some(Throttle {
            retry_after: retry_after.map(Duration::from_secs),
        });
        let round = Observation {
            throttled,
            ..seen(at(now), Lists::Failed)
        };
        let decision = stage.judge.decide(&round);
        assert_eq!(decision.next_wake.reason, WakeReason::Throttled);
        decision.next_wake.at
    };
    let (mut stage, _) = after_silence(settings(), 5);
    assert_eq!(
        throttled(&mut stage, 21.0, None),
        at(31.0),
        "10 s if the server does not say"
    );
    assert_eq!(throttled(&mut stage, 21.0, Some(0)), at(22.0));
    assert_eq!(throttled(&mut stage, 21.0, Some(5)), at(26.0));
    assert_eq!(
        throttled(&mut stage, 21.0, Some(3600)),
        at(31.0),
        "the tenant's word"
    );
    assert_eq!(
        throttled(&mut stage, 30.0, Some(10)),
        at(37.0),
        "the deadline is at 40 s"
    );
    assert_eq!(
        throttled(&mut stage, 36.5, Some(10)),
        at(37.5),
        "rounds are a second apart"
    );
}

#[test]
fn a_tripped_cluster_is_looked_at_every_second_until_it_is_fenced() {
    let (mut stage, decision) = after_silence(settings(), 10);
    assert_eq!(
        (decision.next_wake.at, decision.next_wake.reason),
        (at(31.0), WakeReason::Hurry)
    );
    stage.fence = Fence::Partial;
    let decision = stage.round(at(31.0), &leases(10, 10, 31.0));
    assert_eq!(decision.next_wake.reason, WakeReason::Hurry);
    stage.fence = Fence::Full;
    let decision = stage.round(at(32.0), &leases(10, 10, 32.0));
    assert_eq!(decision.next_wake.reason, WakeReason::Interval);
    assert_eq!(decision.reasons.trips_at, None);
}

#[test]
fn the_first_expiry_wakes_to_read_the_nodes_and_the_trip_needs_one_list() {
    let mut stage = Stage::new(settings(), at(-30.0));
    // Ten nodes renewed one second apart, the last at 0; then silence.
    let silence: Vec<_> = (0..10)
        .map(|index| (name(index), at(-9.0 + index as f64)))
        .collect();
    for now in [-30.0, -20.0, -10.0] {
        stage.round(at(now), &leases(10, 0, now));
    }
    stage.round(at(0.0), &silence);
    let decision = stage.round(at(10.0), &silence);
    assert_eq!(
        (decision.next_wake.at, decision.next_wake.reason),
        (at(20.0), WakeReason::Interval)
    );
    let decision = stage.round(at(20.0), &silence);
    assert_eq!(
        (decision.next_wake.at, decision.next_wake.reason),
        (at(21.0), WakeReason::FirstExpiry)
    );
    let decision = stage.round(at(21.0), &silence);
    // Six of ten are expired at 26 s.
    assert_eq!(
        (decision.next_wake.at, decision.next_wake.reason),
        (at(26.0), WakeReason::Trip)
    );
    let listed = stage.judge.read(
        Listing {
            start: at(26.0),
            end: at(26.0),
        },
        lease_list(&silence),
    );
    assert!(!stage.judge.nodes_due(&listed, Fence::None));
    assert_eq!(
        stage
            .judge
            .decide(&seen(at(26.0), Lists::Read(listed)))
            .verdict,
        Verdict::Fence
    );
}

#[test]
fn nodes_are_read_for_new_leases_while_fenced_and_every_ten_minutes() {
    let mut stage = Stage::new(settings(), at(0.0));
    let due = |stage: &mut Stage, now: f64, total: usize, fence: Fence| {
        let leases = leases(total, 0, now);
        let listed = stage.judge.read(
            Listing {
                start: at(now),
                end: at(now),
            },
            lease_list(&leases),
        );
        stage.judge.nodes_due(&listed, fence)
    };
    assert!(due(&mut stage, 0.0, 3, Fence::None), "never read");
    stage.judge.learn(roster(&nodes((0..3).map(name))), at(0.0));
    assert!(!due(&mut stage, 10.0, 3, Fence::None));
    assert!(
        due(&mut stage, 20.0, 4, Fence::None),
        "a lease whose node is unknown"
    );
    assert!(
        due(&mut stage, 30.0, 4, Fence::None),
        "still unknown: the nodes could not be read"
    );
    stage
        .judge
        .learn(roster(&nodes((0..3).map(name))), at(30.0));
    assert!(
        !due(&mut stage, 40.0, 4, Fence::None),
        "there is no such node, and we know it"
    );
    assert!(due(&mut stage, 50.0, 4, Fence::Partial));
    assert!(due(&mut stage, 630.0, 4, Fence::None));
}

// === what every decision promises ===

#[derive(Clone, Debug)]
struct AnyRound {
    pause: i64,
    takes: i64,
    api_server: Outcome,
    external: Option<Outcome>,
    listed: u8,
    throttled: Option<u64>,
    fence: Fence,
    jitter: f64,
    renewals: Vec<bool>,
}

fn any_outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        12 => Just(Outcome::Success),
        1 => Just(Outcome::Failure),
        1 => Just(Outcome::Transient),
    ]
}

fn any_fence() -> impl Strategy<Value = Fence> {
    prop_oneof![
        4 => Just(Fence::None),
        1 => Just(Fence::Unknown),
        1 => Just(Fence::Partial),
        1 => Just(Fence::Full),
    ]
}

prop_compose! {
    fn any_round()(
        pause in prop_oneof![0..SECOND, 0..15 * SECOND, 0..60 * SECOND],
        takes in prop_oneof![Just(0), 0..3 * SECOND],
        api_server in any_outcome(),
        external in prop::option::weighted(0.2, any_outcome()),
        listed in 0_u8..10,
        throttled in prop::option::weighted(0.05, 0_u64..100),
        fence in any_fence(),
        jitter in 0.0..1.0,
        renewals in prop::collection::vec(prop::bool::weighted(0.4), 12),
    ) -> AnyRound {
        AnyRound { pause, takes, api_server, external, listed, throttled, fence, jitter, renewals }
    }
}

fn any_settings() -> impl Strategy<Value = Settings> {
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
            |(grace, interval, f, recovery, reserve, threshold, delay)| Settings {
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
                ..Settings::default()
            },
        )
}

/// Plays rounds; `order` says in which order leases and nodes are listed.
fn play(
    settings: &Settings,
    rounds: &[AnyRound],
    order: impl Fn(&mut Vec<(String, Time)>),
    mut check: impl FnMut(&Stage, &Observation, &Decision) -> Result<(), TestCaseError>,
) -> Result<Vec<Decision>, TestCaseError> {
    let mut stage = Stage::new(settings.clone(), at(0.0));
    let mut now = SECOND;
    let mut renewed = [at(0.0); 12];
    let mut decisions = Vec::new();
    for round in rounds {
        let start = Time::from_micros(now + round.pause);
        let end = Time::from_micros(start.as_micros() + round.takes);
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
            _ if round.api_server != Outcome::Success => Lists::NotAsked,
            0 => Lists::Failed,
            _ => {
                let listed = stage
                    .judge
                    .read(Listing { start, end }, lease_list(&leases));
                if stage.judge.nodes_due(&listed, round.fence) {
                    let names = leases.iter().map(|(name, _)| name.clone());
                    stage.judge.learn(roster(&nodes(names)), start);
                }
                Lists::Read(listed)
            }
        };
        let observation = Observation {
            start,
            end,
            api_server: round.api_server,
            external: round.external,
            lists,
            throttled: round.throttled.map(|after| Throttle {
                retry_after: Some(Duration::from_secs(after)),
            }),
            fence: round.fence,
            jitter: round.jitter,
        };
        let decision = stage.judge.decide(&observation);
        check(&stage, &observation, &decision)?;
        decisions.push(decision);
        now = end.as_micros();
    }
    Ok(decisions)
}

/// T by trying every instant at which anything changes.
fn trip_instant_by_search(stage: &Stage, settings: &Settings, now: Time) -> Option<Time> {
    let grace = settings.grace;
    let leases: Vec<_> = stage
        .judge
        .book()
        .leases(grace)
        .filter(|l| l.is_candidate)
        .collect();
    let count = leases.len() as u32;
    let mut instants: Vec<Time> = leases
        .iter()
        .flat_map(|lease| {
            let deadline = lease.renewal.after(grace);
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
            let deadline = lease.renewal.after(grace);
            deadline > *instant && deadline <= instant.after(settings.fence_reserve)
        });
        reached(expired) || (!settings.fence_reserve.is_zero() && is_close && reached(silent))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn next_wake_is_never_after_the_trip_instant_and_never_in_the_past(
        settings in any_settings(),
        rounds in prop::collection::vec(any_round(), 1..40),
    ) {
        play(&settings, &rounds, |_| {}, |stage, round, decision| {
            let wake = decision.next_wake;
            prop_assert!(wake.at >= round.end, "in the past: {decision}");
            let apart = wake.at.since(round.start);
            let least = if wake.reason == WakeReason::Trip { 100 } else { 1_000 };
            prop_assert!(apart >= Duration::from_millis(least), "a busy loop: {decision}");
            let soonest = round.end.max(round.start.after(Duration::from_millis(100)));
            if let Some(trip) = decision.reasons.trips_at {
                prop_assert!(wake.at <= trip.max(soonest), "after T: {decision}");
            }
            // And T is right: nothing trips before the next look, unless something else is said.
            let judged = matches!(decision.reasons.rule, Rule::Well);
            if judged && round.throttled.is_none() && round.external.is_none() {
                let trip = trip_instant_by_search(stage, &settings, round.start);
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
    fn the_order_of_leases_and_nodes_does_not_change_a_decision(
        settings in any_settings(),
        rounds in prop::collection::vec(any_round(), 1..30),
        seed in any::<u64>(),
    ) {
        let sorted = play(&settings, &rounds, |_| {}, |_, _, _| Ok(()))?;
        let shuffled = play(&settings, &rounds, |leases| {
            fastrand::Rng::with_seed(seed).shuffle(leases);
        }, |_, _, _| Ok(()))?;
        prop_assert_eq!(sorted, shuffled);
    }

    #[test]
    fn a_watchdog_restart_never_lifts_a_fence(
        settings in any_settings(),
        nodes in 2_usize..12,
        extra in 0_usize..12,
        unknown_rounds in 0_usize..4,
        pauses in prop::collection::vec(1..12_i64, 1..30),
        last_renewals in prop::collection::vec(1..120_i64, 12),
    ) {
        // So many stay silent that the cluster is not well: the recovery fraction or more.
        let quorum = settings.recovery_fraction.quorum(nodes as u32) as usize;
        let silent = (quorum + extra).min(nodes);
        let mut stage = Stage::new(settings, at(1_000.0));
        let mut now = 1_000;
        for (index, pause) in pauses.iter().enumerate() {
            let leases: Vec<_> = (0..nodes)
                .map(|node| {
                    let renewed = if node < silent { 1_000 - last_renewals[node] } else { now - 1 };
                    (name(node), Time::from_micros(renewed * SECOND))
                })
                .collect();
            stage.fence = if index < unknown_rounds { Fence::Unknown } else { Fence::Full };
            let decision = stage.round(Time::from_micros(now * SECOND), &leases);
            prop_assert_ne!(decision.verdict, Verdict::Release, "{}", decision);
            now += pause;
        }
    }
}

#[test]
fn a_found_fence_is_lifted_once_the_nodes_have_renewed_since() {
    let mut stage = Stage::new(settings(), at(0.0));
    stage.fence = Fence::Full;
    let first = stage.round(at(0.0), &leases(10, 0, 0.0));
    assert_eq!(
        first.reasons.rule,
        Rule::Undecided {
            fence_found: Some(at(0.0))
        }
    );
    assert_eq!(
        stage.round(at(10.0), &leases(10, 0, 10.0)).verdict,
        Verdict::Release
    );
}

#[test]
fn a_fence_that_turns_out_not_to_exist_is_forgotten() {
    let mut stage = Stage::new(settings(), at(0.0));
    stage.fence = Fence::Unknown;
    stage.round(at(0.0), &leases(10, 5, 0.0));
    stage.fence = Fence::None;
    // Half of the nodes never renew again. That is no fence, and nothing was fenced.
    assert_eq!(
        stage.round(at(10.0), &leases(10, 5, 10.0)).reasons.rule,
        Rule::Well
    );
}

// === how it reads ===

#[test]
fn a_decision_explains_itself_in_plain_words_and_as_json() {
    let (_, decision) = after_silence(settings(), 7);
    assert_eq!(
        decision.to_string(),
        "Fence: too many leases are expired, since 1970-01-01T00:00:30.000000Z. Of 10 candidates 7 \
         are expired and 7 silent (trips at 60 %); 10 have not renewed since the trip (well again \
         below 60 %). The next node can turn Unknown in 10.0 s. Next look in 1.0 s: something is \
         under way."
    );
    let json = serde_json::to_value(decision).unwrap();
    assert_eq!(json["verdict"], "fence");
    assert_eq!(json["reasons"]["rule"]["name"], "tripped");
    assert_eq!(json["reasons"]["rule"]["cause"], "expired");
    assert_eq!(json["reasons"]["leases"]["expired"], 7);
    assert_eq!(json["reasons"]["failureFraction"], 0.6);
    assert_eq!(json["nextWake"]["reason"], "hurry");
    assert_eq!(json["deadline"], "1970-01-01T00:00:40.000000Z");
}

#[test]
fn every_rule_has_words_of_its_own() {
    let at = at(0.0);
    let rules = [
        Rule::InitialDelay { until: at },
        Rule::ApiServerNotHealthy,
        Rule::ExternalUnhealthy,
        Rule::ListFailed,
        Rule::NoNodes,
        Rule::NoCandidates { well: true },
        Rule::NoCandidates { well: false },
        Rule::Tripped {
            since: at,
            cause: TripCause::Expired,
        },
        Rule::Tripped {
            since: at,
            cause: TripCause::LastCall,
        },
        Rule::TooFewCandidates { required: 2 },
        Rule::Well,
        Rule::Undecided { fence_found: None },
        Rule::Undecided {
            fence_found: Some(at),
        },
    ];
    let mut words: Vec<_> = rules.iter().map(ToString::to_string).collect();
    words.sort();
    words.dedup();
    assert_eq!(words.len(), rules.len());
    let reasons = [
        WakeReason::Interval,
        WakeReason::Freshness,
        WakeReason::FirstExpiry,
        WakeReason::Trip,
        WakeReason::FirstJudgement,
        WakeReason::Recheck,
        WakeReason::Pause,
        WakeReason::Throttled,
        WakeReason::Hurry,
    ];
    let mut words: Vec<_> = reasons.iter().map(ToString::to_string).collect();
    words.sort();
    words.dedup();
    assert_eq!(words.len(), reasons.len());
}

#[test]
fn excluded_and_unproven_nodes_are_named_in_the_words() {
    let mut stage = Stage::new(settings(), at(0.0));
    let listed = stage.list(at(0.0), &leases(10, 0, 0.0));
    let mut facts = nodes((0..12).map(name));
    facts[0].unmanaged = true;
    stage.judge.learn(roster(&facts), at(0.0));
    let words = stage
        .judge
        .decide(&seen(at(0.0), Lists::Read(listed)))
        .to_string();
    assert!(
        words.starts_with("Hold: not enough is known yet. Of 9 candidates 0 are"),
        "{words}"
    );
    assert!(words.contains("9 leases prove nothing yet."), "{words}");
    assert!(
        words.contains(
            "Not counted: 1 not managed by machine-controller-manager, 2 without a lease."
        ),
        "{words}"
    );
}
