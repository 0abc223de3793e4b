//! The verdict rules, one by one.

use std::time::Duration;

use kelpie_core::Time;
use kelpie_core::prober::{
    FenceState, Lease, LeaseRole, ListResult, ListSpan, MachinePhase, Machines, Observation,
    ProbeResult, ProbeSettings, Rule, Thresholds, TripCause, Verdict, WakeReason,
};

use crate::evaluator_fixture::{
    EvaluatorFixture, after_silence, at, fraction, lease_list, leases, name, node_set, nodes,
    observation, settings,
};

#[test]
fn fence_at_failure_fraction_not_below() {
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
        (Verdict::Release, Rule::LeasesRenewed)
    );
}

#[test]
fn unhealthy_api_server_holds() {
    let (mut fixture, _) = after_silence(settings(), 5);
    for result in [
        ProbeResult::Failure,
        ProbeResult::Failure,
        ProbeResult::Failure,
        ProbeResult::Transient,
    ] {
        let round = Observation {
            api_server: result,
            ..observation(at(31.0), ListResult::NotAsked)
        };
        let decision = fixture.evaluator.decide(&round);
        assert_eq!(decision.reasons.rule, Rule::ApiServerNotHealthy);
        assert_eq!(decision.verdict, Verdict::Hold);
    }
}

#[test]
fn unhealthy_external_path_fences_without_list() {
    let mut fixture = EvaluatorFixture::new(settings(), at(-1.0));
    let round = |now: f64, lists| Observation {
        external: Some(ProbeResult::Failure),
        ..observation(at(now), lists)
    };
    prove_external_path(&mut fixture, -1.0);
    for now in [0.0, 1.0] {
        let lists = ListResult::Read(fixture.list(at(now), &leases(10, 0, now)));
        assert_eq!(
            fixture.evaluator.decide(&round(now, lists)).verdict,
            Verdict::Hold,
            "{now}"
        );
    }
    let decision = fixture.evaluator.decide(&round(2.0, ListResult::Failed));
    assert_eq!(decision.reasons.rule, Rule::ExternalUnhealthy);
    assert_eq!(decision.verdict, Verdict::Fence);
}

/// Lets the external probe succeed once.
fn prove_external_path(fixture: &mut EvaluatorFixture, now: f64) {
    let lists = ListResult::Read(fixture.list(at(now), &leases(10, 0, now)));
    fixture.evaluator.decide(&Observation {
        external: Some(ProbeResult::Success),
        ..observation(at(now), lists)
    });
}

#[test]
fn undecided_external_path_holds() {
    let mut fixture = EvaluatorFixture::new(settings(), at(-10.0));
    prove_external_path(&mut fixture, -10.0);
    for (now, external, expected) in [
        (0.0, ProbeResult::Failure, Verdict::Hold),
        (10.0, ProbeResult::Transient, Verdict::Hold),
        (20.0, ProbeResult::Success, Verdict::Release),
    ] {
        let lists = ListResult::Read(fixture.list(at(now), &leases(10, 0, now)));
        let round = Observation {
            external: Some(external),
            ..observation(at(now), lists)
        };
        let verdict = fixture.evaluator.decide(&round).verdict;
        assert_eq!(verdict, expected, "{now}");
    }
}

#[test]
fn external_path_without_success_decides_nothing() {
    let mut fixture = EvaluatorFixture::new(settings(), at(0.0));
    let failing = |fixture: &mut EvaluatorFixture, now: f64, silent| {
        let lists = ListResult::Read(fixture.list(at(now), &leases(10, silent, now)));
        fixture.evaluator.decide(&Observation {
            external: Some(ProbeResult::Failure),
            ..observation(at(now), lists)
        })
    };
    failing(&mut fixture, 0.0, 0);
    for now in [10.0, 20.0, 30.0, 40.0] {
        let decision = failing(&mut fixture, now, 0);
        assert_eq!(decision.reasons.rule, Rule::LeasesRenewed, "{now}");
    }
}

