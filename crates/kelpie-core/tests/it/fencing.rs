//! The fencing flow: what is written, and in which order.

use std::time::Duration;

use kelpie_core::fence::{
    Call, Direction, Fencing, FlowReport, Purpose, Recorded, Reply, Sight, TargetId, TargetOutcome,
};
use kelpie_core::{Decision, Fence, Target, Verdict};

use crate::model::landscape::{Object, gardener_targets};
use crate::rig::{Rig, call_name, decision, fence_by, one, release, scaled, seconds, target};
use crate::stage::at;

#[test]
fn a_fence_is_recorded_made_kept_and_restored_exactly() {
    let mut rig = Rig::new(gardener_targets(), &[Some(2), None, Some(3)]);
    rig.run(1.0);
    assert_eq!(
        (rig.fencing.fence(), rig.writes.len()),
        (Fence::None, 0),
        "only looked at"
    );
    rig.steer(&fence_by(30.0));
    rig.run(20.0);
    assert_eq!(rig.replicas(), [Some(0), None, Some(0)]);
    assert_eq!(rig.fencing.fence(), Fence::Full);
    assert_eq!(rig.object(2).present.recorded, Recorded::Count(3));
    assert_eq!(
        rig.reports,
        [FlowReport {
            direction: Direction::Down,
            outcomes: vec![
                Some(scaled(0, 1.0)),
                Some(TargetOutcome::Missing),
                Some(scaled(0, 3.0)),
            ],
            attempts: 2,
        }]
    );
    rig.steer(&release());
    rig.run(40.0);
    assert_eq!(rig.replicas(), [Some(2), None, Some(3)]);
    assert_eq!(
        (rig.fencing.fence(), rig.any_marker()),
        (Fence::None, false)
    );
    assert_eq!(
        rig.object(2).present.recorded,
        Recorded::Count(3),
        "the record stays, as in DWD"
    );
    assert_eq!(
        rig.fencing.released_at(),
        Some(at(20.0)),
        "all came back with this flow"
    );
}

#[test]
fn levels_run_in_order_and_the_next_waits_until_the_last_has_settled() {
    let mut rig = Rig::gardener();
    rig.steer(&fence_by(60.0));
    rig.run(20.0);
    assert_eq!(rig.when(0, "down"), Some(0.0));
    assert_eq!(
        rig.when(1, "down"),
        Some(0.0),
        "a level's targets go together"
    );
    assert_eq!(rig.when(2, "down"), Some(2.0), "pods end after 2 s");
    assert!(rig.rushed.is_empty());
    rig.steer(&release());
    rig.run(60.0);
    let ups: Vec<_> = rig
        .writes
        .iter()
        .filter(|w| w.2 == "up")
        .map(|w| (w.0, w.1))
        .collect();
    assert_eq!(ups, [(20.0, 2), (22.0, 0), (24.0, 1)]);
}

#[test]
fn the_deadline_beats_the_order_of_the_levels() {
    let mut rig = Rig::gardener();
    rig.steer(&fence_by(4.0));
    rig.run(20.0);
    assert_eq!(rig.when(2, "down"), Some(1.0), "3 s before the deadline");
    assert_eq!(rig.rushed, [2]);
}

/// A call that waits among those of many clusters may wait until its deadline is close.
#[test]
fn what_races_is_pressing_from_its_turn_on_and_never_on_the_way_up() {
    let mut rig = Rig::gardener();
    let mut pressing = Vec::new();
    rig.steer(&fence_by(60.0));
    rig.run_with(20.0, |step, _, _| {
        if step.is_pressing {
            pressing.push(step.target.0);
        }
        None
    });
    rig.steer(&release());
    rig.run_with(60.0, |step, _, _| {
        assert!(!step.is_pressing, "{step:?}");
        None
    });
    assert!(!pressing.is_empty() && pressing.iter().all(|target| *target == 2));
}

