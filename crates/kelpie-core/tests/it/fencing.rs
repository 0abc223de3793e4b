//! The fencing flow: the writes, and their order.

use std::time::Duration;

use kelpie_core::Time;
use kelpie_core::prober::fence::{
    Call, Direction, Fencing, FlowReport, Observed, Purpose, RecordedSetting, Reply, Step,
    TargetId, TargetOutcome,
};
use kelpie_core::prober::{Decision, FenceState, Setting, Target, Verdict};

use crate::evaluator_fixture::at;
use crate::fence_fixture::{
    FenceFixture, call_name, decision, fence_by, in_two_writes, one, release, scaled, seconds,
    target,
};
use crate::model::control_plane::{StoredTarget, Targets, gardener_targets};

#[test]
fn fence_and_restore_are_exact() {
    let mut fixture = FenceFixture::new(gardener_targets(), &[Some(2), None, Some(3)]);
    fixture.run(1.0);
    assert_eq!(
        (fixture.fencing.fence(), fixture.writes.len()),
        (FenceState::None, 0),
        "the targets are only read"
    );
    fixture.apply(&fence_by(30.0));
    fixture.run(20.0);
    assert_eq!(fixture.replicas(), [Some(0), None, Some(0)]);
    assert_eq!(fixture.fencing.fence(), FenceState::Full);
    assert_eq!(
        fixture.object(2).present.recorded,
        RecordedSetting::Value(Setting(3))
    );
    assert_eq!(
        fixture.reports,
        [FlowReport {
            direction: Direction::Down,
            outcomes: vec![
                Some(scaled(0, 1.0)),
                Some(TargetOutcome::Missing),
                Some(scaled(0, 1.0)),
            ],
            attempts: 2,
        }]
    );
    fixture.apply(&release());
    fixture.run(40.0);
    assert_eq!(fixture.replicas(), [Some(2), None, Some(3)]);
    assert_eq!(
        (fixture.fencing.fence(), fixture.has_marker()),
        (FenceState::None, false)
    );
    assert_eq!(
        fixture.object(2).present.recorded,
        RecordedSetting::Value(Setting(3)),
        "the record stays, as in dependency-watchdog"
    );
    assert_eq!(
        fixture.fencing.released_at(),
        Some(at(20.0)),
        "this flow restored all targets"
    );
}

#[test]
fn next_level_waits_for_previous() {
    let mut targets = gardener_targets();
    targets[2].is_deadline_target = false;
    let mut fixture = FenceFixture::new(targets, &[Some(1); 3]);
    fixture.apply(&fence_by(60.0));
    fixture.run(20.0);
    assert_eq!(fixture.first_write_at(0, "down"), Some(0.0));
    assert_eq!(
        fixture.first_write_at(1, "down"),
        Some(0.0),
        "the targets of a level run in parallel"
    );
    assert_eq!(
        fixture.first_write_at(2, "down"),
        Some(2.0),
        "pods end after 2 s"
    );
    assert!(fixture.started_early.is_empty());
    fixture.apply(&release());
    fixture.run(60.0);
    let scale_ups: Vec<_> = fixture
        .writes
        .iter()
        .filter(|write| write.2 == "up")
        .map(|write| (write.0, write.1))
        .collect();
    assert_eq!(scale_ups, [(20.0, 2), (22.0, 0), (24.0, 1)]);
}

#[test]
fn deadline_target_waits_for_writes_only() {
    let mut fixture = FenceFixture::gardener();
    fixture.apply(&fence_by(60.0));
    fixture.run(20.0);
    let fences: Vec<_> = fixture
        .writes
        .iter()
        .map(|write| (write.0, write.1))
        .collect();
    assert_eq!(fences, [(0.0, 0), (0.0, 1), (0.0, 2)], "not for pods");
    assert!(fixture.started_early.is_empty());
}

/// Answers each write to the targets of the first level with a failure.
fn first_level_fails(step: &Step, _: &mut Targets, _: Time) -> Option<Reply> {
    (step.call.is_write() && step.target.0 < 2).then_some(Reply::Failed)
}

#[test]
fn near_deadline_overrides_level_order() {
    let mut fixture = FenceFixture::gardener();
    fixture.apply(&fence_by(4.0));
    fixture.run_with(20.0, first_level_fails);
    assert_eq!(
        fixture.first_write_at(2, "down"),
        Some(1.0),
        "3 s before the deadline"
    );
    assert_eq!(fixture.started_early, [2]);
}