#[test]
fn both_probes_decide_where_leases_are_denied() {
    let mut fixture = EvaluatorFixture::new(settings(), at(0.0));
    let mut round = |now: f64, external| {
        let round = Observation {
            external: Some(external),
            ..observation(at(now), ListResult::Denied)
        };
        fixture.evaluator.decide(&round).reasons.rule
    };
    assert_eq!(round(0.0, ProbeResult::Success), Rule::BothProbesHealthy);
    for now in [10.0, 20.0] {
        assert_eq!(round(now, ProbeResult::Failure), Rule::ListFailed, "{now}");
    }
    assert_eq!(round(30.0, ProbeResult::Failure), Rule::ExternalUnhealthy);
    assert_eq!(round(40.0, ProbeResult::Success), Rule::BothProbesHealthy);
}

#[test]
fn failed_list_holds_and_keeps_counts() {
    let (mut fixture, _) = after_silence(settings(), 5);
    for lists in [ListResult::Failed, ListResult::NotAsked] {
        let decision = fixture.evaluator.decide(&observation(at(31.0), lists));
        assert_eq!(
            (decision.verdict, decision.reasons.rule),
            (Verdict::Hold, Rule::ListFailed)
        );
        assert_eq!(decision.deadline, Some(at(40.0)), "the last known deadline");
        assert_eq!(decision.reasons.lease_probe.success_count, 1);
    }
    let decision = fixture.round(at(32.0), &leases(10, 5, 32.0));
    assert_eq!(decision.verdict, Verdict::Release);
}

#[test]
fn failed_lists_keep_fence_for_half_grace() {
    let (mut fixture, decision) = after_silence(settings(), 10);
    assert_eq!(decision.verdict, Verdict::Fence);
    let mut fail = |now: f64| {
        fixture
            .evaluator
            .decide(&observation(at(now), ListResult::Failed))
    };
    assert_eq!(fail(31.0).verdict, Verdict::Fence);
    assert_eq!(fail(31.0).next_wake.at, at(31.3), "soon until it is fenced");
    assert_eq!(
        fail(41.0).parallel_from,
        Some(at(41.0)),
        "the deadline was missed"
    );
    assert_eq!(fail(50.0).verdict, Verdict::Fence);
    assert_eq!(fail(50.1).verdict, Verdict::Hold);
}

#[test]
fn unproven_leases_lift_no_fence() {
    for tripped_before in [false, true] {
        let (mut fixture, _) = after_silence(settings(), if tripped_before { 10 } else { 0 });
        let decision = fixture.round(at(35.0), &leases(10, 0, 35.0));
        assert_eq!(decision.verdict, Verdict::Release);
        // The lists of this standby fail for a minute, and the leader fences meanwhile. Then this
        // replica takes over.
        for now in [40.0, 50.0, 60.0, 70.0, 80.0] {
            fixture
                .evaluator
                .decide(&observation(at(now), ListResult::Failed));
        }
        fixture.fence = FenceState::Full;
        let decision = fixture.round(at(90.0), &leases(10, 0, 35.0));
        assert_eq!(decision.verdict, Verdict::Hold, "{decision}");
        let decision = fixture.round(at(100.0), &leases(10, 0, 100.0));
        assert_eq!(decision.verdict, Verdict::Release, "{decision}");
    }
}

#[test]
fn renewals_across_gap_lift_no_fence() {
    let (mut fixture, decision) = after_silence(settings(), 10);
    assert_eq!(decision.verdict, Verdict::Fence);
    fixture.fence = FenceState::Full;
    // All nodes renewed once in the minute without lists, and are not seen to renew again.
    for (now, verdict) in [
        (91.0, Verdict::Hold),
        (105.9, Verdict::Hold),
        (106.0, Verdict::Release),
    ] {
        let decision = fixture.round(at(now), &leases(10, 0, 81.0));
        assert_eq!(decision.verdict, verdict, "{now}: {decision}");
    }
}

