//! When a cluster is looked at next.

use std::time::Duration;

use kelpie_core::{
    Fence, Listing, Lists, Observation, Outcome, Settings, Throttle, Time, Verdict, WakeReason,
};

use crate::stage::{
    Stage, after_silence, at, lease_list, leases, name, nodes, roster, seen, settings,
};

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

    let impatient = Settings {
        api_failure_pause: Duration::ZERO,
        ..settings()
    };
    let mut stage = Stage::new(impatient, at(0.0));
    let round = Observation {
        api_server: Outcome::Failure,
        ..seen(at(0.0), Lists::NotAsked)
    };
    let wakes = [0, 1, 2].map(|_| stage.judge.decide(&round).next_wake.at);
    assert_eq!(wakes, [at(1.0); 3], "no pause is still a second");
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

/// The next look after an answer 429, or several of them.
fn throttled(stage: &mut Stage, now: f64, retry_after: Option<u64>) -> (Time, WakeReason) {
    let throttled = Some(Throttle {
        retry_after: retry_after.map(Duration::from_secs),
    });
    let round = Observation {
        throttled,
        ..seen(at(now), Lists::Failed)
    };
    let wake = stage.judge.decide(&round).next_wake;
    (wake.at, wake.reason)
}

#[test]
fn throttling_is_obeyed_within_bounds_while_there_is_time() {
    let (mut stage, _) = after_silence(settings(), 0);
    for (asked, obeyed, why) in [
        (None, 41.0, "10 s if the server does not say"),
        (Some(0), 32.0, "rounds are a second apart"),
        (Some(5), 36.0, "as it says"),
        (Some(3600), 41.0, "the tenant's word"),
    ] {
        let wake = throttled(&mut stage, 31.0, asked);
        assert_eq!(wake, (at(obeyed), WakeReason::Throttled), "{why}");
    }
}

#[test]
fn throttling_is_no_reason_to_forget_what_the_last_list_has_proven() {
    let (mut stage, _) = after_silence(settings(), 0);
    // The last list ended at 30 s; after 50 s leases would prove nothing.
    let wake = throttled(&mut stage, 40.0, Some(10));
    assert_eq!(wake, (at(48.0), WakeReason::Freshness));
    let wake = throttled(&mut stage, 48.0, Some(2));
    assert_eq!(wake, (at(50.0), WakeReason::Throttled), "it is too late");
}

#[test]
fn a_near_deadline_leaves_a_throttling_server_a_second() {
    let (mut stage, _) = after_silence(settings(), 5);
    for now in [30.0, 36.5, 45.0] {
        let wake = throttled(&mut stage, now, Some(10));
        assert_eq!(wake, (at(now + 1.0), WakeReason::Throttled), "{now}");
    }
}

#[test]
fn a_pause_after_failures_sleeps_through_neither_the_trip_instant_nor_the_end_of_proof() {
    for (silent, wake) in [
        (10, (at(30.0), WakeReason::Trip)),
        (0, (at(38.0), WakeReason::Freshness)),
    ] {
        let mut stage = Stage::new(settings(), at(-30.0));
        for now in [-30.0, -20.0, -10.0] {
            stage.round(at(now), &leases(10, 0, now));
        }
        for now in [0.0, 10.0, 20.0] {
            stage.round(at(now), &leases(10, silent, now));
        }
        let failed = |now| Observation {
            api_server: Outcome::Failure,
            ..seen(at(now), Lists::NotAsked)
        };
        let wakes = [21.0, 22.0, 23.0].map(|now| stage.judge.decide(&failed(now)).next_wake);
        assert_eq!((wakes[2].at, wakes[2].reason), wake, "{silent}: {wakes:?}");
    }
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
    assert!(!due(&mut stage, 629.0, 3, Fence::None));
    assert!(due(&mut stage, 630.0, 3, Fence::None));
    let (mut stage, decision) = after_silence(settings(), 10);
    assert_eq!(decision.verdict, Verdict::Fence);
    let silent = leases(10, 10, 0.0);
    let listed = stage.judge.read(
        Listing {
            start: at(31.0),
            end: at(31.0),
        },
        lease_list(&silent),
    );
    assert!(
        stage.judge.nodes_due(&listed, Fence::None),
        "tripped, though nothing is fenced yet"
    );
}

