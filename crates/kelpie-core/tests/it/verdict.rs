//! The verdict, row by row.

use std::time::Duration;

use kelpie_core::{
    Fence, Lease, Listing, Lists, MachinePhase, Machines, Observation, Outcome, Role, Rule,
    Settings, Thresholds, Time, TripCause, Verdict, WakeReason,
};

use crate::stage::{
    Stage, after_silence, at, fraction, lease_list, leases, name, nodes, roster, seen, settings,
};

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
    let (mut stage, _) = after_silence(settings(), 5);
    for lists in [Lists::Failed, Lists::NotAsked] {
        let decision = stage.judge.decide(&seen(at(31.0), lists));
        assert_eq!(
            (decision.verdict, decision.reasons.rule),
            (Verdict::Hold, Rule::ListFailed)
        );
        assert_eq!(decision.deadline, Some(at(40.0)), "the last known one");
        assert_eq!(decision.reasons.lease_probe.success_count, 1);
    }
    let decision = stage.round(at(32.0), &leases(10, 5, 32.0));
    assert_eq!(decision.verdict, Verdict::Release);
}

#[test]
fn a_fence_begun_on_good_evidence_goes_on_through_failed_lists_for_half_the_grace_period() {
    let (mut stage, decision) = after_silence(settings(), 10);
    assert_eq!(decision.verdict, Verdict::Fence);
    let mut fail = |now: f64| stage.judge.decide(&seen(at(now), Lists::Failed));
    assert_eq!(fail(31.0).verdict, Verdict::Fence);
    assert_eq!(
        fail(31.0).next_wake.at,
        at(32.0),
        "every second until fenced"
    );
    assert_eq!(
        fail(41.0).rush_at,
        Some(at(41.0)),
        "the deadline was missed"
    );
    assert_eq!(fail(50.0).verdict, Verdict::Fence);
    assert_eq!(fail(50.1).verdict, Verdict::Hold);
}

#[test]
fn leases_that_prove_nothing_lift_no_fence_even_where_all_was_well_before() {
    for tripped_before in [false, true] {
        let (mut stage, _) = after_silence(settings(), if tripped_before { 10 } else { 0 });
        let decision = stage.round(at(35.0), &leases(10, 0, 35.0));
        assert_eq!(decision.verdict, Verdict::Release);
        // Our lists fail for a minute, and the leader fences meanwhile. Then we take over.
        for now in [40.0, 50.0, 60.0, 70.0, 80.0] {
            stage.judge.decide(&seen(at(now), Lists::Failed));
        }
        stage.fence = Fence::Full;
        let decision = stage.round(at(90.0), &leases(10, 0, 35.0));
        assert_eq!(decision.verdict, Verdict::Hold, "{decision}");
        let decision = stage.round(at(100.0), &leases(10, 0, 100.0));
        assert_eq!(decision.verdict, Verdict::Release, "{decision}");
    }
}

#[test]
fn a_fence_is_not_lifted_by_renewals_seen_across_a_gap() {
    let (mut stage, decision) = after_silence(settings(), 10);
    assert_eq!(decision.verdict, Verdict::Fence);
    stage.fence = Fence::Full;
    // All renewed once in the minute in which we could not look, and are not seen to renew again.
    for (now, verdict) in [
        (91.0, Verdict::Hold),
        (105.9, Verdict::Hold),
        (106.0, Verdict::Release),
    ] {
        let decision = stage.round(at(now), &leases(10, 0, 81.0));
        assert_eq!(decision.verdict, verdict, "{now}: {decision}");
    }
}

#[test]
fn a_half_made_fence_goes_on_after_a_gap_only_when_leases_have_proven_something() {
    for (renewed, verdict) in [(0.0, Verdict::Fence), (85.0, Verdict::Release)] {
        let (mut stage, decision) = after_silence(settings(), 10);
        assert_eq!(decision.verdict, Verdict::Fence);
        stage.fence = Fence::Partial;
        for (now, verdict) in [
            (91.0, Verdict::Hold),
            (105.0, Verdict::Hold),
            (106.0, verdict),
        ] {
            let decision = stage.round(at(now), &leases(10, 0, renewed));
            assert_eq!(decision.verdict, verdict, "{now}: {decision}");
        }
    }
}