#[test]
fn partial_fence_resumes_on_proof_after_gap() {
    for (renewed, verdict) in [(0.0, Verdict::Fence), (85.0, Verdict::Release)] {
        let (mut fixture, decision) = after_silence(settings(), 10);
        assert_eq!(decision.verdict, Verdict::Fence);
        fixture.fence = FenceState::Partial;
        for (now, verdict) in [
            (91.0, Verdict::Hold),
            (105.0, Verdict::Hold),
            (106.0, verdict),
        ] {
            let decision = fixture.round(at(now), &leases(10, 0, renewed));
            assert_eq!(decision.verdict, verdict, "{now}: {decision}");
        }
    }
}

#[test]
fn slow_restore_keeps_release() {
    let (mut fixture, decision) = after_silence(settings(), 10);
    assert_eq!(decision.verdict, Verdict::Fence);
    fixture.fence = FenceState::Full;
    for now in [35.0, 36.0, 37.0] {
        let decision = fixture.round(at(now), &leases(10, 0, 35.0));
        assert_eq!(decision.verdict, Verdict::Release, "{now}: {decision}");
    }
}

#[test]
fn next_list_proves_renewal_despite_wrong_clock() {
    // The clocks are an hour behind and were not observed for long. The only lower bound on a
    // renewal is the list before it, which tripped.
    let one_hour_behind = |seconds: f64| {
        (0..10)
            .map(|index| (name(index), at(seconds - 3_600.0)))
            .collect::<Vec<_>>()
    };
    let mut fixture = EvaluatorFixture::new(settings(), at(-40.0));
    for round in -4..=0 {
        let now = f64::from(round) * 10.0;
        fixture.round(at(now), &one_hour_behind(now - 1.0));
    }
    fixture.round(at(10.0), &one_hour_behind(-1.0));
    let decision = fixture.round(at(20.0), &one_hour_behind(-1.0));
    assert_eq!(decision.verdict, Verdict::Fence, "{decision}");
    let decision = fixture.round(at(21.0), &one_hour_behind(20.5));
    assert_eq!(decision.verdict, Verdict::Release, "{decision}");
}

#[test]
fn passed_deadline_is_none() {
    let (mut fixture, _) = after_silence(settings(), 10);
    let decision = fixture.round(at(40.0), &leases(10, 10, 0.0));
    assert_eq!(
        (decision.deadline, decision.parallel_from),
        (None, Some(at(40.0)))
    );
    let (mut fixture, _) = after_silence(settings(), 10);
    let decision = fixture
        .evaluator
        .decide(&observation(at(40.0), ListResult::Failed));
    assert_eq!(decision.deadline, None);
}

#[test]
fn recovery_counts_candidates_only() {
    let (mut fixture, decision) = after_silence(settings(), 10);
    assert_eq!(decision.verdict, Verdict::Fence);
    let listed = fixture.list(at(35.0), &leases(10, 7, 35.0));
    let mut members = nodes((0..10).map(name));
    for node in &mut members[..6] {
        node.unmanaged = true;
    }
    fixture
        .evaluator
        .observe_nodes(node_set(&members), at(35.0));
    let decision = fixture
        .evaluator
        .decide(&observation(at(35.0), ListResult::Read(listed)));
    // One of the four candidates has not renewed, and seven of all ten nodes.
    assert_eq!(decision.verdict, Verdict::Release, "{decision}");
}

#[test]
fn leases_are_judged_at_list_start() {
    let mut fixture = EvaluatorFixture::new(settings(), at(-30.0));
    for now in [-30.0, -20.0, -10.0] {
        fixture.round(at(now), &leases(10, 0, now));
    }
    for now in [0.0, 10.0, 20.0] {
        fixture.round(at(now), &leases(10, 10, now));
    }
    // The API-server probe took 5 s. The leases expired meanwhile.
    let listed = fixture.list(at(34.0), &leases(10, 10, 0.0));
    let round = Observation {
        end: at(34.1),
        ..observation(at(29.0), ListResult::Read(listed))
    };
    let decision = fixture.evaluator.decide(&round);
    assert_eq!((decision.at, decision.verdict), (at(34.0), Verdict::Fence));
}

