//! The start of the next round.

use std::time::Duration;

use kelpie_core::Time;
use kelpie_core::prober::{
    FenceState, ListResult, ListSpan, Observation, ProbeResult, ProbeSettings, Throttle, Verdict,
    WakeReason,
};

use crate::evaluator_fixture::{
    EvaluatorFixture, after_silence, at, lease_list, leases, name, node_set, nodes, observation,
    settings,
};

#[test]
fn healthy_round_follows_interval_or_freshness() {
    let next = |interval: u64, jitter: f64, random: f64, takes: f64| {
        let settings = ProbeSettings {
            probe_interval: Duration::from_secs(interval),
            jitter,
            ..settings()
        };
        let mut fixture = EvaluatorFixture::new(settings, at(0.0));
        let lists = ListResult::Read(fixture.list(at(0.0), &leases(10, 0, 0.0)));
        let end = at(takes);
        let wake = fixture.evaluator.decide(&Observation {
            jitter: random,
            end,
            ..observation(at(0.0), lists)
        });
        (wake.next_wake.at, wake.next_wake.reason)
    };
    assert_eq!(next(10, 0.2, 0.0, 0.0), (at(10.0), WakeReason::Interval));
    assert_eq!(
        next(10, 0.2, 0.5, 0.5),
        (at(11.5), WakeReason::Interval),
        "the interval counts from the end of a round"
    );
    assert_eq!(next(30, 0.2, 0.0, 0.0), (at(12.0), WakeReason::Freshness));
    assert_eq!(next(5, 0.0, f64::NAN, 0.0), (at(5.0), WakeReason::Interval));
}

#[test]
fn api_server_failures_recheck_then_pause() {
    let mut fixture = EvaluatorFixture::new(settings(), at(0.0));
    let mut fail = |now: f64| {
        let round = Observation {
            api_server: ProbeResult::Failure,
            ..observation(at(now), ListResult::NotAsked)
        };
        let wake = fixture.evaluator.decide(&round).next_wake;
        (wake.at.since(at(now)).as_secs(), wake.reason)
    };
    assert_eq!(fail(0.0), (1, WakeReason::Recheck));
    assert_eq!(fail(1.0), (1, WakeReason::Recheck));
    assert_eq!(fail(2.0), (30, WakeReason::Pause));
    assert_eq!(fail(32.0), (30, WakeReason::Pause), "after every failure");

    let impatient = ProbeSettings {
        api_failure_pause: Duration::ZERO,
        ..settings()
    };
    let mut fixture = EvaluatorFixture::new(impatient, at(0.0));
    let round = Observation {
        api_server: ProbeResult::Failure,
        ..observation(at(0.0), ListResult::NotAsked)
    };
    let wakes = [0, 1, 2].map(|_| fixture.evaluator.decide(&round).next_wake.at);
    assert_eq!(
        wakes,
        [at(1.0); 3],
        "rounds are a second apart even without a pause"
    );
    let later = fixture.evaluator.decide(&round).next_wake;
    let interval = (at(10.0), WakeReason::Pause);
    assert_eq!(
        (later.at, later.reason),
        interval,
        "a short pause does not shorten the interval"
    );
}