/// The flag is set from the target's turn on, even if the deadline is far: a call may wait in the
/// queue of all clusters until its deadline is close.
#[test]
fn deadline_target_is_flagged_on_fence_only() {
    let mut fixture = FenceFixture::gardener();
    let mut flagged = Vec::new();
    fixture.apply(&fence_by(60.0));
    fixture.run_with(20.0, |step, _, _| {
        if step.is_deadline_target {
            flagged.push(step.target.0);
        }
        None
    });
    fixture.apply(&release());
    fixture.run_with(60.0, |step, _, _| {
        assert!(!step.is_deadline_target, "{step:?}");
        None
    });
    assert!(!flagged.is_empty() && flagged.iter().all(|target| *target == 2));
}

#[test]
fn missed_deadline_runs_levels_in_parallel() {
    let mut fixture = FenceFixture::gardener();
    fixture.apply(&decision(Verdict::Fence, None));
    fixture.run(20.0);
    assert_eq!(fixture.first_write_at(2, "down"), Some(0.0));
}

#[test]
fn nearer_deadline_applies_to_running_flow() {
    let mut fixture = FenceFixture::gardener();
    fixture.apply(&fence_by(60.0));
    fixture.run_with(0.5, first_level_fails);
    fixture.apply(&fence_by(3.6));
    fixture.run_with(20.0, first_level_fails);
    assert_eq!(fixture.first_write_at(2, "down"), Some(0.6));
}

#[test]
fn without_reserve_levels_stay_in_order() {
    let mut fixture = FenceFixture::gardener();
    let parallel_from = None;
    fixture.apply(&Decision {
        parallel_from,
        ..decision(Verdict::Fence, None)
    });
    fixture.run_with(20.0, first_level_fails);
    assert_eq!(fixture.first_write_at(2, "down"), None);
    fixture.run(30.0);
    assert!(fixture.first_write_at(2, "down").is_some());
}

#[test]
fn missing_required_target_blocks_next_level() {
    let mut fixture = FenceFixture::new(gardener_targets(), &[None, Some(1), Some(1)]);
    fixture.apply(&fence_by(10.0));
    fixture.run(20.0);
    assert_eq!(fixture.first_write_at(2, "down"), Some(7.0));
    assert!(
        fixture.reports.is_empty(),
        "the flow looks for the missing target until the verdict changes"
    );
}

#[test]
fn initial_delay_applies_only_before_a_write() {
    let delayed = || one(|target| target.down.initial_delay = Duration::from_secs(15));
    let mut fixture = FenceFixture::new(delayed(), &[Some(1)]);
    fixture.apply(&decision(Verdict::Fence, None));
    fixture.run(30.0);
    assert_eq!(fixture.first_write_at(0, "down"), Some(15.0));
    let mut fixture = FenceFixture::new(delayed(), &[Some(0)]);
    fixture.apply(&decision(Verdict::Fence, None));
    fixture.run(30.0);
    assert_eq!(
        fixture.reports[0].outcomes,
        [Some(TargetOutcome::AlreadyThere)]
    );
    assert_eq!(fixture.replicas(), [Some(0)]);
}

#[test]
fn target_is_read_again_after_delay() {
    let mut fixture = FenceFixture::new(
        one(|target| target.down.initial_delay = Duration::from_secs(15)),
        &[Some(1)],
    );
    fixture.apply(&fence_by(60.0));
    fixture.run(10.0);
    fixture.object(0).scale(4, at(10.0));
    fixture.run(30.0);
    assert_eq!(
        fixture.object(0).present.recorded,
        RecordedSetting::Value(Setting(4))
    );
}

#[test]
fn ignored_target_is_skipped_and_unmarked() {
    for verdict in [fence_by(30.0), release()] {
        let mut fixture = FenceFixture::new(one(|_| ()), &[Some(1)]);
        fixture.object(0).present.ignored = true;
        fixture.object(0).present.marked = true;
        // The second target gives the fence something to do.
        fixture.fencing = Fencing::new([one(|_| ()), one(|_| ())].concat().into());
        fixture.objects.0.push(Some(StoredTarget::with_replicas(1)));
        fixture.run(0.5);
        fixture.apply(&verdict);
        fixture.run(30.0);
        assert_eq!(fixture.object(0).present.setting, Setting(1));
        assert!(!fixture.object(0).present.marked);
        assert_eq!(fixture.reports[0].outcomes[0], Some(TargetOutcome::Ignored));
        assert_eq!(
            fixture.fencing.released_at(),
            None,
            "the controller was never stopped"
        );
    }
}