#[test]
fn a_release_stays_one_while_the_restore_takes_its_time() {
    let (mut stage, decision) = after_silence(settings(), 10);
    assert_eq!(decision.verdict, Verdict::Fence);
    stage.fence = Fence::Full;
    for now in [35.0, 36.0, 37.0] {
        let decision = stage.round(at(now), &leases(10, 0, 35.0));
        assert_eq!(decision.verdict, Verdict::Release, "{now}: {decision}");
    }
}

#[test]
fn nodes_with_wrong_clocks_have_renewed_since_the_trip_when_the_next_list_says_so() {
    // Clocks an hour behind, not known for long: all we know of a renewal is the list before it, and
    // that one tripped.
    let an_hour_ago = |seconds: f64| {
        (0..10)
            .map(|index| (name(index), at(seconds - 3_600.0)))
            .collect::<Vec<_>>()
    };
    let mut stage = Stage::new(settings(), at(-40.0));
    for round in -4..=0 {
        let now = f64::from(round) * 10.0;
        stage.round(at(now), &an_hour_ago(now - 1.0));
    }
    stage.round(at(10.0), &an_hour_ago(-1.0));
    let decision = stage.round(at(20.0), &an_hour_ago(-1.0));
    assert_eq!(decision.verdict, Verdict::Fence, "{decision}");
    let decision = stage.round(at(21.0), &an_hour_ago(20.5));
    assert_eq!(decision.verdict, Verdict::Release, "{decision}");
}

#[test]
fn a_deadline_that_has_come_is_no_longer_ahead() {
    let (mut stage, _) = after_silence(settings(), 10);
    let decision = stage.round(at(40.0), &leases(10, 10, 0.0));
    assert_eq!(
        (decision.deadline, decision.rush_at),
        (None, Some(at(40.0)))
    );
    let (mut stage, _) = after_silence(settings(), 10);
    let decision = stage.judge.decide(&seen(at(40.0), Lists::Failed));
    assert_eq!(decision.deadline, None);
}

#[test]
fn recovery_is_counted_over_candidates_where_there_are_any() {
    let (mut stage, decision) = after_silence(settings(), 10);
    assert_eq!(decision.verdict, Verdict::Fence);
    let listed = stage.list(at(35.0), &leases(10, 7, 35.0));
    let mut facts = nodes((0..10).map(name));
    for node in &mut facts[..6] {
        node.unmanaged = true;
    }
    stage.judge.learn(roster(&facts), at(35.0));
    let decision = stage.judge.decide(&seen(at(35.0), Lists::Read(listed)));
    // One of the four that count has not renewed; seven of all ten have not.
    assert_eq!(decision.verdict, Verdict::Release, "{decision}");
}

#[test]
fn now_is_the_start_of_the_list_and_not_of_the_round() {
    let mut stage = Stage::new(settings(), at(-30.0));
    for now in [-30.0, -20.0, -10.0] {
        stage.round(at(now), &leases(10, 0, now));
    }
    for now in [0.0, 10.0, 20.0] {
        stage.round(at(now), &leases(10, 10, now));
    }
    // The probe of the API server took 5 s; the leases expired meanwhile.
    let listed = stage.list(at(34.0), &leases(10, 10, 0.0));
    let round = Observation {
        end: at(34.1),
        ..seen(at(29.0), Lists::Read(listed))
    };
    let decision = stage.judge.decide(&round);
    assert_eq!((decision.at, decision.verdict), (at(34.0), Verdict::Fence));
}

#[test]
fn a_decision_does_not_rest_on_a_list_whose_nodes_were_due_and_not_read() {
    let mut stage = Stage::new(settings(), at(0.0));
    stage.round(at(0.0), &leases(3, 0, 0.0));
    let many = leases(30, 0, 10.0);
    let listing = Listing {
        start: at(10.0),
        end: at(10.0),
    };
    let listed = stage.judge.read(listing, lease_list(&many));
    let decision = stage.judge.decide(&seen(at(10.0), Lists::Read(listed)));
    assert_eq!(decision.reasons.rule, Rule::ListFailed);
}