#[test]
fn failed_lists_back_off() {
    let mut fixture = EvaluatorFixture::new(settings(), at(0.0));
    let mut fail = |now: f64| {
        fixture
            .evaluator
            .decide(&observation(at(now), ListResult::Failed))
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
fn unproven_fence_is_looked_at_every_five_seconds() {
    let (mut fixture, decision) = after_silence(settings(), 10);
    assert_eq!(decision.verdict, Verdict::Fence);
    fixture.fence = FenceState::Full;
    let mut refused = |now: f64| {
        let round = Observation {
            api_server: ProbeResult::Failure,
            fence: FenceState::Full,
            ..observation(at(now), ListResult::Refused)
        };
        fixture.evaluator.decide(&round).next_wake.at
    };
    // No pause after the third failure.
    for now in [31.0, 36.0, 60.0, 90.0] {
        assert_eq!(refused(now), at(now + 5.0));
    }
    // The first list after the gap proves nothing.
    let decision = fixture.round(at(95.0), &leases(10, 10, 95.0));
    assert_eq!(decision.verdict, Verdict::Hold);
    assert_eq!(decision.next_wake.at, at(100.0));
}

/// Returns the next wake after a round in which the API server answered with 429.
fn throttled(
    fixture: &mut EvaluatorFixture,
    now: f64,
    retry_after: Option<u64>,
) -> (Time, WakeReason) {
    let throttled = Some(Throttle {
        retry_after: retry_after.map(Duration::from_secs),
    });
    let round = Observation {
        throttled,
        ..observation(at(now), ListResult::Failed)
    };
    let wake = fixture.evaluator.decide(&round).next_wake;
    (wake.at, wake.reason)
}

#[test]
fn retry_after_is_clamped() {
    let (mut fixture, _) = after_silence(settings(), 0);
    for (asked, expected, reason) in [
        (None, 41.0, "10 s without a Retry-After header"),
        (Some(0), 32.0, "rounds are a second apart"),
        (Some(5), 36.0, "as the server asked"),
        (Some(3600), 41.0, "clamped, because the tenant controls it"),
    ] {
        let wake = throttled(&mut fixture, 31.0, asked);
        assert_eq!(wake, (at(expected), WakeReason::Throttled), "{reason}");
    }
}

#[test]
fn throttling_does_not_outlast_evidence() {
    let (mut fixture, _) = after_silence(settings(), 0);
    // The last list ended at 30 s. After 50 s the leases would prove nothing.
    let wake = throttled(&mut fixture, 40.0, Some(10));
    assert_eq!(wake, (at(44.0), WakeReason::Freshness));
    let wake = throttled(&mut fixture, 48.0, Some(2));
    assert_eq!(wake, (at(48.3), WakeReason::Pressed));
    let wake = throttled(&mut fixture, 50.1, Some(2));
    assert_eq!(
        wake,
        (at(52.1), WakeReason::Throttled),
        "too late to keep the evidence"
    );
}

#[test]
fn near_deadline_limits_retry_after() {
    let (mut fixture, _) = after_silence(settings(), 5);
    let wake = throttled(&mut fixture, 36.5, Some(3));
    let reason = "too few nodes are late with their renewals";
    assert_eq!(wake, (at(39.5), WakeReason::Throttled), "{reason}");
    for now in [39.5, 45.0] {
        let wake = throttled(&mut fixture, now, Some(10));
        assert_eq!(wake, (at(now + 0.3), WakeReason::Pressed), "{now}");
    }
}

#[test]
fn pressed_rounds_keep_a_shorter_interval() {
    for (interval, next) in [
        (10, (28.0, WakeReason::Pressed)),
        (1, (27.0, WakeReason::Interval)),
    ] {
        let settings = ProbeSettings {
            probe_interval: Duration::from_secs(interval),
            ..settings()
        };
        let mut fixture = EvaluatorFixture::new(settings, at(-30.0));
        for now in [-30.0, -20.0, -10.0, 0.0, 10.0, 20.0] {
            fixture.round(at(now), &leases(10, if now < 0.0 { 0 } else { 10 }, now));
        }
        let decision = fixture.round(at(26.0), &leases(10, 10, 26.0));
        assert!(decision.is_pressed, "{decision}");
        let wake = decision.next_wake;
        assert_eq!((wake.at, wake.reason), (at(next.0), next.1), "{interval}");
    }
}

#[test]
fn pause_ends_at_trip_or_freshness() {
    for (silent, wake) in [
        (10, (at(23.3), WakeReason::Pressed)),
        (0, (at(34.0), WakeReason::Freshness)),
    ] {
        let mut fixture = EvaluatorFixture::new(settings(), at(-30.0));
        for now in [-30.0, -20.0, -10.0] {
            fixture.round(at(now), &leases(10, 0, now));
        }
        for now in [0.0, 10.0, 20.0] {
            fixture.round(at(now), &leases(10, silent, now));
        }
        let failed = |now| Observation {
            api_server: ProbeResult::Failure,
            ..observation(at(now), ListResult::NotAsked)
        };
        let wakes = [21.0, 22.0, 23.0].map(|now| fixture.evaluator.decide(&failed(now)).next_wake);
        assert_eq!((wakes[2].at, wakes[2].reason), wake, "{silent}: {wakes:?}");
    }
}

#[test]
fn tripped_cluster_has_urgent_rounds_until_fenced() {
    let (mut fixture, decision) = after_silence(settings(), 10);
    assert_eq!(
        (decision.next_wake.at, decision.next_wake.reason),
        (at(31.0), WakeReason::Urgent)
    );
    fixture.fence = FenceState::Partial;
    let decision = fixture.round(at(31.0), &leases(10, 10, 31.0));
    assert_eq!(decision.next_wake.reason, WakeReason::Urgent);
    fixture.fence = FenceState::Full;
    let decision = fixture.round(at(32.0), &leases(10, 10, 32.0));
    assert_eq!(decision.next_wake.reason, WakeReason::Interval);
    assert_eq!(decision.reasons.trips_at, None);
}

#[test]
fn first_expiry_reads_nodes_before_trip() {
    let mut fixture = EvaluatorFixture::new(settings(), at(-30.0));
    // Ten nodes renewed one second apart, the last one at 0, and then no more.
    let silent: Vec<_> = (0..10)
        .map(|index| (name(index), at(-9.0 + index as f64)))
        .collect();
    for now in [-30.0, -20.0, -10.0] {
        fixture.round(at(now), &leases(10, 0, now));
    }
    fixture.round(at(0.0), &silent);
    let decision = fixture.round(at(10.0), &silent);
    assert_eq!(
        (decision.next_wake.at, decision.next_wake.reason),
        (at(20.0), WakeReason::Interval)
    );
    let decision = fixture.round(at(20.0), &silent);
    assert_eq!(
        (decision.next_wake.at, decision.next_wake.reason),
        (at(22.0), WakeReason::Pressed)
    );
    for now in [22.0, 24.0, 25.0] {
        fixture.round(at(now), &silent);
    }
    let decision = fixture.round(at(25.5), &silent);
    // Six of ten are expired at 26 s.
    assert_eq!(
        (decision.next_wake.at, decision.next_wake.reason),
        (at(26.0), WakeReason::Trip)
    );
    let listed = fixture.evaluator.observe_leases(
        ListSpan {
            start: at(26.0),
            end: at(26.0),
        },
        None,
        lease_list(&silent),
    );
    assert!(!fixture.evaluator.nodes_due(&listed, FenceState::None));
    assert_eq!(
        fixture
            .evaluator
            .decide(&observation(at(26.0), ListResult::Read(listed)))
            .verdict,
        Verdict::Fence
    );
}

#[test]
fn nodes_are_read_when_due() {
    let mut fixture = EvaluatorFixture::new(settings(), at(0.0));
    let due = |fixture: &mut EvaluatorFixture, now: f64, total: usize, fence: FenceState| {
        let leases = leases(total, 0, now);
        let listed = fixture.evaluator.observe_leases(
            ListSpan {
                start: at(now),
                end: at(now),
            },
            None,
            lease_list(&leases),
        );
        fixture.evaluator.nodes_due(&listed, fence)
    };
    assert!(
        due(&mut fixture, 0.0, 3, FenceState::None),
        "the nodes were never read"
    );
    fixture
        .evaluator
        .observe_nodes(node_set(&nodes((0..3).map(name))), at(0.0));
    assert!(!due(&mut fixture, 10.0, 3, FenceState::None));
    assert!(
        due(&mut fixture, 20.0, 4, FenceState::None),
        "there is a lease whose node is unknown"
    );
    assert!(
        due(&mut fixture, 30.0, 4, FenceState::None),
        "the node is still unknown, because the nodes were not read"
    );
    fixture
        .evaluator
        .observe_nodes(node_set(&nodes((0..3).map(name))), at(30.0));
    assert!(
        !due(&mut fixture, 40.0, 4, FenceState::None),
        "the lease is known to have no node"
    );
    assert!(!due(&mut fixture, 89.0, 4, FenceState::Partial));
    assert!(due(&mut fixture, 90.0, 4, FenceState::Partial));
    assert!(!due(&mut fixture, 629.0, 3, FenceState::None));
    assert!(due(&mut fixture, 630.0, 3, FenceState::None));
    let (mut fixture, decision) = after_silence(settings(), 10);
    assert_eq!(decision.verdict, Verdict::Fence);
    let silent = leases(10, 10, 0.0);
    let listed = fixture.evaluator.observe_leases(
        ListSpan {
            start: at(31.0),
            end: at(31.0),
        },
        None,
        lease_list(&silent),
    );
    assert!(
        !fixture.evaluator.nodes_due(&listed, FenceState::None),
        "the cluster has tripped, and the nodes were read a second ago"
    );
}

/// Runs rounds until `end`, each at the time that the last one asked for. Returns their starts in
/// seconds.
fn run_rounds(
    fixture: &mut EvaluatorFixture,
    start: f64,
    end: f64,
    mut round: impl FnMut(&mut EvaluatorFixture, Time) -> Observation,
) -> Vec<f64> {
    let mut now = at(start);
    let mut starts = Vec::new();
    while now < at(end) {
        starts.push(now.as_micros() as f64 / 1e6);
        let round_observation = round(fixture, now);
        now = fixture.evaluator.decide(&round_observation).next_wake.at;
    }
    starts
}

#[test]
fn unhealthy_external_path_is_no_busy_loop() {
    let (mut fixture, _) = after_silence(settings(), 10);
    let starts = run_rounds(&mut fixture, 31.0, 91.0, |fixture, now| {
        let lists = ListResult::Read(fixture.list(now, &leases(10, 10, 0.0)));
        Observation {
            external: Some(ProbeResult::Failure),
            fence: FenceState::Full,
            ..observation(now, lists)
        }
    });
    assert!(starts.len() <= 10, "{starts:?}");
}

#[test]
fn failing_api_server_is_no_busy_loop() {
    let (mut fixture, _) = after_silence(settings(), 5);
    let starts = run_rounds(&mut fixture, 31.0, 91.0, |_, now| Observation {
        api_server: ProbeResult::Failure,
        ..observation(now, ListResult::Refused)
    });
    // Often while the last list proves something, then rarely.
    assert!(starts.len() <= 45, "{starts:?}");
    let late = starts.iter().filter(|start| **start > 51.0).count();
    assert!(late <= 5, "{starts:?}");
}

#[test]
fn missed_deadline_stops_limiting_retry_after() {
    let (mut fixture, _) = after_silence(settings(), 0);
    let starts = run_rounds(&mut fixture, 40.0, 340.0, |_, now| Observation {
        throttled: Some(Throttle::default()),
        ..observation(now, ListResult::Failed)
    });
    // Often until the last list is too old to prove anything, then every ten seconds.
    assert!(starts.len() <= 60, "{starts:?}");
    let last = starts.windows(2).map(|pair| pair[1] - pair[0]).next_back();
    assert_eq!(last, Some(10.0), "{starts:?}");
}

#[test]
fn failed_lists_wake_at_trip_instant() {
    let mut fixture = EvaluatorFixture::new(settings(), at(-30.0));
    for now in [-30.0, -20.0, -10.0] {
        fixture.round(at(now), &leases(10, 0, now));
    }
    for now in [0.0, 10.0, 20.0, 24.0] {
        fixture.round(at(now), &leases(10, 10, now));
    }
    let starts = run_rounds(&mut fixture, 25.5, 45.0, |_, now| {
        observation(now, ListResult::Failed)
    });
    assert!(starts.contains(&30.0), "the trip instant: {starts:?}");
    let longest = starts
        .windows(2)
        .map(|pair| pair[1] - pair[0])
        .fold(0.0, f64::max);
    assert!(longest <= 1.0, "{starts:?}");
}

#[test]
fn long_failing_lists_back_off_again() {
    let (mut fixture, _) = after_silence(settings(), 5);
    let starts = run_rounds(&mut fixture, 31.0, 331.0, |_, now| {
        observation(now, ListResult::Failed)
    });
    assert!(starts.len() < 80, "{} rounds in 300 s", starts.len());
}

#[test]
fn throttled_external_probe_does_not_delay_fence() {
    let (mut fixture, _) = after_silence(settings(), 10);
    let lists = ListResult::Read(fixture.list(at(31.0), &leases(10, 10, 0.0)));
    let decision = fixture.evaluator.decide(&Observation {
        external: Some(ProbeResult::Transient),
        throttled: Some(Throttle::default()),
        fence: FenceState::Partial,
        ..observation(at(31.0), lists)
    });
    assert_eq!(decision.next_wake.at, at(32.0));
}

#[test]
fn renewed_orphan_reads_nodes_every_minute() {
    let mut fixture = EvaluatorFixture::new(settings(), at(0.0));
    let mut due = |now: f64| {
        let span = ListSpan {
            start: at(now),
            end: at(now),
        };
        let listed = fixture
            .evaluator
            .observe_leases(span, None, lease_list(&leases(3, 0, now)));
        let due = fixture.evaluator.nodes_due(&listed, FenceState::None);
        if due {
            fixture
                .evaluator
                .observe_nodes(node_set(&nodes((0..2).map(name))), at(now));
        }
        due
    };
    let due_rounds: Vec<_> = (0..13).map(|round| due(f64::from(round) * 10.0)).collect();
    let expected: Vec<_> = (0..13).map(|round| round % 6 == 0).collect();
    assert_eq!(due_rounds, expected);
}

/// 449 of 750 nodes are silent, and the others renew in turns, each when it would be the one that
/// trips the cluster.
#[test]
fn trip_kept_ahead_is_rationed() {
    let renewals = |now: Time| -> Vec<(String, Time)> {
        let seconds = now.as_micros() as f64 / 1e6;
        let renewed = |index: usize| match index.checked_sub(449) {
            None => seconds.min(0.0),
            Some(turn) => {
                let turn = turn as f64 / 10.0;
                turn + ((seconds - turn) / 30.0).floor() * 30.0
            }
        };
        let leases = (0..750).map(|index| (name(index), at(renewed(index))));
        leases.collect()
    };
    let mut fixture = EvaluatorFixture::new(settings(), at(-60.0));
    let mut rationed = 0;
    let mut now = at(-60.0);
    let mut starts = Vec::new();
    while now < at(640.0) {
        let decision = fixture.round(now, &renewals(now));
        rationed += usize::from(decision.next_wake.reason == WakeReason::Rationed);
        starts.push(now);
        now = decision.next_wake.at;
    }
    let sustained = starts.iter().filter(|start| **start >= at(340.0)).count();
    assert!(sustained <= 300 + 65, "{sustained} rounds in 300 s");
    let gaps = starts.windows(2).map(|pair| pair[1].since(pair[0]));
    let close = gaps.filter(|gap| *gap < Duration::from_secs(1)).count();
    assert!(close >= 120, "a burst is allowed: {close}");
    assert!(rationed > 100, "{rationed}");
}