#[test]
fn a_deadline_already_missed_leaves_no_time_for_order() {
    let mut rig = Rig::gardener();
    rig.steer(&decision(Verdict::Fence, None));
    rig.run(20.0);
    assert_eq!(rig.when(2, "down"), Some(0.0));
}

#[test]
fn a_deadline_that_draws_nearer_while_the_flow_runs_counts() {
    let mut rig = Rig::gardener();
    rig.steer(&fence_by(60.0));
    rig.run(0.5);
    rig.steer(&fence_by(3.6));
    rig.run(20.0);
    assert_eq!(rig.when(2, "down"), Some(0.6));
}

#[test]
fn without_a_reserve_the_order_always_holds() {
    let mut rig = Rig::gardener();
    let rush_at = None;
    rig.steer(&Decision {
        rush_at,
        ..decision(Verdict::Fence, None)
    });
    rig.run(20.0);
    assert_eq!(rig.when(2, "down"), Some(2.0));
}

#[test]
fn a_missing_target_that_is_not_optional_holds_up_the_next_level_until_the_deadline_is_near() {
    let mut rig = Rig::new(gardener_targets(), &[None, Some(1), Some(1)]);
    rig.steer(&fence_by(10.0));
    rig.run(20.0);
    assert_eq!(rig.when(2, "down"), Some(7.0));
    assert!(
        rig.reports.is_empty(),
        "the missing one is looked for until the verdict changes"
    );
}

#[test]
fn an_initial_delay_is_slept_once_only_where_there_is_something_to_do_and_even_in_haste() {
    let delayed = || one(|target| target.down.initial_delay = Duration::from_secs(15));
    let mut rig = Rig::new(delayed(), &[Some(1)]);
    rig.steer(&decision(Verdict::Fence, None));
    rig.run(30.0);
    assert_eq!(rig.when(0, "record"), Some(15.0));
    let mut rig = Rig::new(delayed(), &[Some(0)]);
    rig.steer(&decision(Verdict::Fence, None));
    rig.run(30.0);
    assert_eq!(rig.reports[0].outcomes, [Some(TargetOutcome::AlreadyThere)]);
    assert_eq!(rig.replicas(), [Some(0)]);
}

#[test]
fn after_its_delay_a_target_is_read_again() {
    let mut rig = Rig::new(
        one(|t| t.down.initial_delay = Duration::from_secs(15)),
        &[Some(1)],
    );
    rig.steer(&fence_by(60.0));
    rig.run(10.0);
    rig.object(0).scale(4, at(10.0));
    rig.run(30.0);
    assert_eq!(rig.object(0).present.recorded, Recorded::Count(4));
}

#[test]
fn a_target_whose_owner_wants_it_left_alone_is_skipped_and_loses_our_marker() {
    for verdict in [fence_by(30.0), release()] {
        let mut rig = Rig::new(one(|_| ()), &[Some(1)]);
        rig.object(0).present.ignored = true;
        rig.object(0).present.marked = true;
        // A second target gives the way down something to do.
        rig.fencing = Fencing::new([one(|_| ()), one(|_| ())].concat().into());
        rig.objects.0.push(Some(Object::with_replicas(1)));
        rig.run(0.5);
        rig.steer(&verdict);
        rig.run(30.0);
        assert_eq!(rig.object(0).present.replicas, 1);
        assert!(!rig.object(0).present.marked);
        assert_eq!(rig.reports[0].outcomes[0], Some(TargetOutcome::Ignored));
        assert_eq!(rig.fencing.released_at(), None, "it was running all along");
    }
}

#[test]
fn what_does_not_carry_our_marker_is_never_scaled_up() {
    let mut rig = Rig::new([one(|_| ()), one(|_| ())].concat(), &[Some(0), Some(0)]);
    rig.object(1).present.marked = true;
    rig.object(1).present.recorded = Recorded::Count(2);
    rig.run(0.5);
    rig.steer(&release());
    rig.run(30.0);
    assert_eq!(rig.replicas(), [Some(0), Some(2)]);
    assert_eq!(rig.reports[0].outcomes[0], Some(TargetOutcome::NotOurs));
}