#[test]
fn list_counts_although_nodes_are_due() {
    let mut fixture = EvaluatorFixture::new(settings(), at(0.0));
    fixture.round(at(0.0), &leases(3, 0, 0.0));
    let many = leases(30, 0, 10.0);
    let span = ListSpan {
        start: at(10.0),
        end: at(10.0),
    };
    let listed = fixture
        .evaluator
        .observe_leases(span, None, lease_list(&many));
    let decision = fixture
        .evaluator
        .decide(&observation(at(10.0), ListResult::Read(listed)));
    assert_eq!(decision.reasons.rule, Rule::LeasesRenewed);
    let counts = decision.reasons.leases.unwrap();
    assert_eq!(counts.candidates, 30, "a lease without a known node counts");
}

#[test]
fn changed_machines_update_roles() {
    let mut fixture = EvaluatorFixture::new(settings(), at(0.0));
    fixture.round(at(0.0), &leases(3, 0, 0.0));
    let list = |fixture: &mut EvaluatorFixture, now: f64| {
        let span = ListSpan {
            start: at(now),
            end: at(now),
        };
        fixture
            .evaluator
            .observe_leases(span, None, lease_list(&leases(4, 0, now)))
    };
    list(&mut fixture, 10.0);
    let machines: Machines = [(name(0), MachinePhase::Alive)].into_iter().collect();
    fixture.evaluator.observe_machines(Some(&machines), true);
    let roles: Vec<_> = fixture
        .evaluator
        .leases()
        .leases(settings().grace)
        .map(|lease| lease.role)
        .collect();
    assert_eq!(
        roles,
        [
            LeaseRole::Candidate,
            LeaseRole::Excluded,
            LeaseRole::Excluded,
            LeaseRole::Unknown
        ]
    );
    let listed = list(&mut fixture, 20.0);
    assert!(fixture.evaluator.nodes_due(&listed, FenceState::None));
}

#[test]
fn external_fence_keeps_level_order() {
    let mut fixture = EvaluatorFixture::new(settings(), at(-1.0));
    let mut decide = |now: f64| {
        let external = if now < 0.0 {
            ProbeResult::Success
        } else {
            ProbeResult::Failure
        };
        fixture.evaluator.decide(&Observation {
            external: Some(external),
            ..observation(at(now), ListResult::Failed)
        })
    };
    let decision = [-1.0, 0.0, 1.0, 2.0].map(&mut decide)[3];
    assert_eq!(
        (decision.verdict, decision.parallel_from),
        (Verdict::Fence, None)
    );
}

#[test]
fn extreme_values_do_not_panic() {
    let graces = [
        Duration::ZERO,
        Duration::from_micros(1),
        Duration::from_secs(40),
        Duration::MAX,
    ];
    for grace in graces {
        let settings = ProbeSettings {
            grace,
            fence_reserve: Duration::MAX,
            probe_interval: Duration::MAX,
            jitter: f64::NAN,
            api_failure_pause: Duration::MAX,
            min_candidates: 0,
            ..settings()
        };
        let mut fixture = EvaluatorFixture::new(settings, Time::MIN);
        for now in [Time::MIN, at(0.0), at(1.0), Time::MAX, Time::MIN, at(100.0)] {
            for renewed in [Time::MIN, Time::MAX, at(0.0), Time::from_micros(-1)] {
                for duration_seconds in [None, Some(i32::MIN), Some(i32::MAX), Some(0)] {
                    let lease = |name| Lease {
                        name,
                        renew_time: Some(renewed),
                        duration_seconds,
                    };
                    let names = ["a", "b", "c", "a"];
                    let span = ListSpan {
                        start: now,
                        end: now,
                    };
                    let listed = fixture
                        .evaluator
                        .observe_leases(span, None, names.map(lease));
                    fixture
                        .evaluator
                        .observe_nodes(node_set(&nodes(names.map(String::from))), now);
                    let released = Some(renewed);
                    let decision = fixture.evaluator.decide(&Observation {
                        released,
                        ..observation(now, ListResult::Read(listed))
                    });
                    assert!(!decision.to_string().is_empty());
                }
            }
        }
    }
}