#[test]
fn unmarked_target_is_never_scaled_up() {
    let mut fixture = FenceFixture::new([one(|_| ()), one(|_| ())].concat(), &[Some(0), Some(0)]);
    fixture.object(1).present.marked = true;
    fixture.object(1).present.recorded = RecordedSetting::Value(Setting(2));
    fixture.run(0.5);
    fixture.apply(&release());
    fixture.run(30.0);
    assert_eq!(fixture.replicas(), [Some(0), Some(2)]);
    assert_eq!(fixture.reports[0].outcomes[0], Some(TargetOutcome::NotOurs));
}

#[test]
fn externally_scaled_target_is_only_unmarked() {
    let mut fixture = FenceFixture::new(one(|_| ()), &[Some(5)]);
    fixture.object(0).present.marked = true;
    fixture.object(0).present.recorded = RecordedSetting::Value(Setting(2));
    fixture.run(0.5);
    fixture.apply(&release());
    fixture.run(30.0);
    assert_eq!(
        (fixture.replicas(), fixture.has_marker()),
        (vec![Some(5)], false)
    );
    assert_eq!(
        fixture.reports[0].outcomes,
        [Some(TargetOutcome::AlreadyThere)]
    );
}

#[test]
fn configured_replicas_precede_recorded_ones() {
    let rows = [
        (
            "recorded",
            None,
            RecordedSetting::Value(Setting(3)),
            3,
            false,
        ),
        (
            "configured",
            Some(7),
            RecordedSetting::Value(Setting(3)),
            7,
            false,
        ),
        ("no record", None, RecordedSetting::Absent, 1, false),
        ("corrupt record", None, RecordedSetting::Corrupt, 1, true),
        (
            "configured beats corrupt",
            Some(2),
            RecordedSetting::Corrupt,
            2,
            false,
        ),
    ];
    for (case, configured, recorded, expected, corrupt_record) in rows {
        let mut fixture = FenceFixture::new(
            one(|target| target.up.setting = configured.map(Setting)),
            &[Some(0)],
        );
        fixture.object(0).present.marked = true;
        fixture.object(0).present.recorded = recorded;
        fixture.run(0.5);
        fixture.apply(&release());
        fixture.run(30.0);
        assert_eq!(fixture.replicas(), [Some(expected)], "{case}");
        let outcome = TargetOutcome::Applied {
            setting: Setting(expected),
            at: at(0.5),
            unready: false,
            corrupt_record,
        };
        assert_eq!(fixture.reports[0].outcomes, [Some(outcome)], "{case}");
    }
}

#[test]
fn configured_floor_bounds_fence_and_restore() {
    let floor = |target: &mut Target| target.down.setting = Some(Setting(1));
    let mut fixture = FenceFixture::new(one(floor), &[Some(3)]);
    fixture.apply(&fence_by(30.0));
    fixture.run(10.0);
    assert_eq!(
        (fixture.replicas(), fixture.fencing.fence()),
        (vec![Some(1)], FenceState::Full)
    );
    fixture.apply(&release());
    fixture.run(30.0);
    assert_eq!(fixture.replicas(), [Some(3)]);
}

#[test]
fn unready_pods_delay_level_five_seconds() {
    let mut targets = gardener_targets();
    targets[2].is_deadline_target = false;
    let mut fixture = FenceFixture::new(targets, &[Some(1); 3]);
    fixture.apply(&fence_by(60.0));
    fixture.run_with(20.0, |step, objects, now| {
        match (&step.call, objects.apply(step, now)) {
            (Call::Read, Reply::Read(Observed::Present(mut present))) => {
                present.effective = Setting(1);
                Some(Reply::Read(Observed::Present(present)))
            }
            (_, reply) => Some(reply),
        }
    });
    assert_eq!(fixture.first_write_at(2, "down"), Some(5.0));
    let is_unready = |outcome: &Option<TargetOutcome>| {
        matches!(outcome, Some(TargetOutcome::Applied { unready: true, .. }))
    };
    assert!(fixture.reports[0].outcomes.iter().all(is_unready));
}

