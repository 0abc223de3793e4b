//! States as the prober serializes them, and their descriptions.

use std::collections::BTreeMap;
use std::time::Duration;

use kelpie_core::prober::fence::{
    Direction, FlowReport, Observed, RecordedSetting, ResourceVersion, TargetObject, TargetOutcome,
};
use kelpie_core::prober::guard::{GroupKind, GuardState, HeldGroup};
use kelpie_core::prober::{
    Decision, FenceState, LeaseCounts, ProbeStatus, Reasons, ResourceRef, Rule, Setting, TripCause,
    Wake, WakeReason,
};
use kelpie_core::{Fraction, PauseSwitch, Time};
use kelpie_kube::replica::ReplicaState;
use kelpie_prober::{ClusterState, ClusterView, LastFlow, ProberState, TargetState};

use crate::explain::describe;

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

fn counts(candidates: u32, expired: u32) -> LeaseCounts {
    let mut counts = LeaseCounts::default();
    counts.candidates = candidates;
    counts.expired = expired;
    counts.silent = expired;
    counts.nodes = candidates;
    counts
}

fn decision(rule: Rule, leases: Option<LeaseCounts>) -> Decision {
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
        parallel_from: None,
        trip_deadline: None,
        is_pressed: false,
        review_at: None,
        evidence_at: at(0.0),
        evidence_until: None,
        at: at(0.0),
    }
}

fn target(name: &str, observed: impl Into<Option<Observed>>) -> TargetState {
    TargetState {
        resource: ResourceRef {
            api_version: "apps/v1".into(),
            kind: "Deployment".into(),
            name: name.into(),
        },
        observed: observed.into(),
    }
}

/// A target with these replicas, changed by `edit`.
fn present(replicas: u32, edit: impl FnOnce(&mut TargetObject)) -> Observed {
    let mut object = TargetObject::running(Setting(replicas), ResourceVersion::new("7"));
    edit(&mut object);
    Observed::Present(object)
}

fn fenced_with(recorded: RecordedSetting) -> Observed {
    present(0, |object| {
        object.marked = true;
        object.recorded = recorded;
    })
}

fn healthy() -> ClusterState {
    let mut healthy = decision(Rule::LeasesRenewed, Some(counts(12, 0)));
    healthy.deadline = Some(at(33.5));
    ClusterState {
        decision: Some(healthy),
        fence: Some(FenceState::None),
        targets: vec![
            target("kube-controller-manager", present(1, |_| ())),
            target(
                "machine-controller-manager",
                present(1, |object| {
                    object.recorded = RecordedSetting::Value(Setting(1));
                }),
            ),
            target("cluster-autoscaler", Observed::Missing),
        ],
        ..ClusterState::default()
    }
}

