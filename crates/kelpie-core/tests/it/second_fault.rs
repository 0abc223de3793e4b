//! Decisions when something else breaks during a partition.

use std::time::Duration;

use kelpie_core::Time;
use kelpie_core::prober::{
    AcceptedList, Decision, Delays, FenceState, ListResult, ListSpan, Observation, ProbeResult,
    ProbeSettings, Rule, TripCause, Verdict,
};

use crate::evaluator_fixture::{
    EvaluatorFixture, after_silence, at, lease_list, leases, name, node_set, nodes, observation,
    settings,
};

/// Ten nodes that renewed every 10 s up to 0 s and then fell silent, listed every 10 s up to `now`.
fn silent_until(now: f64) -> EvaluatorFixture {
    let mut fixture = EvaluatorFixture::new(settings(), at(-30.0));
    for now in [-30.0, -20.0, -10.0] {
        fixture.round(at(now), &leases(10, 0, now));
    }
    let mut next = 0.0;
    while next <= now {
        fixture.round(at(next), &leases(10, 10, next));
        next += 10.0;
    }
    fixture
}

fn refused(fixture: &mut EvaluatorFixture, now: f64) -> Decision {
    fixture.evaluator.decide(&Observation {
        api_server: ProbeResult::Failure,
        ..observation(at(now), ListResult::Refused)
    })
}

/// Decides again at `now` without a new list.
fn review(fixture: &mut EvaluatorFixture, now: f64) -> Decision {
    fixture.evaluator.decide(&Observation {
        api_server: ProbeResult::Transient,
        ..observation(at(now), ListResult::NotAsked)
    })
}

/// A review is not newer than its list: it says nothing about a fence that another replica has made
/// since.
#[test]
fn review_rests_on_the_last_list() {
    let mut fixture = EvaluatorFixture::new(settings(), at(-30.0));
    let listed = fixture.round(at(-30.0), &leases(10, 0, -30.0));
    assert_eq!(listed.evidence_at, at(-30.0));
    let reviewed = review(&mut fixture, -25.0);
    assert_eq!((reviewed.at, reviewed.evidence_at), (at(-25.0), at(-30.0)));
    assert_eq!(refused(&mut fixture, -20.0).evidence_at, at(-20.0));
}

/// The clock of a prober that starts may be behind those of the nodes.
#[test]
fn values_from_the_future_release_no_fence() {
    let mut fixture = EvaluatorFixture::new(settings(), at(0.0));
    fixture.fence = FenceState::Full;
    let ahead = 2_000.0;
    for now in 0..8 {
        let now = 10.0 * f64::from(now);
        let leases: Vec<_> = (0..7)
            .map(|index| {
                let renewed = if index < 5 { ahead } else { ahead + now };
                (name(index), at(renewed))
            })
            .collect();
        let decision = fixture.round(at(now), &leases);
        assert_ne!(decision.verdict, Verdict::Release, "at {now}: {decision}");
    }
}

fn list_version(
    fixture: &mut EvaluatorFixture,
    now: f64,
    version: u64,
    leases: &[(String, Time)],
) -> AcceptedList {
    let span = ListSpan {
        start: at(now),
        end: at(now),
    };
    let leases = lease_list(leases);
    fixture
        .evaluator
        .observe_leases(span, Some(version), leases)
}

#[test]
fn answered_list_proves_the_api_server() {
    let strict = ProbeSettings {
        api_thresholds: kelpie_core::prober::Thresholds {
            success: 5,
            failure: 1,
        },
        ..settings()
    };
    let mut fixture = EvaluatorFixture::new(strict, at(0.0));
    refused(&mut fixture, 0.0);
    fixture.round(at(10.0), &leases(3, 0, 10.0));
    let decision = fixture.round(at(20.0), &leases(3, 0, 20.0));
    assert_eq!(decision.reasons.rule, Rule::LeasesRenewed);
}

#[test]
fn outage_does_not_stop_a_begun_fence() {
    let (mut fixture, decision) = after_silence(settings(), 10);
    assert_eq!(decision.verdict, Verdict::Fence);
    for now in [31.0, 40.0, 50.0] {
        assert_eq!(refused(&mut fixture, now).verdict, Verdict::Fence, "{now}");
    }
    assert_eq!(refused(&mut fixture, 50.1).verdict, Verdict::Hold);
}

#[test]
fn last_list_decides_at_last_call() {
    let mut fixture = silent_until(20.0);
    for now in [21.0, 30.0, 36.9] {
        assert_eq!(refused(&mut fixture, now).verdict, Verdict::Hold, "{now}");
    }
    let decision = refused(&mut fixture, 37.0);
    let tripped = Rule::Tripped {
        since: at(37.0),
        cause: TripCause::LastCall,
    };
    assert_eq!(decision.reasons.rule, tripped);
    assert_eq!(decision.trip_deadline, Some(at(40.0)));
}