#[test]
fn failed_fence_step_backs_off() {
    let mut fixture = FenceFixture::new(one(|_| ()), &[Some(1)]);
    fixture.apply(&fence_by(60.0));
    let mut tries = Vec::new();
    fixture.run_with(100.0, |step, _, now| {
        step.call.is_write().then(|| {
            tries.push(seconds(now));
            Reply::Failed
        })
    });
    assert_eq!(tries[..6], [0.0, 0.1, 0.3, 0.7, 1.5, 2.5]);
    assert!(tries.len() > 95, "{}", tries.len());
    fixture.apply(&release());
    fixture.run(200.0);
    assert_eq!(
        (fixture.replicas(), fixture.writes.len()),
        (vec![Some(1)], 0)
    );
}

#[test]
fn failing_optional_target_delays_level_by_timeout() {
    let mut fixture = FenceFixture::gardener();
    fixture.apply(&fence_by(600.0));
    fixture.run_with(60.0, |step, _, _| {
        (step.target.0 == 1 && step.call != Call::Read).then_some(Reply::Failed)
    });
    assert_eq!(fixture.first_write_at(2, "down"), Some(30.0));
}

#[test]
fn writes_of_an_operation_share_its_timeout() {
    let mut fixture = FenceFixture::new(one(in_two_writes), &[Some(3)]);
    let mut fencing = Fencing::new(one(in_two_writes).into());
    fencing.apply(&fence_by(600.0));
    let mut limits = Vec::new();
    for _ in 0..3 {
        for step in fencing.poll(fixture.now).steps {
            limits.push((call_name(&step.call), step.time_limit.as_secs()));
            // Each call takes ten seconds.
            fixture.now = fixture.now.after(Duration::from_secs(10));
            let reply = match step.call {
                Call::Fence(_) => Reply::Failed,
                _ => fixture.objects.apply(&step, fixture.now),
            };
            fencing.reply(step, reply, fixture.now);
        }
    }
    assert_eq!(limits, [("read", 30), ("record", 30), ("down", 20)]);
    fixture.now = fixture.now.after(Duration::from_secs(1));
    for _ in 0..2 {
        for step in fencing.poll(fixture.now).steps {
            limits.push((call_name(&step.call), step.time_limit.as_secs()));
            let reply = fixture.objects.apply(&step, fixture.now);
            fencing.reply(step, reply, fixture.now);
        }
    }
    // The next operation has its whole time again.
    assert_eq!(limits[3..], [("read", 30), ("down", 30)]);
}

#[test]
fn timed_out_restore_is_retried() {
    let mut fixture = FenceFixture::gardener();
    fixture.apply(&fence_by(60.0));
    fixture.run(10.0);
    fixture.apply(&release());
    fixture.run_with(45.0, |step, _, _| {
        (step.target.0 == 2 && step.call != Call::Read).then_some(Reply::Failed)
    });
    let failed = &fixture.reports[1];
    assert_eq!(
        failed.outcomes,
        [None, None, Some(TargetOutcome::Failed)],
        "later levels were not started"
    );
    assert_eq!(fixture.replicas(), [Some(0); 3]);
    assert_eq!(fixture.fencing.fence(), FenceState::Full);
    fixture.run(100.0);
    assert_eq!(
        (fixture.replicas(), fixture.has_marker()),
        (vec![Some(1); 3], false)
    );
}

#[test]
fn harmless_conflict_is_no_attempt() {
    let mut fixture = FenceFixture::new(one(|_| ()), &[Some(1)]);
    fixture.apply(&fence_by(60.0));
    let mut conflicts = 3;
    fixture.run_with(10.0, |step, objects, _| {
        let interferes = conflicts > 0 && step.call != Call::Read;
        interferes.then(|| {
            conflicts -= 1;
            objects.0[0].as_mut().unwrap().touch();
            Reply::Conflict
        })
    });
    assert_eq!(fixture.first_write_at(0, "down"), Some(0.0));
    assert_eq!(fixture.reports[0].attempts, 1);
}

#[test]
fn relevant_conflict_is_evaluated_again() {
    let mut fixture = FenceFixture::new(one(|_| ()), &[Some(1)]);
    fixture.apply(&fence_by(60.0));
    let mut has_interfered = false;
    fixture.run_with(10.0, |step, objects, now| {
        let interferes = !has_interfered && step.call != Call::Read;
        interferes.then(|| {
            has_interfered = true;
            objects.0[0].as_mut().unwrap().scale(4, now);
            Reply::Conflict
        })
    });
    assert_eq!(fixture.replicas(), [Some(0)]);
    assert_eq!(
        fixture.object(0).present.recorded,
        RecordedSetting::Value(Setting(4))
    );
    assert_eq!(fixture.reports[0].attempts, 2);
}