#[test]
fn a_target_that_somebody_else_scaled_up_only_loses_its_marker() {
    let mut rig = Rig::new(one(|_| ()), &[Some(5)]);
    rig.object(0).present.marked = true;
    rig.object(0).present.recorded = Recorded::Count(2);
    rig.run(0.5);
    rig.steer(&release());
    rig.run(30.0);
    assert_eq!((rig.replicas(), rig.any_marker()), (vec![Some(5)], false));
    assert_eq!(rig.reports[0].outcomes, [Some(TargetOutcome::AlreadyThere)]);
}

#[test]
fn the_count_to_restore_is_the_configured_one_else_the_recorded_one_else_one() {
    let rows = [
        ("recorded", None, Recorded::Count(3), 3, false),
        ("configured", Some(7), Recorded::Count(3), 7, false),
        ("no record", None, Recorded::Absent, 1, false),
        ("corrupt record", None, Recorded::Corrupt, 1, true),
        (
            "configured beats corrupt",
            Some(2),
            Recorded::Corrupt,
            2,
            false,
        ),
    ];
    for (what, configured, recorded, expected, corrupt_record) in rows {
        let mut rig = Rig::new(one(|target| target.up.replicas = configured), &[Some(0)]);
        rig.object(0).present.marked = true;
        rig.object(0).present.recorded = recorded;
        rig.run(0.5);
        rig.steer(&release());
        rig.run(30.0);
        assert_eq!(rig.replicas(), [Some(expected)], "{what}");
        let outcome = TargetOutcome::Scaled {
            replicas: expected,
            at: at(0.5),
            unready: false,
            corrupt_record,
        };
        assert_eq!(rig.reports[0].outcomes, [Some(outcome)], "{what}");
    }
}

#[test]
fn a_configured_floor_is_where_the_way_down_ends_and_the_way_up_begins() {
    let floor = |target: &mut Target| target.down.replicas = Some(1);
    let mut rig = Rig::new(one(floor), &[Some(3)]);
    rig.steer(&fence_by(30.0));
    rig.run(10.0);
    assert_eq!(
        (rig.replicas(), rig.fencing.fence()),
        (vec![Some(1)], Fence::Full)
    );
    rig.steer(&release());
    rig.run(30.0);
    assert_eq!(rig.replicas(), [Some(3)]);
}

#[test]
fn pods_that_do_not_follow_hold_up_a_level_for_five_seconds() {
    let mut rig = Rig::gardener();
    rig.steer(&fence_by(60.0));
    rig.run_with(20.0, |step, objects, now| {
        match (&step.call, objects.apply(step, now)) {
            (Call::Read, Reply::Seen(Sight::Present(mut present))) => {
                present.ready = 1;
                Some(Reply::Seen(Sight::Present(present)))
            }
            (_, reply) => Some(reply),
        }
    });
    assert_eq!(rig.when(2, "down"), Some(5.0));
    let is_unready = |outcome: &Option<TargetOutcome>| {
        matches!(outcome, Some(TargetOutcome::Scaled { unready: true, .. }))
    };
    assert!(rig.reports[0].outcomes.iter().all(is_unready));
}

#[test]
fn a_failed_step_down_is_retried_after_100_ms_doubling_to_1_s_until_the_verdict_changes() {
    let mut rig = Rig::new(one(|_| ()), &[Some(1)]);
    rig.steer(&fence_by(60.0));
    let mut tries = Vec::new();
    rig.run_with(100.0, |step, _, now| {
        matches!(step.call, Call::WriteRecord(_)).then(|| {
            tries.push(seconds(now));
            Reply::Failed
        })
    });
    assert_eq!(tries[..6], [0.0, 0.1, 0.3, 0.7, 1.5, 2.5]);
    assert!(tries.len() > 95, "{}", tries.len());
    rig.steer(&release());
    rig.run(200.0);
    assert_eq!((rig.replicas(), rig.writes.len()), (vec![Some(1)], 0));
}