/// Rounds until `end`, each when the last one asked for it; when each began.
fn follow(
    stage: &mut Stage,
    start: f64,
    end: f64,
    mut round: impl FnMut(&mut Stage, Time) -> Observation,
) -> Vec<f64> {
    let mut now = at(start);
    let mut looks = Vec::new();
    while now < at(end) {
        looks.push(now.as_micros() as f64 / 1e6);
        let observation = round(stage, now);
        now = stage.judge.decide(&observation).next_wake.at;
    }
    looks
}

#[test]
fn a_dead_external_path_over_dead_leases_is_no_busy_loop() {
    let (mut stage, _) = after_silence(settings(), 10);
    let looks = follow(&mut stage, 31.0, 91.0, |stage, now| {
        let lists = Lists::Read(stage.list(now, &leases(10, 10, 0.0)));
        Observation {
            external: Some(Outcome::Failure),
            fence: Fence::Full,
            ..seen(now, lists)
        }
    });
    assert!(looks.len() <= 10, "{looks:?}");
}

#[test]
fn an_api_server_that_fails_its_probe_over_dead_leases_is_no_busy_loop() {
    let (mut stage, _) = after_silence(settings(), 5);
    let looks = follow(&mut stage, 31.0, 91.0, |stage, now| {
        let lists = Lists::Read(stage.list(now, &leases(10, 10, 0.0)));
        Observation {
            api_server: Outcome::Failure,
            ..seen(now, lists)
        }
    });
    assert!(looks.len() <= 10, "{looks:?}");
}

#[test]
fn a_deadline_long_missed_does_not_shorten_retry_after_for_long() {
    let (mut stage, _) = after_silence(settings(), 0);
    let looks = follow(&mut stage, 40.0, 340.0, |_, now| Observation {
        throttled: Some(Throttle::default()),
        ..seen(now, Lists::Failed)
    });
    // Every second until the last list is as old as the grace period, then every ten.
    assert!(looks.len() <= 45, "{looks:?}");
    let last = looks.windows(2).map(|pair| pair[1] - pair[0]).next_back();
    assert_eq!(last, Some(10.0), "{looks:?}");
}

#[test]
fn failed_lists_do_not_sleep_through_the_trip_instant_or_the_last_chance() {
    let mut stage = Stage::new(settings(), at(-30.0));
    for now in [-30.0, -20.0, -10.0] {
        stage.round(at(now), &leases(10, 0, now));
    }
    for now in [0.0, 10.0, 20.0, 24.0] {
        stage.round(at(now), &leases(10, 10, now));
    }
    let looks = follow(&mut stage, 25.5, 45.0, |_, now| seen(now, Lists::Failed));
    assert!(looks.contains(&30.0), "the trip instant: {looks:?}");
    let longest = looks
        .windows(2)
        .map(|pair| pair[1] - pair[0])
        .fold(0.0, f64::max);
    assert!(longest <= 1.0, "{looks:?}");
}

#[test]
fn lists_that_fail_for_long_are_repeated_ever_more_slowly_again() {
    let (mut stage, _) = after_silence(settings(), 5);
    let looks = follow(&mut stage, 31.0, 331.0, |_, now| seen(now, Lists::Failed));
    assert!(looks.len() < 80, "{} looks in 300 s", looks.len());
}

#[test]
fn a_throttled_external_probe_does_not_slow_down_a_fence() {
    let (mut stage, _) = after_silence(settings(), 10);
    let lists = Lists::Read(stage.list(at(31.0), &leases(10, 10, 0.0)));
    let decision = stage.judge.decide(&Observation {
        external: Some(Outcome::Transient),
        throttled: Some(Throttle::default()),
        fence: Fence::Partial,
        ..seen(at(31.0), lists)
    });
    assert_eq!(decision.next_wake.at, at(32.0));
}

#[test]
fn an_orphan_that_renews_its_lease_is_a_reason_to_read_the_nodes_once_a_minute() {
    let mut stage = Stage::new(settings(), at(0.0));
    let mut due = |now: f64| {
        let listing = Listing {
            start: at(now),
            end: at(now),
        };
        let listed = stage.judge.read(listing, lease_list(&leases(3, 0, now)));
        let due = stage.judge.nodes_due(&listed, Fence::None);
        if due {
            stage.judge.learn(roster(&nodes((0..2).map(name))), at(now));
        }
        due
    };
    let answers: Vec<_> = (0..13).map(|round| due(f64::from(round) * 10.0)).collect();
    let expected: Vec<_> = (0..13).map(|round| round % 6 == 0).collect();
    assert_eq!(answers, expected);
}