#[test]
fn cluster_without_nodes_is_released() {
    let (mut fixture, decision) = after_silence(settings(), 10);
    assert_eq!(decision.verdict, Verdict::Fence);
    let listed = fixture.list(at(31.0), &[]);
    fixture.evaluator.observe_nodes(node_set(&[]), at(31.0));
    let decision = fixture
        .evaluator
        .decide(&observation(at(31.0), ListResult::Read(listed)));
    assert_eq!(
        (decision.verdict, decision.reasons.rule),
        (Verdict::Release, Rule::NoNodes)
    );
}

#[test]
fn without_candidates_all_nodes_lift_fence() {
    let excluded = || {
        let mut nodes = nodes((0..10).map(name));
        for node in &mut nodes {
            node.unmanaged = true;
        }
        node_set(&nodes)
    };
    let decide = |fixture: &mut EvaluatorFixture, now: f64, silent: usize| {
        let listed = fixture.list(at(now), &leases(10, silent, now));
        fixture.evaluator.observe_nodes(excluded(), at(now));
        fixture
            .evaluator
            .decide(&observation(at(now), ListResult::Read(listed)))
    };
    let (mut fixture, _) = after_silence(settings(), 5);
    let decision = decide(&mut fixture, 31.0, 10);
    assert_eq!(
        decision.reasons.rule,
        Rule::NoCandidates { renewed: true },
        "no new fence"
    );
    assert_eq!(decision.reasons.leases.unwrap().excluded.total(), 10);

    let (mut fixture, decision) = after_silence(settings(), 10);
    assert_eq!(decision.verdict, Verdict::Fence);
    let decision = decide(&mut fixture, 31.0, 10);
    assert_eq!(
        (decision.verdict, decision.reasons.rule),
        (Verdict::Hold, Rule::NoCandidates { renewed: false },)
    );
    let decision = decide(&mut fixture, 35.0, 2);
    assert_eq!(
        decision.verdict,
        Verdict::Release,
        "eight of ten renewed since the trip"
    );
}

#[test]
fn too_few_candidates_lift_but_never_fence() {
    let settings = ProbeSettings {
        min_candidates: 11,
        ..settings()
    };
    let (mut fixture, decision) = after_silence(settings, 10);
    assert_eq!(
        (decision.verdict, decision.reasons.rule),
        (Verdict::Hold, Rule::TooFewCandidates { required: 11 },)
    );
    assert_eq!(
        fixture.round(at(35.0), &leases(10, 0, 35.0)).verdict,
        Verdict::Release
    );
}

#[test]
fn recovery_needs_enough_renewals_since_trip() {
    let settings = ProbeSettings {
        recovery_fraction: fraction(0.3),
        ..settings()
    };
    let (mut fixture, _) = after_silence(settings, 6);
    assert_eq!(
        fixture.round(at(31.0), &leases(10, 6, 30.5)).verdict,
        Verdict::Fence,
        "renewals before the trip do not count"
    );
    assert_eq!(
        fixture.round(at(36.0), &leases(10, 3, 36.0)).verdict,
        Verdict::Fence,
        "three of ten is not below 30 %"
    );
    assert_eq!(
        fixture.round(at(37.0), &leases(10, 2, 37.0)).verdict,
        Verdict::Release
    );
}