#[test]
fn an_optional_target_that_keeps_failing_holds_up_the_next_level_for_its_timeout_only() {
    let mut rig = Rig::gardener();
    rig.steer(&fence_by(600.0));
    rig.run_with(60.0, |step, _, _| {
        (step.target.0 == 1 && step.call != Call::Read).then_some(Reply::Failed)
    });
    assert_eq!(rig.when(2, "down"), Some(30.0));
}

#[test]
fn a_restore_that_fails_for_its_timeout_ends_the_flow_and_is_tried_again() {
    let mut rig = Rig::gardener();
    rig.steer(&fence_by(60.0));
    rig.run(10.0);
    rig.steer(&release());
    rig.run_with(45.0, |step, _, _| {
        (step.target.0 == 2 && step.call != Call::Read).then_some(Reply::Failed)
    });
    let failed = &rig.reports[1];
    assert_eq!(
        failed.outcomes,
        [None, None, Some(TargetOutcome::Failed)],
        "later levels did not start"
    );
    assert_eq!(rig.replicas(), [Some(0); 3]);
    assert_eq!(rig.fencing.fence(), Fence::Full);
    rig.run(100.0);
    assert_eq!(
        (rig.replicas(), rig.any_marker()),
        (vec![Some(1); 3], false)
    );
}

#[test]
fn a_conflict_that_changed_nothing_is_repeated_at_once_and_is_no_attempt() {
    let mut rig = Rig::new(one(|_| ()), &[Some(1)]);
    rig.steer(&fence_by(60.0));
    let mut conflicts = 3;
    rig.run_with(10.0, |step, objects, _| {
        let strikes = conflicts > 0 && step.call != Call::Read;
        strikes.then(|| {
            conflicts -= 1;
            objects.0[0].as_mut().unwrap().touch();
            Reply::Conflict
        })
    });
    assert_eq!(rig.when(0, "down"), Some(0.0));
    assert_eq!(rig.reports[0].attempts, 1);
}

#[test]
fn a_conflict_that_changed_something_is_decided_anew() {
    let mut rig = Rig::new(one(|_| ()), &[Some(1)]);
    rig.steer(&fence_by(60.0));
    let mut struck = false;
    rig.run_with(10.0, |step, objects, now| {
        let strikes = !struck && step.call != Call::Read;
        strikes.then(|| {
            struck = true;
            objects.0[0].as_mut().unwrap().scale(4, now);
            Reply::Conflict
        })
    });
    assert_eq!(rig.replicas(), [Some(0)]);
    assert_eq!(rig.object(0).present.recorded, Recorded::Count(4));
    assert_eq!(rig.reports[0].attempts, 2);
}

#[test]
fn a_write_that_fails_and_is_repeated_is_another_attempt() {
    let mut rig = Rig::new(one(|_| ()), &[Some(1)]);
    rig.steer(&fence_by(60.0));
    let mut failures = 2;
    rig.run_with(10.0, |step, _, _| {
        let fails = failures > 0 && step.call != Call::Read;
        fails.then(|| {
            failures -= 1;
            Reply::Failed
        })
    });
    assert_eq!(rig.reports[0].attempts, 3);
}

#[test]
fn the_targets_are_looked_at_once_more_after_a_flow() {
    let mut looks = 0;
    let mut rig = Rig::new(one(|_| ()), &[Some(0)]);
    rig.steer(&fence_by(60.0));
    rig.run_with(4.0, |_, _, _| {
        looks += 1;
        None
    });
    assert_eq!(
        (rig.reports.len(), looks),
        (1, 2),
        "one by the flow, one after it"
    );
}

#[test]
fn endless_conflicts_do_not_become_a_busy_loop() {
    let mut rig = Rig::new(one(|_| ()), &[Some(1)]);
    rig.steer(&fence_by(60.0));
    let mut calls = 0;
    rig.run_with(10.0, |step, _, _| {
        calls += 1;
        (step.call != Call::Read).then_some(Reply::Conflict)
    });
    assert!(calls < 400, "{calls} calls in 10 s");
    assert!(rig.fencing.is_contested(TargetId(0)), "and are told");
    rig.run(20.0);
    assert_eq!(rig.replicas(), [Some(0)]);
    assert!(!rig.fencing.is_contested(TargetId(0)));
}