#[test]
fn machines_that_change_judge_the_nodes_anew_and_hide_no_new_lease() {
    let mut stage = Stage::new(settings(), at(0.0));
    stage.round(at(0.0), &leases(3, 0, 0.0));
    let list = |stage: &mut Stage, now: f64| {
        let listing = Listing {
            start: at(now),
            end: at(now),
        };
        stage.judge.read(listing, lease_list(&leases(4, 0, now)))
    };
    list(&mut stage, 10.0);
    let machines: Machines = [(name(0), MachinePhase::Alive)].into_iter().collect();
    stage.judge.learn_machines(Some(&machines));
    let roles: Vec<_> = stage
        .judge
        .book()
        .leases(settings().grace)
        .map(|lease| lease.role)
        .collect();
    assert_eq!(
        roles,
        [
            Role::Candidate,
            Role::Excluded,
            Role::Excluded,
            Role::Unknown
        ]
    );
    let listed = list(&mut stage, 20.0);
    assert!(stage.judge.nodes_due(&listed, Fence::None));
}

#[test]
fn an_external_fence_over_healthy_leases_keeps_the_order_of_the_levels() {
    let mut stage = Stage::new(settings(), at(0.0));
    let mut decide = |now: f64| {
        let external = Some(Outcome::Failure);
        let lists = Lists::Failed;
        stage.judge.decide(&Observation {
            external,
            ..seen(at(now), lists)
        })
    };
    let decision = [0.0, 1.0, 2.0].map(&mut decide)[2];
    assert_eq!((decision.verdict, decision.rush_at), (Verdict::Fence, None));
}

#[test]
fn extreme_values_do_no_harm() {
    let graces = [
        Duration::ZERO,
        Duration::from_micros(1),
        Duration::from_secs(40),
        Duration::MAX,
    ];
    for grace in graces {
        let settings = Settings {
            grace,
            fence_reserve: Duration::MAX,
            probe_interval: Duration::MAX,
            jitter: f64::NAN,
            api_failure_pause: Duration::MAX,
            min_candidates: 0,
            ..settings()
        };
        let mut stage = Stage::new(settings, Time::MIN);
        for now in [Time::MIN, at(0.0), at(1.0), Time::MAX, Time::MIN, at(100.0)] {
            for renewed in [Time::MIN, Time::MAX, at(0.0), Time::from_micros(-1)] {
                for duration_seconds in [None, Some(i32::MIN), Some(i32::MAX), Some(0)] {
                    let lease = |name| Lease {
                        name,
                        renew_time: Some(renewed),
                        duration_seconds,
                    };
                    let names = ["a", "b", "c", "a"];
                    let listing = Listing {
                        start: now,
                        end: now,
                    };
                    let listed = stage.judge.read(listing, names.map(lease));
                    stage
                        .judge
                        .learn(roster(&nodes(names.map(String::from))), now);
                    let released = Some(renewed);
                    let decision = stage.judge.decide(&Observation {
                        released,
                        ..seen(now, Lists::Read(listed))
                    });
                    assert!(!decision.to_string().is_empty());
                }
            }
        }
    }
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
        first.reasons.rule,
        Rule::Counting {
            failures: 1,
            required: 3
        }
    );
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
fn failures_are_counted_only_while_the_rule_itself_holds() {
    let lease_thresholds = Thresholds {
        success: 1,
        failure: 3,
    };
    let (mut stage, _) = after_silence(
        Settings {
            lease_thresholds,
            ..settings()
        },
        6,
    );
    // One of the six renews: five of ten are below 60 %.
    let mut renewed = leases(10, 6, 30.0);
    renewed[0].1 = at(30.5);
    for now in [31.0, 32.0, 33.0] {
        let decision = stage.round(at(now), &renewed);
        assert_eq!(decision.verdict, Verdict::Release, "{decision}");
    }
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
    let lists = Lists::Read(stage.list(at(31.0), &leases(10, 5, 31.0)));
    let released = Some(at(29.0));
    let decision = stage.judge.decide(&Observation {
        released,
        ..seen(at(31.0), lists)
    });
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

#[test]
fn a_trip_that_goes_on_without_a_list_is_no_failure_of_the_lease_probe() {
    let (mut stage, decision) = after_silence(settings(), 6);
    assert!(matches!(decision.reasons.rule, Rule::Tripped { .. }));
    assert!(decision.reasons.lease_probe_failed());
    let decision = stage.judge.decide(&seen(at(31.0), Lists::Failed));
    assert!(matches!(decision.reasons.rule, Rule::Tripped { .. }));
    assert!(!decision.reasons.lease_probe_failed());
}