#[test]
fn plain_outage_has_no_last_call() {
    let (mut fixture, _) = after_silence(settings(), 0);
    for tenth in 310..700 {
        let now = f64::from(tenth) / 10.0;
        assert_ne!(refused(&mut fixture, now).verdict, Verdict::Fence, "{now}");
    }
}

#[test]
fn silence_does_not_count_during_outage() {
    // The reserve is so large that silence alone decides.
    let slow = Delays {
        write: Duration::from_secs(20),
        ..Delays::default()
    };
    let fence_after = |outage: bool| {
        let mut fixture = silent_until(10.0);
        if outage {
            refused(&mut fixture, 12.0);
        }
        let at_17 = (17.0, leases(10, 10, 17.0));
        let at_22 = (22.0, leases(10, 10, 22.0));
        let decisions = [at_17, at_22].map(|(now, leases)| {
            let listed = fixture.list(at(now), &leases);
            fixture.evaluator.decide(&Observation {
                delays: slow,
                ..observation(at(now), ListResult::Read(listed))
            })
        });
        decisions.map(|decision| decision.verdict)
    };
    assert_eq!(fence_after(false), [Verdict::Release, Verdict::Fence]);
    assert_eq!(fence_after(true), [Verdict::Release, Verdict::Release]);
}

#[test]
fn slow_world_is_fenced_earlier() {
    // All leases expire at 30 s, and the deadline is at 40 s.
    for (write, trips_at) in [(0, 30.0), (6, 30.0), (10, 27.0), (14, 23.0)] {
        let mut fixture = silent_until(10.0);
        let listed = fixture.list(at(20.0), &leases(10, 10, 20.0));
        let decision = fixture.evaluator.decide(&Observation {
            delays: Delays {
                write: Duration::from_secs(write),
                ..Delays::default()
            },
            ..observation(at(20.0), ListResult::Read(listed))
        });
        assert_eq!(decision.reasons.trips_at, Some(at(trips_at)), "{write}");
    }
}

#[test]
fn slow_list_is_no_gap() {
    // The list before ended at 10 s.
    let fenced = |start: f64, end: f64| {
        let mut fixture = silent_until(10.0);
        let mut verdicts = Vec::new();
        for (start, end) in [(start, end), (end + 1.0, end + 1.0)] {
            let span = ListSpan {
                start: at(start),
                end: at(end),
            };
            let leases = leases(10, 10, 0.0);
            let listed = fixture
                .evaluator
                .observe_leases(span, None, lease_list(&leases));
            let round = observation(at(end), ListResult::Read(listed));
            verdicts.push(fixture.evaluator.decide(&round).verdict);
        }
        verdicts.contains(&Verdict::Fence)
    };
    assert!(fenced(23.0, 33.0));
    assert!(!fenced(23.0, 42.0), "the API server may have been away");
    assert!(!fenced(33.0, 33.0), "nothing was asked for too long");
}

#[test]
fn stale_list_proves_nothing() {
    let mut fixture = EvaluatorFixture::new(settings(), at(0.0));
    list_version(&mut fixture, 0.0, 100, &leases(4, 0, 0.0));
    let members = nodes((0..4).map(name));
    fixture.evaluator.observe_nodes(node_set(&members), at(0.0));
    list_version(&mut fixture, 10.0, 110, &leases(4, 0, 10.0));
    // A replica that is behind shows older renewals.
    let stale = list_version(&mut fixture, 20.0, 105, &leases(4, 0, 5.0));
    let decision = fixture
        .evaluator
        .decide(&observation(at(20.0), ListResult::Read(stale)));
    assert_eq!(decision.reasons.rule, Rule::StaleList);
    let renewal = fixture.lease_status(settings().grace, &name(0)).renewal;
    assert_eq!(renewal, Some(at(9.0)));
}

#[test]
fn version_that_stands_still_retracts_silence() {
    let fences = |version: fn(f64) -> u64| {
        let mut fixture = EvaluatorFixture::new(settings(), at(-40.0));
        let members = nodes((0..4).map(name));
        let mut verdicts = Vec::new();
        for tenth in (-400..600).step_by(5) {
            let now = f64::from(tenth) / 10.0;
            let renewed = now.min(0.0);
            let listed = list_version(&mut fixture, now, version(now), &leases(4, 0, renewed));
            if fixture.evaluator.lacks_nodes() {
                let members = node_set(&members);
                fixture.evaluator.observe_nodes(members, at(now));
            }
            let round = observation(at(now), ListResult::Read(listed));
            verdicts.push(fixture.evaluator.decide(&round).verdict);
        }
        verdicts.contains(&Verdict::Fence)
    };
    let moving = |now: f64| (now * 10.0 + 1_000.0) as u64;
    assert!(fences(moving), "the nodes fell silent");
    // From 8 s on, the lists come from a cache that stands still.
    assert!(!fences(|now| (now.min(8.0) * 10.0 + 1_000.0) as u64));
}