/// What the steps of a fence are for, and what they do; `fault` may answer them.
fn purposes(mut fault: impl FnMut(&Call) -> Option<Reply>) -> Vec<(Purpose, &'static str)> {
    let mut rig = Rig::new(one(|_| ()), &[Some(1)]);
    rig.steer(&fence_by(60.0));
    let mut seen = Vec::new();
    rig.run_with(3.0, |step, _, _| {
        let last = seen.last().copied();
        let this = (step.purpose, call_name(&step.call));
        seen.extend((last != Some(this)).then_some(this));
        fault(&step.call)
    });
    seen
}

#[test]
fn a_step_says_what_it_is_for() {
    let expected = [
        (Purpose::Flow, "read"),
        (Purpose::Attempt, "record"),
        (Purpose::Flow, "down"),
        (Purpose::Readiness, "read"),
        (Purpose::Survey, "read"),
    ];
    assert_eq!(purposes(|_| None), expected);
}

#[test]
fn a_record_that_is_refused_was_an_attempt_and_one_that_met_a_conflict_is_repeated_as_none() {
    let mut refusals = [Reply::Failed, Reply::Conflict].into_iter();
    let steps = purposes(|call| match call {
        Call::WriteRecord(_) => refusals.next(),
        _ => None,
    });
    let expected = [
        (Purpose::Flow, "read"),
        (Purpose::Attempt, "record"),
        (Purpose::Flow, "read"),
        (Purpose::Attempt, "record"),
        (Purpose::Flow, "read"),
        (Purpose::Flow, "record"),
        (Purpose::Flow, "down"),
    ];
    assert_eq!(steps[..expected.len()], expected);
}

#[test]
fn all_clusters_look_at_the_same_instants_so_that_one_list_can_answer_them() {
    let looks_of = |first: f64| {
        let mut rig = Rig::new(one(|_| ()), &[Some(1)]);
        rig.now = at(first);
        let mut looks = Vec::new();
        rig.run_with(901.0, |_, _, now| {
            looks.push(seconds(now));
            None
        });
        looks
    };
    assert_eq!(looks_of(0.0), [0.0, 300.0, 600.0, 900.0]);
    assert_eq!(looks_of(17.5), [17.5, 300.0, 600.0, 900.0]);
    assert_eq!(looks_of(299.0), [299.0, 300.0, 600.0, 900.0]);
}

#[test]
fn somebody_who_scales_up_against_a_fence_is_scaled_down_again() {
    let mut rig = Rig::new(one(|_| ()), &[Some(1)]);
    rig.steer(&fence_by(60.0));
    rig.run(10.0);
    rig.object(0).scale(2, at(11.0));
    rig.run(21.0);
    assert_eq!(rig.replicas(), [Some(0)]);
    assert_eq!(
        rig.object(0).present.recorded,
        Recorded::Count(2),
        "what they want back"
    );
}

#[test]
fn targets_are_looked_at_every_five_minutes_and_a_predecessor_s_fence_is_found() {
    let mut rig = Rig::new(one(|_| ()), &[Some(1)]);
    assert_eq!(rig.fencing.fence(), Fence::Unknown);
    rig.run(1.0);
    assert_eq!(rig.fencing.fence(), Fence::None);
    rig.object(0).present.marked = true;
    rig.object(0).scale(0, at(1.0));
    rig.run(299.0);
    assert_eq!(rig.fencing.fence(), Fence::None);
    rig.run(301.0);
    assert_eq!(rig.fencing.fence(), Fence::Full);
    assert_eq!(rig.writes, []);
}

