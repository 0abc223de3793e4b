//! States as the prober itself writes them, and how they are told.

use std::collections::BTreeMap;
use std::time::Duration;

use kelpie_core::fence::{Direction, FlowReport, Present, Sight, TargetOutcome, Version};
use kelpie_core::{
    Census, Decision, Fence, Fraction, ProbeStatus, Reasons, ResourceRef, Rule, Time, TripCause,
    Wake, WakeReason,
};
use kelpie_prober::{ClusterState, LastFlow, Shown, State, TargetState};

use crate::explain::tell;

/// 2026-11-16 00:30:00 UTC, and this many seconds.
fn at(seconds: f64) -> Time {
    let start = Time::from_unix(1_794_789_000, 0);
    if seconds < 0.0 {
        start.before(Duration::from_secs_f64(-seconds))
    } else {
        start.after(Duration::from_secs_f64(seconds))
    }
}

fn succeeding(count: u32) -> ProbeStatus {
    ProbeStatus {
        success_count: count,
        error_count: 0,
    }
}

fn failing(count: u32) -> ProbeStatus {
    ProbeStatus {
        success_count: 0,
        error_count: count,
    }
}

fn census(candidates: u32, expired: u32) -> Census {
    let mut census = Census::default();
    census.candidates = candidates;
    census.expired = expired;
    census.silent = expired;
    census.nodes = candidates;
    census
}

fn decision(rule: Rule, leases: Option<Census>) -> Decision {
    let share = Fraction::new(0.6).unwrap();
    Decision {
        verdict: rule.verdict(),
        reasons: Reasons {
            rule,
            leases,
            api_server: succeeding(1),
            external: None,
            lease_probe: succeeding(1),
            failure_fraction: share,
            recovery_fraction: share,
            trips_at: None,
        },
        next_wake: Wake {
            at: at(10.0),
            reason: WakeReason::Interval,
        },
        deadline: None,
        rush_at: None,
        at: at(0.0),
    }
}

fn target(name: &str, sight: impl Into<Option<Sight>>) -> TargetState {
    TargetState {
        resource: ResourceRef {
            api_version: "apps/v1".into(),
            kind: "Deployment".into(),
            name: name.into(),
        },
        sight: sight.into(),
    }
}

fn present(replicas: u32, annotations: &'static [(&'static str, &'static str)]) -> Sight {
    let find = |key: &str| {
        let found = annotations.iter().find(|(name, _)| key.ends_with(name));
        found.map(|(_, value)| *value)
    };
    let present = Present::new(replicas, replicas, Version::new("7"), find);
    Sight::Present(present)
}

fn healthy() -> ClusterState {
    let mut healthy = decision(Rule::Well, Some(census(12, 0)));
    healthy.deadline = Some(at(33.5));
    ClusterState {
        decision: Some(healthy),
        fence: Some(Fence::None),
        targets: vec![
            target("kube-controller-manager", present(1, &[])),
            target(
                "machine-controller-manager",
                present(1, &[("/replicas", "1")]),
            ),
            target("cluster-autoscaler", Sight::Missing),
        ],
        ..ClusterState::default()
    }
}

fn fenced() -> ClusterState {
    let cause = TripCause::Expired;
    let mut leases = census(10, 7);
    leases.not_renewed = Some(7);
    leases.unproven = 2;
    let since = at(-8.0);
    let mut fenced = decision(Rule::Tripped { since, cause }, Some(leases));
    fenced.reasons.lease_probe = failing(1);
    fenced.deadline = Some(at(2.0));
    fenced.rush_at = Some(at(-1.0));
    fenced.next_wake = Wake {
        at: at(1.0),
        reason: WakeReason::Hurry,
    };
    let marked = &[("-active", ""), ("/replicas", "2")];
    let scaled = |seconds, unready| {
        Some(TargetOutcome::Scaled {
            replicas: 0,
            at: at(seconds),
            unready,
            corrupt_record: false,
        })
    };
    ClusterState {
        decision: Some(fenced),
        fence: Some(Fence::Full),
        fenced_since: Some(at(-7.5)),
        targets: vec![
            target("kube-controller-manager", present(0, marked)),
            target("machine-controller-manager", present(0, marked)),
            target(
                "cluster-autoscaler",
                present(1, &[("/ignore-scaling", "true")]),
            ),
        ],
        last_flow: Some(LastFlow {
            at: at(-2.5),
            report: FlowReport {
                direction: Direction::Down,
                outcomes: vec![
                    scaled(-7.6, false),
                    scaled(-7.8, true),
                    Some(TargetOutcome::Ignored),
                ],
                attempts: 2,
            },
        }),
        troubles: Vec::new(),
    }
}

