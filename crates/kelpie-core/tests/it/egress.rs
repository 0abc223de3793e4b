//! Verdicts while external probes fail, possibly because of the prober's own egress.

use std::time::Duration;

use kelpie_core::prober::{
    Decision, EgressState, FenceState, ListResult, Observation, ProbeResult, ProbeSettings, Rule,
    TripCause, Verdict, WakeReason,
};

use crate::evaluator_fixture::{EvaluatorFixture, at, leases, observation, settings};

const SUSPECTED: EgressState = EgressState::Suspected {
    failing: 9,
    probed: 10,
};
const SUSPECTED_RULE: Rule = Rule::EgressSuspected {
    failing: 9,
    probed: 10,
};

/// Runs a round at `now` over ten nodes, of which `silent` stopped renewing at 0.
fn round(
    fixture: &mut EvaluatorFixture,
    now: f64,
    silent: usize,
    external: ProbeResult,
    egress: EgressState,
) -> Decision {
    let lists = ListResult::Read(fixture.list(at(now), &leases(10, silent, now)));
    let fence = fixture.fence;
    fixture.evaluator.decide(&Observation {
        external: Some(external),
        egress,
        fence,
        ..observation(at(now), lists)
    })
}

/// Returns an evaluator whose external path worked until -10 s and has failed three times at 0, and
/// its last decision.
fn with_failing_path(
    settings: ProbeSettings,
    silent: usize,
    egress: EgressState,
) -> (EvaluatorFixture, Decision) {
    let mut fixture = EvaluatorFixture::new(settings, at(-30.0));
    for now in [-30.0, -20.0, -10.0] {
        let works = EgressState::Works;
        round(&mut fixture, now, 0, ProbeResult::Success, works);
    }
    for now in [-2.0, -1.0] {
        let decision = round(&mut fixture, now, 0, ProbeResult::Failure, egress);
        assert_eq!(decision.verdict, Verdict::Hold, "{now}");
    }
    let decision = round(&mut fixture, 0.0, silent, ProbeResult::Failure, egress);
    (fixture, decision)
}

#[test]
fn suspected_egress_holds() {
    let (mut fixture, decision) = with_failing_path(settings(), 0, SUSPECTED);
    for now in [10.0, 20.0, 30.0] {
        let decision = round(&mut fixture, now, 0, ProbeResult::Failure, SUSPECTED);
        assert_eq!(decision.reasons.rule, SUSPECTED_RULE, "{now}");
        assert_eq!(decision.next_wake.reason, WakeReason::Interval, "{now}");
    }
    assert_eq!(
        (decision.verdict, decision.reasons.rule),
        (Verdict::Hold, SUSPECTED_RULE)
    );
    assert!(
        decision.to_string().starts_with(
            "Hold: the prober's own egress is suspected: the external probes of 9 of 10 clusters \
             fail while leases are renewed; until it works, only leases fence."
        ),
        "{decision}"
    );
}

#[test]
fn suspected_egress_lifts_no_fence() {
    let (mut fixture, decision) = with_failing_path(settings(), 0, EgressState::Works);
    assert_eq!(decision.reasons.rule, Rule::ExternalUnhealthy);
    fixture.fence = FenceState::Full;
    for now in [10.0, 20.0, 30.0] {
        let decision = round(&mut fixture, now, 0, ProbeResult::Failure, SUSPECTED);
        assert_eq!(decision.verdict, Verdict::Hold, "{now}");
    }
    let works = EgressState::Works;
    let decision = round(&mut fixture, 40.0, 0, ProbeResult::Failure, works);
    assert_eq!(decision.verdict, Verdict::Hold, "one failure since");
    let decision = round(&mut fixture, 50.0, 0, ProbeResult::Success, works);
    assert_eq!(decision.verdict, Verdict::Release);
}

#[test]
fn expired_leases_fence_despite_suspicion() {
    let (mut fixture, _) = with_failing_path(settings(), 6, SUSPECTED);
    let decision = round(&mut fixture, 10.0, 6, ProbeResult::Failure, SUSPECTED);
    assert_eq!(decision.reasons.rule, SUSPECTED_RULE);
    // Enough nodes are silent for both probes to agree.
    let decision = round(&mut fixture, 21.0, 6, ProbeResult::Failure, SUSPECTED);
    assert_eq!(decision.reasons.rule, Rule::ExternalUnhealthy);
    let decision = round(&mut fixture, 31.0, 6, ProbeResult::Failure, SUSPECTED);
    let cause = TripCause::Expired;
    let since = at(31.0);
    assert_eq!(decision.reasons.rule, Rule::Tripped { since, cause });
}

#[test]
fn suspicion_does_not_hide_the_trip_instant() {
    let settings = ProbeSettings {
        probe_interval: Duration::from_secs(15),
        ..settings()
    };
    let (mut fixture, _) = with_failing_path(settings, 10, SUSPECTED);
    round(&mut fixture, 10.0, 10, ProbeResult::Failure, SUSPECTED);
    let decision = round(&mut fixture, 19.0, 10, ProbeResult::Failure, SUSPECTED);
    assert_eq!(decision.reasons.rule, SUSPECTED_RULE);
    assert_eq!(decision.reasons.trips_at, Some(at(30.0)), "{decision}");
    assert!(decision.is_pressed);
}

#[test]
fn unclear_egress_waits_and_probes_again() {
    let (mut fixture, decision) = with_failing_path(settings(), 0, EgressState::Unclear);
    assert_eq!(
        (decision.verdict, decision.reasons.rule),
        (Verdict::Hold, Rule::EgressUnclear)
    );
    assert_eq!(decision.next_wake.reason, WakeReason::Recheck);
    assert_eq!(decision.next_wake.at, at(1.0));
    let works = EgressState::Works;
    let decision = round(&mut fixture, 1.0, 0, ProbeResult::Transient, works);
    assert_eq!(decision.reasons.rule, Rule::ExternalUnhealthy);
}

#[test]
fn failures_of_own_egress_are_forgotten() {
    let (mut fixture, _) = with_failing_path(settings(), 0, SUSPECTED);
    let works = EgressState::Works;
    for (now, external, expected) in [
        (10.0, ProbeResult::Transient, Verdict::Hold),
        (11.0, ProbeResult::Failure, Verdict::Hold),
        (12.0, ProbeResult::Failure, Verdict::Hold),
        (13.0, ProbeResult::Failure, Verdict::Fence),
        (14.0, ProbeResult::Success, Verdict::Release),
    ] {
        let decision = round(&mut fixture, now, 0, external, works);
        assert_eq!(decision.verdict, expected, "{now}: {decision}");
    }
}

#[test]
fn suspected_egress_holds_without_leases() {
    let (mut fixture, _) = with_failing_path(settings(), 0, SUSPECTED);
    for lists in [ListResult::Failed, ListResult::Denied] {
        let decision = fixture.evaluator.decide(&Observation {
            external: Some(ProbeResult::Failure),
            egress: SUSPECTED,
            ..observation(at(10.0), lists)
        });
        assert_eq!(decision.reasons.rule, SUSPECTED_RULE, "{lists:?}");
    }
}