#[test]
fn a_look_that_fails_is_repeated_ever_more_slowly_up_to_five_minutes() {
    let mut rig = Rig::new(one(|_| ()), &[Some(1)]);
    let mut looks = Vec::new();
    rig.run_with(900.0, |_, _, now| {
        looks.push(seconds(now));
        Some(Reply::Failed)
    });
    let doubled = [
        0.0, 1.0, 3.0, 7.0, 15.0, 31.0, 63.0, 127.0, 255.0, 511.0, 811.0,
    ];
    assert_eq!(looks, doubled);
    assert_eq!(rig.fencing.fence(), Fence::Unknown);
}

#[test]
fn who_begins_to_lead_fences_also_what_it_last_saw_fenced() {
    let mut rig = Rig::new(one(|_| ()), &[Some(1)]);
    rig.object(0).present.marked = true;
    rig.object(0).scale(0, at(0.0));
    rig.run(1.0);
    assert_eq!(rig.fencing.fence(), Fence::Full, "seen as a standby");
    // The leader releases it, and is gone before we look again.
    rig.object(0).present.marked = false;
    rig.object(0).scale(1, at(2.0));
    rig.fencing.forget();
    assert_eq!(rig.fencing.fence(), Fence::Unknown);
    rig.steer(&fence_by(60.0));
    rig.run_with(10.0, |step, _, _| step.can_wait().then_some(Reply::Failed));
    assert_eq!(rig.replicas(), [Some(0)], "no look was needed for it");
}

#[test]
fn a_scale_up_that_lands_after_the_verdict_flipped_is_fenced_again_at_once() {
    let mut rig = Rig::new(one(|_| ()), &[Some(1)]);
    rig.steer(&fence_by(60.0));
    rig.run(10.0);
    rig.steer(&release());
    // The scale-up is on its way when the verdict flips.
    let mut on_its_way = None;
    while on_its_way.is_none() {
        for step in rig.fencing.poll(rig.now).steps {
            if matches!(step.call, Call::ScaleUp(_)) {
                on_its_way = Some(step);
            } else {
                let reply = rig.objects.apply(&step, rig.now);
                rig.fencing.reply(step, reply, rig.now);
            }
        }
    }
    rig.steer(&fence_by(60.0));
    rig.run(11.0);
    assert_eq!(rig.fencing.fence(), Fence::Full, "as far as can be seen");
    let step = on_its_way.unwrap();
    let reply = rig.objects.apply(&step, rig.now);
    assert_eq!(rig.replicas(), [Some(1)], "it landed");
    rig.fencing.reply(step, reply, rig.now);
    rig.run(20.0);
    assert_eq!(
        (rig.replicas(), rig.fencing.fence()),
        (vec![Some(0)], Fence::Full)
    );
}

#[test]
fn a_scale_up_that_landed_unheard_is_fenced_again_also_if_nobody_could_look_since() {
    let mut rig = Rig::new(one(|_| ()), &[Some(1)]);
    rig.steer(&fence_by(60.0));
    rig.run(10.0);
    rig.steer(&release());
    // The answer to the scale-up is lost, and nothing is answered any more.
    let mut is_lost = false;
    rig.run_with(60.0, |step, objects, now| {
        if matches!(step.call, Call::ScaleUp(_)) {
            is_lost = true;
            objects.apply(step, now);
        }
        is_lost.then_some(Reply::Failed)
    });
    assert_eq!(rig.replicas(), [Some(1)], "it landed");
    assert_eq!(rig.fencing.fence(), Fence::Full, "as far as was seen");
    rig.steer(&fence_by(100.0));
    rig.run(61.0);
    assert_eq!(rig.replicas(), [Some(0)]);
}

#[test]
fn what_was_seen_of_the_targets_can_be_shown() {
    let mut rig = Rig::new(gardener_targets(), &[Some(1), None, Some(1)]);
    rig.run(1.0);
    let shown: Vec<_> = rig
        .fencing
        .sights()
        .map(|(target, sight)| (target.resource.to_string(), sight.cloned()))
        .collect();
    assert_eq!(
        shown[1],
        (
            "Deployment cluster-autoscaler".to_string(),
            Some(Sight::Missing)
        )
    );
    assert!(matches!(&shown[0].1, Some(Sight::Present(present)) if present.replicas == 1));
    let json = serde_json::to_value(&shown[0].1).unwrap();
    assert_eq!(json["present"]["recorded"], "absent");
}