#[test]
fn value_that_comes_back_is_no_renewal() {
    let mut fixture = EvaluatorFixture::new(settings(), at(0.0));
    fixture.round(at(0.0), &leases(1, 0, 0.0));
    fixture.round(at(10.0), &leases(1, 0, 8.0));
    fixture.round(at(20.0), &leases(1, 0, 0.0));
    fixture.round(at(30.0), &leases(1, 0, 8.0));
    let status = fixture.lease_status(settings().grace, &name(0));
    assert_eq!(status.renewal, Some(at(7.0)));
}

#[test]
fn late_answer_of_earlier_request_is_ignored() {
    let mut fixture = silent_until(0.0);
    fixture.round(at(20.0), &leases(10, 0, 20.0));
    let span = ListSpan {
        start: at(10.0),
        end: at(21.0),
    };
    let old = leases(10, 10, 10.0);
    let listed = fixture
        .evaluator
        .observe_leases(span, None, lease_list(&old));
    let round = observation(at(21.0), ListResult::Read(listed));
    assert_eq!(
        fixture.evaluator.decide(&round).reasons.rule,
        Rule::StaleList
    );
    let status = fixture.lease_status(settings().grace, &name(0));
    assert_eq!(status.renewal, Some(at(19.0)));
}

#[test]
fn trip_does_not_latch_below_minimum() {
    let (mut fixture, _) = after_silence(
        ProbeSettings {
            min_candidates: 11,
            ..settings()
        },
        10,
    );
    let decision = fixture.round(at(31.0), &leases(10, 10, 31.0));
    assert_eq!(
        decision.reasons.rule,
        Rule::TooFewCandidates { required: 11 }
    );
    let decision = fixture.round(at(32.0), &leases(10, 5, 32.0));
    assert_eq!(decision.reasons.rule, Rule::LeasesRenewed);
}

#[test]
fn silent_cluster_is_pressed_and_healthy_one_is_not() {
    let mut silent = silent_until(20.0);
    assert!(review(&mut silent, 25.1).is_pressed);
    let mut healthy = EvaluatorFixture::new(settings(), at(0.0));
    for round in 0..20 {
        let now = f64::from(round) * 12.0;
        let decision = healthy.round(at(now), &leases(10, 0, now - 9.0));
        assert!(!decision.is_pressed, "{now}");
        assert!(!review(&mut healthy, now + 11.9).is_pressed, "{now}");
    }
}

#[test]
fn review_comes_at_last_call() {
    let mut fixture = silent_until(20.0);
    let decision = refused(&mut fixture, 36.5);
    assert_eq!(decision.review_at, Some(at(37.0)));
    assert_eq!(review(&mut fixture, 37.0).verdict, Verdict::Fence);
}

#[test]
fn fenced_cluster_is_not_pressed() {
    let mut fixture = silent_until(20.0);
    fixture.fence = FenceState::Full;
    let decision = fixture.round(at(30.0), &leases(10, 10, 30.0));
    assert!(!decision.is_pressed);
}

#[test]
fn fence_of_another_replica_is_kept_until_nodes_renew() {
    // A trip that is over, so that nothing is left to lift.
    let (mut fixture, _) = after_silence(settings(), 10);
    for now in [40.0, 50.0, 60.0] {
        fixture.round(at(now), &leases(10, 0, now));
    }
    // The nodes fall silent again, and another replica is the first to fence.
    fixture.round(at(70.0), &leases(10, 0, 61.0));
    fixture.fence = FenceState::Full;
    for now in [80.0, 89.0] {
        let decision = fixture.round(at(now), &leases(10, 0, 61.0));
        assert_ne!(decision.verdict, Verdict::Release, "{now}");
    }
    let decision = fixture.round(at(92.0), &leases(10, 0, 92.0));
    assert_eq!(decision.verdict, Verdict::Release);
}

#[test]
fn review_ends_a_fence_without_answers() {
    let (mut fixture, mut decision) = after_silence(settings(), 10);
    fixture.fence = FenceState::Full;
    let mut last = 30.0;
    while let Some(at) = decision.review_at {
        last = at.as_micros() as f64 / 1e6;
        decision = review(&mut fixture, last);
    }
    assert!((50.0..50.1).contains(&last), "{last}");
    assert_eq!(decision.verdict, Verdict::Hold);
}