#[test]
fn retried_write_is_another_attempt() {
    let mut fixture = FenceFixture::new(one(|_| ()), &[Some(1)]);
    fixture.apply(&fence_by(60.0));
    let mut failures = 2;
    fixture.run_with(10.0, |step, _, _| {
        let fails = failures > 0 && step.call != Call::Read;
        fails.then(|| {
            failures -= 1;
            Reply::Failed
        })
    });
    assert_eq!(fixture.reports[0].attempts, 3);
}

#[test]
fn targets_are_read_after_a_flow() {
    let mut reads = 0;
    let mut fixture = FenceFixture::new(one(|_| ()), &[Some(0)]);
    fixture.apply(&fence_by(60.0));
    fixture.run_with(4.0, |_, _, _| {
        reads += 1;
        None
    });
    assert_eq!(
        (fixture.reports.len(), reads),
        (1, 2),
        "one by the flow and one after it"
    );
}

#[test]
fn endless_conflicts_are_no_busy_loop() {
    let mut fixture = FenceFixture::new(one(|_| ()), &[Some(1)]);
    fixture.apply(&fence_by(60.0));
    let mut calls = 0;
    fixture.run_with(10.0, |step, _, _| {
        calls += 1;
        (step.call != Call::Read).then_some(Reply::Conflict)
    });
    assert!(calls < 400, "{calls} calls in 10 s");
    assert!(
        fixture.fencing.is_contested(TargetId(0)),
        "the conflicts are reported"
    );
    fixture.run(20.0);
    assert_eq!(fixture.replicas(), [Some(0)]);
    assert!(!fixture.fencing.is_contested(TargetId(0)));
}

/// Returns the purpose and the call of each step of a fence, without repetitions. `fault` may
/// answer the steps.
fn purposes(
    change: fn(&mut Target),
    mut fault: impl FnMut(&Call) -> Option<Reply>,
) -> Vec<(Purpose, &'static str)> {
    let mut fixture = FenceFixture::new(one(change), &[Some(1)]);
    fixture.apply(&fence_by(60.0));
    let mut steps = Vec::new();
    fixture.run_with(3.0, |step, _, _| {
        let previous = steps.last().copied();
        let step_kind = (step.purpose, call_name(&step.call));
        steps.extend((previous != Some(step_kind)).then_some(step_kind));
        fault(&step.call)
    });
    steps
}

#[test]
fn steps_name_their_purpose() {
    let expected = [
        (Purpose::Flow, "read"),
        (Purpose::Attempt, "down"),
        (Purpose::Readiness, "read"),
        (Purpose::Refresh, "read"),
    ];
    assert_eq!(purposes(|_| (), |_| None), expected);
    let expected = [
        (Purpose::Flow, "read"),
        (Purpose::Attempt, "record"),
        (Purpose::Flow, "down"),
        (Purpose::Readiness, "read"),
        (Purpose::Refresh, "read"),
    ];
    assert_eq!(purposes(in_two_writes, |_| None), expected);
}

