//! How a decision reads.

use kelpie_core::{Lists, Rule, TripCause, WakeReason};

use crate::stage::{Stage, after_silence, at, leases, name, nodes, roster, seen, settings};

#[test]
fn a_decision_explains_itself_in_plain_words_and_as_json() {
    let (mut stage, decision) = after_silence(settings(), 7);
    assert_eq!(
        decision.to_string(),
        "Fence: too many leases are expired, since 1970-01-01T00:00:30.000000Z. Of 10 candidates 7 \
         are expired and 7 silent (trips at 60 %). The next node can turn Unknown in 10.0 s. Next \
         look in 1.0 s: something is under way."
    );
    let next = stage.round(at(38.0), &leases(10, 7, 38.0)).to_string();
    assert!(
        next.contains(" 7 have not renewed since the trip (well again below 60 %)."),
        "{next}"
    );
    assert!(
        next.contains(" Levels no longer wait for each other."),
        "{next}"
    );
    let json = serde_json::to_value(decision).unwrap();
    assert_eq!(json["verdict"], "fence");
    assert_eq!(json["reasons"]["apiServer"]["successCount"], 1);
    assert_eq!(json["reasons"]["leaseProbe"]["errorCount"], 1);
    assert!(json["reasons"]["leases"]["notRenewed"].is_null());
    assert_eq!(json["rushAt"], "1970-01-01T00:00:37.000000Z");
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
        Rule::Counting {
            failures: 1,
            required: 3,
        },
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