#[test]
fn what_a_flow_has_done_lasts_while_another_target_holds_it_up() {
    // The machine-controller-manager is missing, so the flow cannot end.
    for ask in [true, false] {
        let mut rig = Rig::new(gardener_targets(), &[None, Some(1), Some(1)]);
        rig.steer(&fence_by(10.0));
        rig.run(20.0);
        assert_eq!(rig.replicas()[2], Some(0));
        rig.object(2).scale(1, at(20.0));
        if ask {
            rig.fencing.survey();
        }
        rig.run(if ask { 30.0 } else { 320.0 });
        assert_eq!(rig.replicas()[2], Some(0), "asked: {ask}");
    }
}

#[test]
fn an_optional_target_that_is_overdue_beside_a_missing_one_does_not_spin() {
    let mut rig = Rig::new(gardener_targets(), &[None, Some(1), Some(1)]);
    rig.steer(&fence_by(600.0));
    rig.run_with(60.0, |step, _, _| {
        (step.target.0 == 1 && step.call != Call::Read).then_some(Reply::Failed)
    });
    assert_eq!(rig.writes, []);
}

#[test]
fn a_look_that_was_overtaken_tells_nothing() {
    let mut rig = Rig::new(one(|_| ()), &[Some(1)]);
    // A look is under way while the flow does its work, and while a survey is asked for.
    let look = rig.fencing.poll(at(0.0)).steps.pop().unwrap();
    let answer = rig.objects.apply(&look, at(0.0));
    rig.steer(&fence_by(60.0));
    rig.run(1.0);
    assert_eq!(rig.fencing.fence(), Fence::Full);
    assert!(rig.reports.is_empty(), "the flow is still settling");
    rig.fencing.reply(look, answer, at(1.0));
    assert_eq!(rig.fencing.fence(), Fence::Full);
    rig.run(4.0);
    rig.steer(&release());
    rig.run(30.0);
    assert_eq!(rig.replicas(), [Some(1)]);

    let mut rig = Rig::new(one(|_| ()), &[Some(1)]);
    let look = rig.fencing.poll(at(0.0)).steps.pop().unwrap();
    let answer = rig.objects.apply(&look, at(0.0));
    rig.object(0).present.marked = true;
    rig.object(0).scale(0, at(0.1));
    rig.fencing.survey();
    rig.fencing.reply(look, answer, at(0.2));
    rig.run(1.0);
    assert_eq!(
        rig.fencing.fence(),
        Fence::Full,
        "a predecessor's last write"
    );
}

#[test]
fn a_hold_now_and_then_does_not_put_off_a_delayed_fence_for_ever() {
    let mut rig = Rig::new(
        one(|target| target.down.initial_delay = Duration::from_secs(15)),
        &[Some(1)],
    );
    for round in 0..3 {
        let now = f64::from(round) * 10.0;
        rig.steer(&fence_by(now + 60.0));
        rig.run(now + 9.0);
        rig.steer(&decision(Verdict::Hold, None));
        rig.run(now + 10.0);
    }
    assert_eq!(rig.replicas(), [Some(0)]);
    assert_eq!(rig.when(0, "record"), Some(15.0));
}

#[test]
fn a_target_scaled_up_while_it_settles_is_not_reported_as_scaled() {
    let mut rig = Rig::new(one(|_| ()), &[Some(1)]);
    rig.steer(&fence_by(600.0));
    let mut struck = false;
    rig.run_with(8.0, |step, objects, now| {
        if now >= at(0.4) && !std::mem::replace(&mut struck, true) {
            objects.0[0].as_mut().unwrap().scale(2, now);
        }
        (now >= at(0.4) && step.call != Call::Read).then_some(Reply::Failed)
    });
    assert_eq!(rig.replicas(), [Some(2)]);
    assert_eq!(rig.reports, []);
}

