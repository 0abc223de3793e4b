//! Decisions as text and as JSON.

use kelpie_core::prober::{ListResult, Rule, TripCause, WakeReason};

use crate::evaluator_fixture::{
    EvaluatorFixture, after_silence, at, leases, name, node_set, nodes, observation, settings,
};

#[test]
fn decision_prints_as_text_and_json() {
    let (mut fixture, decision) = after_silence(settings(), 7);
    assert_eq!(
        decision.to_string(),
        "Fence: too many leases expired, since 1970-01-01T00:00:30.000000Z. \
         7 of 10 leases expired, 7 silent (trips at 60 %). \
         The next node can turn Unknown in 10.0 s. Next round in 1.0 s: a fence is being made."
    );
    let next = fixture.round(at(38.0), &leases(10, 7, 38.0)).to_string();
    assert!(
        next.contains(" 7 not renewed yet (restores below 60 %)."),
        "{next}"
    );
    assert!(
        next.contains(" All levels are fenced in parallel."),
        "{next}"
    );
    let json = serde_json::to_value(decision).unwrap();
    assert_eq!(json["verdict"], "fence");
    assert_eq!(json["reasons"]["apiServer"]["successCount"], 1);
    assert_eq!(json["reasons"]["leaseProbe"]["errorCount"], 1);
    assert!(json["reasons"]["leases"]["notRenewed"].is_null());
    assert_eq!(json["parallelFrom"], "1970-01-01T00:00:37.000000Z");
    assert_eq!(json["reasons"]["rule"]["name"], "tripped");
    assert_eq!(json["reasons"]["rule"]["cause"], "expired");
    assert_eq!(json["reasons"]["leases"]["expired"], 7);
    assert_eq!(json["reasons"]["failureFraction"], 0.6);
    assert_eq!(json["nextWake"]["reason"], "urgent");
    assert_eq!(json["deadline"], "1970-01-01T00:00:40.000000Z");
}

#[test]
fn rules_and_wake_reasons_have_distinct_texts() {
    let at = at(0.0);
    let rules = [
        Rule::InitialDelay { until: at },
        Rule::ApiServerNotHealthy,
        Rule::ExternalUnhealthy,
        Rule::ListFailed,
        Rule::NoNodes,
        Rule::NoCandidates { renewed: true },
        Rule::NoCandidates { renewed: false },
        Rule::Tripped {
            since: at,
            cause: TripCause::Expired,
        },
        Rule::Tripped {
            since: at,
            cause: TripCause::LastCall,
        },
        Rule::TooFewCandidates { required: 2 },
        Rule::LeasesRenewed,
        Rule::Counting {
            failures: 1,
            required: 3,
        },
        Rule::Undecided { fence_found: None },
        Rule::Undecided {
            fence_found: Some(at),
        },
    ];
    let mut texts: Vec<_> = rules.iter().map(ToString::to_string).collect();
    texts.sort();
    texts.dedup();
    assert_eq!(texts.len(), rules.len());
    let reasons = [
        WakeReason::Interval,
        WakeReason::Freshness,
        WakeReason::FirstExpiry,
        WakeReason::Trip,
        WakeReason::FirstJudgement,
        WakeReason::Recheck,
        WakeReason::Pause,
        WakeReason::Throttled,
        WakeReason::Urgent,
    ];
    let mut texts: Vec<_> = reasons.iter().map(ToString::to_string).collect();
    texts.sort();
    texts.dedup();
    assert_eq!(texts.len(), reasons.len());
}

#[test]
fn text_counts_excluded_and_unproven_nodes() {
    let mut fixture = EvaluatorFixture::new(settings(), at(0.0));
    let listed = fixture.list(at(0.0), &leases(10, 0, 0.0));
    let mut members = nodes((0..12).map(name));
    members[0].unmanaged = true;
    fixture.evaluator.observe_nodes(node_set(&members), at(0.0));
    let text = fixture
        .evaluator
        .decide(&observation(at(0.0), ListResult::Read(listed)))
        .to_string();
    assert!(
        text.starts_with("Hold: not enough is known yet. 0 of 9 leases expired"),
        "{text}"
    );
    assert!(
        text.contains(" 9 seen only once; waiting for a renewal."),
        "{text}"
    );
    assert!(
        text.contains(
            "Not counted: 1 not managed by machine-controller-manager, 2 without a lease."
        ),
        "{text}"
    );
}