#[test]
fn last_call_fences_before_first_deadline() {
    let mut fixture = EvaluatorFixture::new(settings(), at(-30.0));
    let renewed = |early: f64, late: f64| vec![(name(0), at(early)), (name(1), at(late))];
    for now in [-30.0, -20.0, -10.0] {
        fixture.round(at(now), &renewed(now - 9.9, now));
    }
    fixture.round(at(0.0), &renewed(-9.9, 0.0));
    let decision = fixture.round(at(10.0), &renewed(-9.9, 0.0));
    assert_eq!(decision.verdict, Verdict::Release);
    let decision = fixture.round(at(20.1), &renewed(-9.9, 0.0));
    assert_eq!(decision.deadline, Some(at(30.1)));
    assert_eq!(
        decision.reasons.trips_at,
        Some(at(27.1)),
        "3 s before the deadline"
    );
    assert_eq!(decision.next_wake.at, at(22.1), "the deadline is near");
    let decision = fixture.round(at(27.1), &renewed(-9.9, 0.0));
    assert_eq!(
        decision.reasons.rule,
        Rule::Tripped {
            since: at(27.1),
            cause: TripCause::LastCall
        }
    );

    let without = ProbeSettings {
        fence_reserve: Duration::ZERO,
        ..settings()
    };
    let mut fixture = EvaluatorFixture::new(without, at(-30.0));
    for now in [-30.0, -20.0, -10.0, 0.0] {
        fixture.round(at(now), &renewed(now - 9.9, now));
    }
    fixture.round(at(10.0), &renewed(-9.9, 0.0));
    assert_eq!(
        fixture
            .round(at(20.1), &renewed(-9.9, 0.0))
            .reasons
            .trips_at,
        Some(at(30.0)),
        "without a reserve there is no last call"
    );
}

#[test]
fn lease_failures_count_once_per_second() {
    let lease_thresholds = Thresholds {
        success: 2,
        failure: 3,
    };
    let (mut fixture, first) = after_silence(
        ProbeSettings {
            lease_thresholds,
            ..settings()
        },
        10,
    );
    assert_eq!(
        (first.verdict, first.next_wake.reason),
        (Verdict::Hold, WakeReason::Urgent)
    );
    assert_eq!(first.next_wake.at, at(31.0));
    assert_eq!(
        first.reasons.rule,
        Rule::Counting {
            failures: 1,
            required: 3
        }
    );
    assert_eq!(
        fixture.round(at(31.0), &leases(10, 10, 31.0)).verdict,
        Verdict::Hold
    );
    assert_eq!(
        fixture.round(at(32.0), &leases(10, 10, 32.0)).verdict,
        Verdict::Fence
    );
    assert_eq!(
        fixture.round(at(36.0), &leases(10, 0, 36.0)).verdict,
        Verdict::Hold
    );
    assert_eq!(
        fixture.round(at(37.0), &leases(10, 0, 37.0)).verdict,
        Verdict::Release
    );
}

#[test]
fn failures_count_only_above_failure_fraction() {
    let lease_thresholds = Thresholds {
        success: 1,
        failure: 3,
    };
    let (mut fixture, _) = after_silence(
        ProbeSettings {
            lease_thresholds,
            ..settings()
        },
        6,
    );
    // One of the six renews: five of ten are below 60 %.
    let mut renewed = leases(10, 6, 30.0);
    renewed[0].1 = at(30.5);
    for now in [31.0, 32.0, 33.0] {
        let decision = fixture.round(at(now), &renewed);
        assert_eq!(decision.verdict, Verdict::Release, "{decision}");
    }
}

#[test]
fn own_grace_period_takes_precedence() {
    let patient = ProbeSettings {
        grace: Duration::from_mins(1),
        ..settings()
    };
    let (mut fixture, decision) = after_silence(patient, 10);
    assert_eq!(
        decision.verdict,
        Verdict::Release,
        "leases expire after 45 s"
    );
    fixture.evaluator.set_grace(Some(Duration::from_secs(40)));
    assert_eq!(
        fixture.round(at(31.0), &leases(10, 10, 31.0)).verdict,
        Verdict::Fence
    );
    let (mut fixture, _) = after_silence(settings(), 5);
    fixture.evaluator.set_grace(Some(Duration::from_secs(80)));
    fixture.evaluator.set_grace(None);
    assert_eq!(
        fixture.round(at(31.0), &leases(10, 5, 31.0)).deadline,
        Some(at(40.0))
    );
}