fn blind() -> ClusterState {
    let mut blind = decision(Rule::ApiServerNotHealthy, None);
    blind.reasons.api_server = failing(3);
    blind.reasons.external = Some(succeeding(1));
    blind.next_wake = Wake {
        at: at(29.0),
        reason: WakeReason::Pause,
    };
    ClusterState {
        decision: Some(blind),
        fence: Some(Fence::Unknown),
        targets: vec![target("kube-controller-manager", None::<Sight>)],
        troubles: vec![
            "API server: 10.0.0.1:443: connection refused".into(),
            "Deployment kube-controller-manager: \u{1b}[2Jno answer within 2s".into(),
        ],
        ..ClusterState::default()
    }
}

fn half_restored() -> ClusterState {
    let mut well = decision(Rule::Well, Some(census(3, 0)));
    well.next_wake.reason = WakeReason::Hurry;
    let restored = TargetOutcome::Scaled {
        replicas: 1,
        at: at(-70.0),
        unready: false,
        corrupt_record: true,
    };
    let corrupt = &[("-active", ""), ("/replicas", "many")];
    ClusterState {
        decision: Some(well),
        fence: Some(Fence::Partial),
        fenced_since: Some(at(-86_400.0 * 3.0)),
        targets: vec![
            target(
                "kube-controller-manager",
                present(1, &[("/replicas", "many")]),
            ),
            target("machine-controller-manager", present(0, corrupt)),
            target("cluster-autoscaler", present(0, &[])),
            target("dependency", None::<Sight>),
        ],
        last_flow: Some(LastFlow {
            at: at(-600.0),
            report: FlowReport {
                direction: Direction::Up,
                outcomes: vec![
                    Some(restored),
                    Some(TargetOutcome::Failed),
                    Some(TargetOutcome::NotOurs),
                    None,
                ],
                attempts: 5,
            },
        }),
        troubles: vec!["Deployment machine-controller-manager: may not scale it".into()],
    }
}

fn told(state: ClusterState, leads: bool, dry_run: bool) -> String {
    let cluster = "shoot--dev--one".to_owned();
    let state = State {
        at: at(0.4),
        leads,
        dry_run,
        clusters: BTreeMap::from([(cluster.clone(), Shown::from(state))]),
    };
    let json = serde_json::to_string(&state).unwrap();
    let text = tell(&json, &cluster).unwrap();
    anstream::adapter::strip_str(&text).to_string()
}

#[test]
fn a_healthy_cluster() {
    insta::assert_snapshot!(told(healthy(), true, false));
}

#[test]
fn a_fence_with_its_deadline() {
    insta::assert_snapshot!(told(fenced(), true, false));
}

/// The first line, without the cluster, and the names of the rows.
fn outline(told: &str) -> Vec<&str> {
    let mut lines = told.lines();
    let verdict = lines.next().and_then(|line| line.split_once(": "));
    let verdict = verdict.map(|(_, verdict)| verdict);
    let rows = lines.filter_map(|line| line.strip_prefix("  ")?.split("  ").next());
    let rows = rows.filter(|name| !name.is_empty());
    verdict.into_iter().chain(rows).collect()
}

/// The run was a real one; what it printed then is still what is printed.
#[test]
fn the_runbook_shows_what_is_really_told() {
    let runbook = include_str!("../../../../../docs/operate.md");
    let shown = runbook.split("```text\n").nth(1).unwrap();
    let shown = shown.split("```").next().unwrap();
    assert_eq!(outline(shown), outline(&told(fenced(), true, false)));
}

#[test]
fn an_api_server_that_is_away() {
    insta::assert_snapshot!(told(blind(), false, false));
}

#[test]
fn a_restore_that_is_stuck() {
    insta::assert_snapshot!(told(half_restored(), false, true));
}

#[test]
fn a_cluster_that_was_not_looked_at_yet() {
    insta::assert_snapshot!(told(ClusterState::default(), false, true));
}

#[test]
fn excluded_nodes_are_told_by_cause() {
    // Only a judge makes exclusions: here in the words that it would use.
    let mut state = serde_json::to_value(State {
        at: at(0.4),
        leads: true,
        dry_run: false,
        clusters: BTreeMap::from([("a".to_owned(), Shown::from(healthy()))]),
    })
    .unwrap();
    state["clusters"]["a"]["words"]["excluded"] =
        serde_json::json!(["1 without a machine", "2 without a lease"]);
    let text = tell(&state.to_string(), "a").unwrap();
    let text = anstream::adapter::strip_str(&text).to_string();
    assert!(
        text.contains("  not counted    1 without a machine\n                 2 without a lease\n"),
        "{text}"
    );
}

#[test]
fn an_answer_that_is_none_is_an_error_and_no_panic() {
    for json in ["", "{}", "[]", "null", "{\"at\": 1}", "\"at\""] {
        assert!(tell(json, "a").is_err(), "{json}");
    }
}