#[test]
fn a_flow_that_is_cut_off_reports_how_far_it_came() {
    let mut rig = Rig::gardener();
    rig.steer(&fence_by(60.0));
    rig.run(2.0);
    rig.steer(&release());
    assert_eq!(rig.reports[0].direction, Direction::Down);
    assert_eq!(rig.reports[0].outcomes[0], Some(scaled(0, 0.0)));
    assert_eq!(rig.reports[0].attempts, 2 + 1);
    let mut rig = Rig::gardener();
    rig.steer(&fence_by(60.0));
    rig.run(1.0);
    let report = rig.fencing.stand_down().unwrap();
    assert_eq!((report.outcomes, report.attempts), (vec![None; 3], 2));
    let writes = rig.writes.len();
    rig.run(400.0);
    assert_eq!(rig.writes.len(), writes, "only looking goes on");
}

#[test]
fn a_release_counts_as_one_only_if_every_controller_started_afresh() {
    let mut rig = Rig::gardener();
    rig.object(0).present.ignored = true;
    rig.steer(&fence_by(60.0));
    rig.run(10.0);
    rig.steer(&release());
    rig.run(40.0);
    assert_eq!(rig.replicas(), [Some(1); 3]);
    assert_eq!(rig.fencing.released_at(), None, "one was running all along");
}

#[test]
fn a_target_its_owner_wants_left_alone_does_not_make_a_fence_partial() {
    let mut rig = Rig::gardener();
    rig.object(0).present.ignored = true;
    rig.steer(&fence_by(60.0));
    rig.run(10.0);
    assert_eq!(rig.replicas(), [Some(1), Some(0), Some(0)]);
    assert_eq!(rig.fencing.fence(), Fence::Full);
}

#[test]
fn a_fence_does_not_wait_for_the_retry_of_a_restore() {
    let mut rig = Rig::new(
        one(|target| target.up.timeout = Duration::from_millis(1)),
        &[Some(1)],
    );
    rig.steer(&fence_by(60.0));
    rig.run(10.0);
    rig.steer(&release());
    rig.run_with(10.15, |step, _, _| {
        (step.call != Call::Read).then_some(Reply::Failed)
    });
    assert_eq!(rig.reports[1].outcomes, [Some(TargetOutcome::Failed)]);
    rig.object(0).scale(3, at(10.2));
    rig.fencing.survey();
    rig.run(10.3);
    rig.steer(&fence_by(60.0));
    rig.run(10.4);
    assert_eq!(rig.replicas(), [Some(0)]);
}

#[test]
fn a_failed_target_ends_the_restore_for_later_levels_but_not_for_its_own() {
    let same_level = vec![
        target("a", |_| ()),
        target("b", |_| ()),
        target("c", |target| target.up.level = 1),
    ];
    let mut rig = Rig::new(same_level, &[Some(1), Some(1), Some(1)]);
    rig.steer(&fence_by(60.0));
    rig.run(10.0);
    rig.steer(&release());
    rig.run_with(40.5, |step, _, _| {
        (step.target.0 == 0 && step.call != Call::Read).then_some(Reply::Failed)
    });
    assert_eq!(rig.replicas(), [Some(0), Some(1), Some(0)]);
    let outcomes = &rig.reports[1].outcomes;
    assert_eq!(
        (outcomes[0], outcomes[2]),
        (Some(TargetOutcome::Failed), None)
    );
}

#[test]
fn a_record_that_is_not_above_the_floor_only_loses_its_marker() {
    let mut rig = Rig::new(one(|target| target.down.replicas = Some(3)), &[Some(3)]);
    rig.object(0).present.marked = true;
    rig.object(0).present.recorded = Recorded::Count(2);
    rig.run(0.5);
    rig.steer(&release());
    rig.run(30.0);
    assert_eq!((rig.replicas(), rig.any_marker()), (vec![Some(3)], false));
}