fn fenced() -> ClusterState {
    let cause = TripCause::Expired;
    let mut leases = counts(10, 7);
    leases.not_renewed = Some(7);
    leases.unproven = 2;
    let since = at(-8.0);
    let mut fenced = decision(Rule::Tripped { since, cause }, Some(leases));
    fenced.reasons.lease_probe = failing(1);
    fenced.deadline = Some(at(2.0));
    fenced.parallel_from = Some(at(-1.0));
    fenced.next_wake = Wake {
        at: at(1.0),
        reason: WakeReason::Urgent,
    };
    let recorded = RecordedSetting::Value(Setting(2));
    let scaled = |seconds, unready| {
        Some(TargetOutcome::Applied {
            setting: Setting(0),
            at: at(seconds),
            unready,
            corrupt_record: false,
        })
    };
    ClusterState {
        decision: Some(fenced),
        fence: Some(FenceState::Full),
        fenced_since: Some(at(-7.5)),
        margin: Some(4.4),
        targets: vec![
            target("kube-controller-manager", fenced_with(recorded)),
            target("machine-controller-manager", fenced_with(recorded)),
            target(
                "cluster-autoscaler",
                present(1, |object| object.ignored = true),
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
        ..ClusterState::default()
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
        fence: Some(FenceState::Unknown),
        targets: vec![target("kube-controller-manager", None::<Observed>)],
        problems: vec![
            "API server: 10.0.0.1:443: connection refused".into(),
            "Deployment kube-controller-manager: \u{1b}[2Jno answer within 2s".into(),
        ],
        ..ClusterState::default()
    }
}

fn half_restored() -> ClusterState {
    let mut well = decision(Rule::LeasesRenewed, Some(counts(3, 0)));
    well.next_wake.reason = WakeReason::Urgent;
    let restored = TargetOutcome::Applied {
        setting: Setting(1),
        at: at(-70.0),
        unready: false,
        corrupt_record: true,
    };
    ClusterState {
        decision: Some(well),
        fence: Some(FenceState::Partial),
        fenced_since: Some(at(-86_400.0 * 3.0)),
        targets: vec![
            target(
                "kube-controller-manager",
                present(1, |object| object.recorded = RecordedSetting::Corrupt),
            ),
            target(
                "machine-controller-manager",
                fenced_with(RecordedSetting::Corrupt),
            ),
            target("cluster-autoscaler", present(0, |_| ())),
            target("dependency", None::<Observed>),
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
        problems: vec!["Deployment machine-controller-manager: may not scale it".into()],
        ..ClusterState::default()
    }
}

fn described(state: ClusterState, leads: bool, dry_run: bool) -> String {
    let cluster = "shoot--dev--one".to_owned();
    let state = ProberState {
        replica: ReplicaState {
            at: at(0.4),
            leads,
            dry_run,
        },
        pause: PauseSwitch::Off,
        shard: None,
        clusters: BTreeMap::from([(cluster.clone(), ClusterView::from(state))]),
    };
    let json = serde_json::to_string(&state).unwrap();
    let text = describe(&json, &cluster).unwrap();
    anstream::adapter::strip_str(&text).to_string()
}

#[test]
fn healthy_cluster() {
    insta::assert_snapshot!(described(healthy(), true, false));
}

#[test]
fn fenced_before_deadline() {
    insta::assert_snapshot!(described(fenced(), true, false));
}

/// The first line without the cluster, and the names of the rows.
fn outline(text: &str) -> Vec<&str> {
    let mut lines = text.lines();
    let verdict = lines.next().and_then(|line| line.split_once(": "));
    let verdict = verdict.map(|(_, verdict)| verdict);
    let rows = lines.filter_map(|line| line.strip_prefix("  ")?.split("  ").next());
    let rows = rows.filter(|name| !name.is_empty());
    verdict.into_iter().chain(rows).collect()
}

/// The output in the runbook comes from a real run and must stay what is printed.
#[test]
fn runbook_shows_real_output() {
    let runbook = include_str!("../../../../../docs/operate/on-call.md");
    let shown = runbook.split("```text\n").nth(1).unwrap();
    let shown = shown.split("```").next().unwrap();
    assert_eq!(outline(shown), outline(&described(fenced(), true, false)));
}

#[test]
fn api_server_down() {
    insta::assert_snapshot!(described(blind(), false, false));
}

#[test]
fn restore_stuck() {
    insta::assert_snapshot!(described(half_restored(), false, true));
}

#[test]
fn no_round_yet() {
    insta::assert_snapshot!(described(ClusterState::default(), false, true));
}

#[test]
fn held_by_the_guard_alone() {
    let until = at(90.0);
    let state = ClusterState {
        targets: Vec::new(),
        guard: Some(GuardState::Armed { until }),
        held_groups: vec![HeldGroup {
            kind: GroupKind::Zone,
            name: "eu-1a".into(),
            until,
        }],
        ..fenced()
    };
    let text = described(state.clone(), true, false);
    assert!(
        text.starts_with("shoot--dev--one: Fence, the guard holds its nodes\n"),
        "{text}"
    );
    let rows = "  guard          armed until 2026-11-16 00:31:30.0 UTC\n                 \
                zone eu-1a held until 2026-11-16 00:31:30.0 UTC\n";
    assert!(text.contains(rows), "{text}");
    let state = ClusterState {
        guard: Some(GuardState::Expired),
        ..state
    };
    let text = described(state, true, false);
    assert!(
        text.starts_with("shoot--dev--one: Fence, but nothing protects its nodes\n"),
        "{text}"
    );
}

#[test]
fn pause_is_the_first_row() {
    let mut state = serde_json::to_value(ProberState {
        replica: ReplicaState {
            at: at(0.4),
            leads: true,
            dry_run: false,
        },
        pause: PauseSwitch::read(Some("2026-11-16T02:00:00Z"), Some("drill")),
        shard: None,
        clusters: BTreeMap::from([("a".to_owned(), ClusterView::from(healthy()))]),
    })
    .unwrap();
    let described = |state: &serde_json::Value| {
        let text = describe(&state.to_string(), "a").unwrap();
        anstream::adapter::strip_str(&text).to_string()
    };
    let text = described(&state);
    let expected = "PAUSED: nothing is fenced and no pod is deleted until 2026-11-16 02:00:00.0 \
                    UTC, because: drill";
    assert_eq!(
        text.lines().nth(2).unwrap().trim(),
        format!("pause          {expected}")
    );
    // A prober that knows no pause.
    state.as_object_mut().unwrap().remove("pause");
    assert_eq!(row(&described(&state), "pause"), None);
}

/// Returns the row of this name.
fn row<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let row = |line: &'t str| line.strip_prefix("  ")?.strip_prefix(name);
    text.lines().find_map(row).map(str::trim)
}

#[test]
fn deadline_that_passed_while_fenced_is_harmless() {
    let deadline = |fence, seconds| {
        let mut state = fenced();
        state.fence = Some(fence);
        let decision = state.decision.as_mut().unwrap();
        decision.deadline = Some(at(seconds));
        let text = described(state, true, false);
        let row = row(&text, "deadline").unwrap();
        row.rsplit_once(": ").unwrap().1.to_owned()
    };
    let harmless = "harmless, because its controllers are fenced";
    assert_eq!(deadline(FenceState::Full, -4.3), harmless);
    assert_eq!(deadline(FenceState::Full, 2.0), harmless);
    let passed = "a node that has not renewed since can be Unknown by now";
    assert_eq!(deadline(FenceState::Partial, -4.3), passed);
    let ahead = "the next node can turn Unknown then, unless it renews";
    assert_eq!(deadline(FenceState::None, 2.0), ahead);
}

#[test]
fn margin_is_shown_for_fences_in_time_and_late_ones() {
    let margin = |margin| {
        let state = ClusterState { margin, ..fenced() };
        row(&described(state, true, false), "margin").map(str::to_owned)
    };
    let in_time = "fenced 4.4 s before the first node could turn Unknown";
    assert_eq!(margin(Some(4.4)).as_deref(), Some(in_time));
    let late = "TOO LATE: fenced 1.2 s after the first node could turn Unknown";
    assert_eq!(margin(Some(-1.2)).as_deref(), Some(late));
    assert_eq!(margin(None), None);
}

#[test]
fn only_an_unfenced_cluster_is_healthy() {
    let headline = |fence, rule: Option<Rule>| {
        let mut state = healthy();
        state.fence = fence;
        let decision = state.decision.as_mut().unwrap();
        decision.reasons.rule = rule.unwrap_or(decision.reasons.rule);
        let text = described(state, true, false);
        let line = text.lines().next().unwrap();
        line.strip_prefix("shoot--dev--one: ").unwrap().to_owned()
    };
    let none = Some(FenceState::None);
    let no_candidates = Some(Rule::NoCandidates { renewed: true });
    for (fence, rule, expected) in [
        (none, None, "Healthy, nothing is fenced"),
        (
            none,
            no_candidates,
            "Not protected, none of its nodes can be judged",
        ),
        (None, None, "Healthy, but its targets were not read yet"),
        (
            Some(FenceState::Unknown),
            None,
            "Healthy, but its targets were not read yet",
        ),
        (
            Some(FenceState::Partial),
            None,
            "Releasing, its fence is being lifted",
        ),
    ] {
        assert_eq!(headline(fence, rule), expected);
    }
}

#[test]
fn excluded_nodes_are_listed_by_cause() {
    // Only an evaluator makes exclusions, so they are written into the JSON.
    let mut state = serde_json::to_value(ProberState {
        replica: ReplicaState {
            at: at(0.4),
            leads: true,
            dry_run: false,
        },
        pause: PauseSwitch::Off,
        shard: None,
        clusters: BTreeMap::from([("a".to_owned(), ClusterView::from(healthy()))]),
    })
    .unwrap();
    state["clusters"]["a"]["decision"]["reasons"]["leases"]["excluded"] =
        serde_json::json!({ "noMachine": 1, "noLease": 2, "unknownToThisVersion": 3 });
    let text = describe(&state.to_string(), "a").unwrap();
    let text = anstream::adapter::strip_str(&text).to_string();
    assert!(
        text.contains("  not counted    1 without a machine\n                 2 without a lease\n"),
        "{text}"
    );
}

#[test]
fn malformed_state_is_an_error() {
    for json in ["", "{}", "[]", "null", "{\"at\": 1}", "\"at\""] {
        assert!(describe(json, "a").is_err(), "{json}");
    }
}