#[test]
fn release_restarts_grace_period() {
    let (mut fixture, _) = after_silence(settings(), 5);
    let lists = ListResult::Read(fixture.list(at(31.0), &leases(10, 5, 31.0)));
    let released = Some(at(29.0));
    let decision = fixture.evaluator.decide(&Observation {
        released,
        ..observation(at(31.0), lists)
    });
    assert_eq!(
        decision.deadline,
        Some(at(69.0)),
        "a new kube-controller-manager starts counting anew"
    );
}

#[test]
fn initial_delay_only_observes() {
    let mut fixture = EvaluatorFixture::new(
        ProbeSettings {
            initial_delay: Duration::from_secs(30),
            ..settings()
        },
        at(0.0),
    );
    for now in [0.0, 10.0, 20.0] {
        let decision = fixture.round(at(now), &leases(10, 10, 20.0));
        assert_eq!(
            decision.reasons.rule,
            Rule::InitialDelay { until: at(30.0) }
        );
    }
    let decision = fixture.round(at(25.0), &leases(10, 10, 20.0));
    assert_eq!(
        decision.next_wake,
        kelpie_core::prober::Wake {
            at: at(30.0),
            reason: WakeReason::FirstJudgement
        }
    );
    assert_eq!(
        fixture.round(at(30.0), &leases(10, 10, 20.0)).verdict,
        Verdict::Fence
    );
}

#[test]
fn api_server_outage_causes_no_fence() {
    let (mut fixture, _) = after_silence(settings(), 5);
    for second in 31..90 {
        let now = f64::from(second);
        let round = Observation {
            api_server: ProbeResult::Failure,
            ..observation(at(now), ListResult::NotAsked)
        };
        fixture.evaluator.decide(&round);
    }
    // No kubelet could renew. They have 15 s from the first list.
    for now in [90.0, 95.0, 100.0, 104.0] {
        let decision = fixture.round(at(now), &leases(10, 10, now));
        assert_ne!(decision.verdict, Verdict::Fence, "{now}");
    }
    assert_eq!(
        fixture.round(at(105.0), &leases(10, 10, 105.0)).verdict,
        Verdict::Fence
    );
}

#[test]
fn found_fence_is_lifted_after_renewals() {
    let mut fixture = EvaluatorFixture::new(settings(), at(0.0));
    fixture.fence = FenceState::Full;
    let first = fixture.round(at(0.0), &leases(10, 0, 0.0));
    assert_eq!(
        first.reasons.rule,
        Rule::Undecided {
            fence_found: Some(at(0.0))
        }
    );
    assert_eq!(
        fixture.round(at(10.0), &leases(10, 0, 10.0)).verdict,
        Verdict::Release
    );
}

#[test]
fn nonexistent_fence_is_forgotten() {
    let mut fixture = EvaluatorFixture::new(settings(), at(0.0));
    fixture.fence = FenceState::Unknown;
    fixture.round(at(0.0), &leases(10, 5, 0.0));
    fixture.fence = FenceState::None;
    // Half of the nodes never renew again. That is too few to trip, and nothing was fenced.
    assert_eq!(
        fixture.round(at(10.0), &leases(10, 5, 10.0)).reasons.rule,
        Rule::LeasesRenewed
    );
}

#[test]
fn trip_without_list_is_no_lease_failure() {
    let (mut fixture, decision) = after_silence(settings(), 6);
    assert!(matches!(decision.reasons.rule, Rule::Tripped { .. }));
    assert!(decision.reasons.lease_probe_failed());
    let decision = fixture
        .evaluator
        .decide(&observation(at(31.0), ListResult::Failed));
    assert!(matches!(decision.reasons.rule, Rule::Tripped { .. }));
    assert!(!decision.reasons.lease_probe_failed());
}