#[test]
fn refused_record_counts_and_conflicting_does_not() {
    let mut refusals = [Reply::Failed, Reply::Conflict].into_iter();
    let steps = purposes(in_two_writes, |call| match call {
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
fn refreshes_are_aligned_across_clusters() {
    let reads_of = |first: f64| {
        let mut fixture = FenceFixture::new(one(|_| ()), &[Some(1)]);
        fixture.now = at(first);
        let mut reads = Vec::new();
        fixture.run_with(901.0, |_, _, now| {
            reads.push(seconds(now));
            None
        });
        reads
    };
    assert_eq!(reads_of(0.0), [0.0, 300.0, 600.0, 900.0]);
    assert_eq!(reads_of(17.5), [17.5, 300.0, 600.0, 900.0]);
    assert_eq!(reads_of(299.0), [299.0, 300.0, 600.0, 900.0]);
}

#[test]
fn external_scale_up_is_fenced_again() {
    let mut fixture = FenceFixture::new(one(|_| ()), &[Some(1)]);
    fixture.apply(&fence_by(60.0));
    fixture.run(10.0);
    fixture.object(0).scale(2, at(11.0));
    fixture.run(21.0);
    assert_eq!(fixture.replicas(), [Some(0)]);
    assert_eq!(
        fixture.object(0).present.recorded,
        RecordedSetting::Value(Setting(2)),
        "the new replicas are recorded"
    );
}

#[test]
fn refresh_finds_fence_of_predecessor() {
    let mut fixture = FenceFixture::new(one(|_| ()), &[Some(1)]);
    assert_eq!(fixture.fencing.fence(), FenceState::Unknown);
    fixture.run(1.0);
    assert_eq!(fixture.fencing.fence(), FenceState::None);
    fixture.object(0).present.marked = true;
    fixture.object(0).scale(0, at(1.0));
    fixture.run(299.0);
    assert_eq!(fixture.fencing.fence(), FenceState::None);
    fixture.run(301.0);
    assert_eq!(fixture.fencing.fence(), FenceState::Full);
    assert_eq!(fixture.writes, []);
}

#[test]
fn failed_refresh_backs_off_to_five_minutes() {
    let mut fixture = FenceFixture::new(one(|_| ()), &[Some(1)]);
    let mut reads = Vec::new();
    fixture.run_with(900.0, |_, _, now| {
        reads.push(seconds(now));
        Some(Reply::Failed)
    });
    let doubled = [
        0.0, 1.0, 3.0, 7.0, 15.0, 31.0, 63.0, 127.0, 255.0, 511.0, 811.0,
    ];
    assert_eq!(reads, doubled);
    assert_eq!(fixture.fencing.fence(), FenceState::Unknown);
}

#[test]
fn new_leader_fences_without_fresh_read() {
    let mut fixture = FenceFixture::new(one(|_| ()), &[Some(1)]);
    fixture.object(0).present.marked = true;
    fixture.object(0).scale(0, at(0.0));
    fixture.run(1.0);
    assert_eq!(
        fixture.fencing.fence(),
        FenceState::Full,
        "read as a standby"
    );
    // The leader releases the target, and ends before this replica reads it again.
    fixture.object(0).present.marked = false;
    fixture.object(0).scale(1, at(2.0));
    fixture.fencing.invalidate();
    assert_eq!(fixture.fencing.fence(), FenceState::Unknown);
    fixture.apply(&fence_by(60.0));
    fixture.run_with(10.0, |step, _, _| step.can_wait().then_some(Reply::Failed));
    assert_eq!(fixture.replicas(), [Some(0)], "the fence needed no refresh");
}

#[test]
fn late_scale_up_is_fenced_again() {
    let mut fixture = FenceFixture::new(one(|_| ()), &[Some(1)]);
    fixture.apply(&fence_by(60.0));
    fixture.run(10.0);
    fixture.apply(&release());
    // The scale-up is in flight when the verdict flips.
    let mut in_flight = None;
    while in_flight.is_none() {
        for step in fixture.fencing.poll(fixture.now).steps {
            if matches!(step.call, Call::Restore(_)) {
                in_flight = Some(step);
            } else {
                let reply = fixture.objects.apply(&step, fixture.now);
                fixture.fencing.reply(step, reply, fixture.now);
            }
        }
    }
    fixture.apply(&fence_by(60.0));
    fixture.run(11.0);
    assert_eq!(
        fixture.fencing.fence(),
        FenceState::Full,
        "as far as is known"
    );
    let step = in_flight.unwrap();
    let reply = fixture.objects.apply(&step, fixture.now);
    assert_eq!(fixture.replicas(), [Some(1)], "the scale-up is carried out");
    fixture.fencing.reply(step, reply, fixture.now);
    fixture.run(20.0);
    assert_eq!(
        (fixture.replicas(), fixture.fencing.fence()),
        (vec![Some(0)], FenceState::Full)
    );
}

#[test]
fn unacknowledged_scale_up_is_fenced_again() {
    let mut fixture = FenceFixture::new(one(|_| ()), &[Some(1)]);
    fixture.apply(&fence_by(60.0));
    fixture.run(10.0);
    fixture.apply(&release());
    // The reply to the scale-up is lost, and all later calls fail.
    let mut is_disconnected = false;
    fixture.run_with(60.0, |step, objects, now| {
        if matches!(step.call, Call::Restore(_)) {
            is_disconnected = true;
            objects.apply(step, now);
        }
        is_disconnected.then_some(Reply::Failed)
    });
    assert_eq!(
        fixture.replicas(),
        [Some(1)],
        "the scale-up was carried out"
    );
    assert_eq!(
        fixture.fencing.fence(),
        FenceState::Full,
        "as far as is known"
    );
    fixture.apply(&fence_by(100.0));
    fixture.run(61.0);
    assert_eq!(fixture.replicas(), [Some(0)]);
}

#[test]
fn observed_targets_are_exposed() {
    let mut fixture = FenceFixture::new(gardener_targets(), &[Some(1), None, Some(1)]);
    fixture.run(1.0);
    let observed: Vec<_> = fixture
        .fencing
        .observed()
        .map(|(target, object)| (target.resource.to_string(), object.cloned()))
        .collect();
    assert_eq!(
        observed[1],
        (
            "Deployment cluster-autoscaler".to_string(),
            Some(Observed::Missing)
        )
    );
    assert!(
        matches!(&observed[0].1, Some(Observed::Present(present)) if present.setting == Setting(1))
    );
    let json = serde_json::to_value(&observed[0].1).unwrap();
    assert_eq!(json["present"]["recorded"], "absent");
}

#[test]
fn blocked_flow_keeps_finished_targets_fenced() {
    // machine-controller-manager is missing, so the flow cannot end.
    for refreshes in [true, false] {
        let mut fixture = FenceFixture::new(gardener_targets(), &[None, Some(1), Some(1)]);
        fixture.apply(&fence_by(10.0));
        fixture.run(20.0);
        assert_eq!(fixture.replicas()[2], Some(0));
        fixture.object(2).scale(1, at(20.0));
        if refreshes {
            fixture.fencing.refresh();
        }
        fixture.run(if refreshes { 30.0 } else { 320.0 });
        assert_eq!(fixture.replicas()[2], Some(0), "refresh: {refreshes}");
    }
}

#[test]
fn overdue_optional_target_does_not_spin() {
    let mut fixture = FenceFixture::new(gardener_targets(), &[None, Some(1), Some(1)]);
    fixture.apply(&fence_by(600.0));
    fixture.run_with(60.0, |step, _, _| {
        (step.target.0 == 1 && step.call != Call::Read).then_some(Reply::Failed)
    });
    assert_eq!(fixture.writes, []);
}

#[test]
fn outdated_read_is_ignored() {
    let mut fixture = FenceFixture::new(one(|_| ()), &[Some(1)]);
    // A read is in flight while the flow runs, and while a refresh is requested.
    let read = fixture.fencing.poll(at(0.0)).steps.pop().unwrap();
    let reply = fixture.objects.apply(&read, at(0.0));
    fixture.apply(&fence_by(60.0));
    fixture.run(1.0);
    assert_eq!(fixture.fencing.fence(), FenceState::Full);
    assert!(fixture.reports.is_empty(), "the flow waits for the pods");
    fixture.fencing.reply(read, reply, at(1.0));
    assert_eq!(fixture.fencing.fence(), FenceState::Full);
    fixture.run(4.0);
    fixture.apply(&release());
    fixture.run(30.0);
    assert_eq!(fixture.replicas(), [Some(1)]);

    let mut fixture = FenceFixture::new(one(|_| ()), &[Some(1)]);
    let read = fixture.fencing.poll(at(0.0)).steps.pop().unwrap();
    let reply = fixture.objects.apply(&read, at(0.0));
    fixture.object(0).present.marked = true;
    fixture.object(0).scale(0, at(0.1));
    fixture.fencing.refresh();
    fixture.fencing.reply(read, reply, at(0.2));
    fixture.run(1.0);
    assert_eq!(
        fixture.fencing.fence(),
        FenceState::Full,
        "the last write of a predecessor is found"
    );
}

#[test]
fn hold_does_not_restart_initial_delay() {
    let mut fixture = FenceFixture::new(
        one(|target| target.down.initial_delay = Duration::from_secs(15)),
        &[Some(1)],
    );
    for round in 0..3 {
        let now = f64::from(round) * 10.0;
        fixture.apply(&fence_by(now + 60.0));
        fixture.run(now + 9.0);
        fixture.apply(&decision(Verdict::Hold, None));
        fixture.run(now + 10.0);
    }
    assert_eq!(fixture.replicas(), [Some(0)]);
    assert_eq!(fixture.first_write_at(0, "down"), Some(15.0));
}

#[test]
fn target_scaled_up_while_settling_is_unreported() {
    let mut fixture = FenceFixture::new(one(|_| ()), &[Some(1)]);
    fixture.apply(&fence_by(600.0));
    let mut has_interfered = false;
    fixture.run_with(8.0, |step, objects, now| {
        if now >= at(0.4) && !std::mem::replace(&mut has_interfered, true) {
            objects.0[0].as_mut().unwrap().scale(2, now);
        }
        (now >= at(0.4) && step.call != Call::Read).then_some(Reply::Failed)
    });
    assert_eq!(fixture.replicas(), [Some(2)]);
    assert_eq!(fixture.reports, []);
}

#[test]
fn cancelled_flow_reports_progress() {
    let mut fixture = FenceFixture::gardener();
    fixture.apply(&fence_by(60.0));
    fixture.run(2.0);
    fixture.apply(&release());
    assert_eq!(fixture.reports[0].direction, Direction::Down);
    assert_eq!(fixture.reports[0].outcomes[0], Some(scaled(0, 0.0)));
    assert_eq!(fixture.reports[0].attempts, 2 + 1);
    let mut fixture = FenceFixture::gardener();
    fixture.apply(&fence_by(60.0));
    fixture.run(1.0);
    let report = fixture.fencing.cancel().unwrap();
    assert_eq!((report.outcomes, report.attempts), (vec![None; 3], 3));
    let writes = fixture.writes.len();
    fixture.run(400.0);
    assert_eq!(fixture.writes.len(), writes, "only reads go on");
}

#[test]
fn release_counts_if_all_controllers_restarted() {
    let mut fixture = FenceFixture::gardener();
    fixture.object(0).present.ignored = true;
    fixture.apply(&fence_by(60.0));
    fixture.run(10.0);
    fixture.apply(&release());
    fixture.run(40.0);
    assert_eq!(fixture.replicas(), [Some(1); 3]);
    assert_eq!(
        fixture.fencing.released_at(),
        None,
        "one controller was never stopped"
    );
}

#[test]
fn ignored_target_leaves_fence_full() {
    let mut fixture = FenceFixture::gardener();
    fixture.object(0).present.ignored = true;
    fixture.apply(&fence_by(60.0));
    fixture.run(10.0);
    assert_eq!(fixture.replicas(), [Some(1), Some(0), Some(0)]);
    assert_eq!(fixture.fencing.fence(), FenceState::Full);
}

#[test]
fn fence_skips_restore_retry_delay() {
    let mut fixture = FenceFixture::new(
        one(|target| target.up.timeout = Duration::from_millis(1)),
        &[Some(1)],
    );
    fixture.apply(&fence_by(60.0));
    fixture.run(10.0);
    fixture.apply(&release());
    fixture.run_with(10.15, |step, _, _| {
        (step.call != Call::Read).then_some(Reply::Failed)
    });
    assert_eq!(fixture.reports[1].outcomes, [Some(TargetOutcome::Failed)]);
    fixture.object(0).scale(3, at(10.2));
    fixture.fencing.refresh();
    fixture.run(10.3);
    fixture.apply(&fence_by(60.0));
    fixture.run(10.4);
    assert_eq!(fixture.replicas(), [Some(0)]);
}

#[test]
fn failed_restore_stops_later_levels_only() {
    let same_level = vec![
        target("a", |_| ()),
        target("b", |_| ()),
        target("c", |target| target.up.level = 1),
    ];
    let mut fixture = FenceFixture::new(same_level, &[Some(1), Some(1), Some(1)]);
    fixture.apply(&fence_by(60.0));
    fixture.run(10.0);
    fixture.apply(&release());
    fixture.run_with(40.5, |step, _, _| {
        (step.target.0 == 0 && step.call != Call::Read).then_some(Reply::Failed)
    });
    assert_eq!(fixture.replicas(), [Some(0), Some(1), Some(0)]);
    let outcomes = &fixture.reports[1].outcomes;
    assert_eq!(
        (outcomes[0], outcomes[2]),
        (Some(TargetOutcome::Failed), None)
    );
}

#[test]
fn record_below_floor_is_only_unmarked() {
    let mut fixture = FenceFixture::new(
        one(|target| target.down.setting = Some(Setting(3))),
        &[Some(3)],
    );
    fixture.object(0).present.marked = true;
    fixture.object(0).present.recorded = RecordedSetting::Value(Setting(2));
    fixture.run(0.5);
    fixture.apply(&release());
    fixture.run(30.0);
    assert_eq!(
        (fixture.replicas(), fixture.has_marker()),
        (vec![Some(3)], false)
    );
}
