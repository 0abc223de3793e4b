//! The number of writes of a fence, writes of unknown fate, and fences that others undo.

use std::time::Duration;

use kelpie_core::Time;
use kelpie_core::prober::fence::{
    Call, FenceEvent, Fencing, RecordedSetting, Reply, Step, TargetId, TargetOutcome, WriteAnswer,
};
use kelpie_core::prober::{FenceState, Setting, Target};

use crate::evaluator_fixture::at;
use crate::fence_fixture::{FenceFixture, fence_by, in_two_writes, one, release, seconds, target};
use crate::model::control_plane::Targets;

/// Fences and restores one target. Returns the names of the writes.
fn writes_of(change: fn(&mut Target)) -> Vec<&'static str> {
    let mut fixture = FenceFixture::new(one(change), &[Some(3)]);
    fixture.apply(&fence_by(60.0));
    fixture.run(10.0);
    assert_eq!(fixture.fencing.fence(), FenceState::Full);
    assert_eq!(
        fixture.object(0).present.recorded,
        RecordedSetting::Value(Setting(3))
    );
    fixture.apply(&release());
    fixture.run(20.0);
    assert_eq!(
        (fixture.replicas(), fixture.has_marker()),
        (vec![Some(3)], false)
    );
    fixture.writes.iter().map(|write| write.2).collect()
}

#[test]
fn one_write_fences_and_one_restores() {
    assert_eq!(writes_of(|_| ()), ["down", "up"]);
    assert_eq!(writes_of(in_two_writes), ["record", "down", "up", "unmark"]);
}

#[test]
fn only_plain_kinds_take_one_write() {
    let takes_one_write = |api_version: &str, kind: &str| {
        let target = target("a", |target| {
            target.resource.api_version = api_version.into();
            target.resource.kind = kind.into();
        });
        target.takes_one_write()
    };
    for kind in ["Deployment", "StatefulSet", "ReplicaSet"] {
        assert!(takes_one_write("apps/v1", kind), "{kind}");
    }
    assert!(!takes_one_write("apps/v1beta1", "Deployment"));
    assert!(!takes_one_write("druid.gardener.cloud/v1alpha1", "Etcd"));
}

/// Answers the first write with another count, as if a webhook had set it.
fn with_count(count: u32) -> impl FnMut(&Step, &mut Targets, Time) -> Option<Reply> {
    let mut is_first = true;
    move |step, objects, now| {
        if !step.call.is_write() || !std::mem::take(&mut is_first) {
            return None;
        }
        objects.apply(step, now);
        let object = objects.0[0].as_mut().unwrap();
        object.scale(count, now);
        Some(Reply::Written(WriteAnswer::Object(object.seen(now))))
    }
}

#[test]
fn count_of_webhook_is_fenced_again() {
    let mut fixture = FenceFixture::new(one(|_| ()), &[Some(1)]);
    fixture.apply(&fence_by(60.0));
    fixture.run_with(10.0, with_count(2));
    assert_eq!(fixture.replicas(), [Some(0)]);
    assert_eq!(fixture.fencing.fence(), FenceState::Full);
}

#[test]
fn restored_count_is_taken_from_answer() {
    let mut fixture = FenceFixture::new(one(|_| ()), &[Some(1)]);
    fixture.apply(&fence_by(60.0));
    fixture.run(10.0);
    fixture.apply(&release());
    fixture.run_with(20.0, with_count(2));
    assert_eq!(
        (fixture.replicas(), fixture.has_marker()),
        (vec![Some(2)], false)
    );
    let outcome = fixture.reports[1].outcomes[0];
    assert!(
        matches!(outcome, Some(TargetOutcome::Applied { setting, .. }) if setting == Setting(2)),
        "{outcome:?}"
    );
}

#[test]
fn watched_target_is_fenced_without_a_read() {
    let mut fixture = FenceFixture::new(one(|_| ()), &[Some(1)]);
    fixture.show(0);
    fixture.apply(&fence_by(60.0));
    let mut calls = Vec::new();
    fixture.run_with(1.0, |step, _, _| {
        calls.push(step.call.is_write());
        None
    });
    assert_eq!(calls, [true], "one write and no read");
    fixture.now = at(2.5);
    fixture.show(0);
    assert_eq!(
        fixture.reports.len(),
        1,
        "the watch shows the end of the pods"
    );
    let stopped = FenceEvent::Stopped {
        target: TargetId(0),
        at: at(2.5),
        after: Duration::from_millis(2_500),
    };
    assert_eq!(fixture.events.last(), Some(&stopped));
}

/// Another replica restores the target before its pods were seen to stop. Much later, another
/// client stops them.
#[test]
fn stop_after_restore_by_others_is_not_measured() {
    let mut fixture = FenceFixture::new(one(|_| ()), &[Some(1)]);
    fixture.show(0);
    fixture.apply(&fence_by(60.0));
    fixture.run(1.0);
    for (seconds, count) in [(1.5, 1), (300.0, 0), (310.0, 0)] {
        fixture.now = at(seconds);
        let now = fixture.now;
        fixture.object(0).scale(count, now);
        fixture.show(0);
    }
    let is_stop = |event: &FenceEvent| matches!(event, FenceEvent::Stopped { .. });
    assert!(!fixture.events.iter().any(is_stop), "{:?}", fixture.events);
}

#[test]
fn conflict_with_watched_state_is_read_once() {
    let mut fixture = FenceFixture::new(one(|_| ()), &[Some(1)]);
    fixture.show(0);
    fixture.object(0).touch();
    fixture.apply(&fence_by(60.0));
    let mut calls = Vec::new();
    fixture.run_with(1.0, |step, _, _| {
        calls.push(step.call.is_write());
        None
    });
    assert_eq!(calls, [true, false, true]);
    assert_eq!(fixture.replicas(), [Some(0)]);
}

#[test]
fn older_state_of_watch_is_ignored() {
    let mut fixture = FenceFixture::new(one(|_| ()), &[Some(1)]);
    fixture.show(0);
    let before = fixture.object(0).clone();
    fixture.apply(&fence_by(60.0));
    fixture.run(1.0);
    let after = std::mem::replace(fixture.object(0), before);
    fixture.show(0);
    *fixture.object(0) = after;
    assert_eq!(fixture.fencing.fence(), FenceState::Full);
    assert!(!fixture.fencing.wants_look());
}

#[test]
fn watched_targets_are_not_polled() {
    let mut fixture = FenceFixture::new(one(|_| ()), &[Some(1)]);
    fixture.show(0);
    fixture.apply(&fence_by(60.0));
    let mut reads = Vec::new();
    for second in 1..=310_i32 {
        fixture.run_with(f64::from(second), |step, _, now| {
            reads.extend((!step.call.is_write()).then(|| seconds(now)));
            None
        });
        fixture.show(0);
    }
    assert_eq!(
        reads,
        [300.0],
        "one list for all clusters every five minutes"
    );
}

#[test]
fn undone_fence_waits_for_a_look() {
    let mut fixture = FenceFixture::new(one(|_| ()), &[Some(1)]);
    let fence = fence_by(60.0);
    fixture.show(0);
    fixture.apply(&fence);
    fixture.run(5.0);
    fixture.show(0);
    fixture.object(0).scale(2, at(5.0));
    fixture.show(0);
    assert!(fixture.fencing.wants_look() && fixture.fencing.is_open());
    assert!(fixture.fencing.poll(at(6.0)).steps.is_empty());
    // A decision on evidence from before does not count.
    fixture.fencing.apply(&fence);
    assert!(fixture.fencing.wants_look());
    assert!(fixture.fencing.poll(at(6.0)).steps.is_empty());
    fixture.run(7.0);
    assert_eq!((fixture.replicas(), fixture.looks), (vec![Some(0)], 1));
    // A decision to release leaves it as the other client wants it, but for the marker.
    fixture.object(0).scale(2, at(7.0));
    fixture.show(0);
    fixture.apply(&release());
    fixture.run(20.0);
    assert_eq!(
        (fixture.replicas(), fixture.has_marker()),
        (vec![Some(2)], false)
    );
}

/// A write without an answer lands `after` seconds after the verdict has changed.
fn restored_after_late_fence(after: f64) -> f64 {
    let mut fixture = FenceFixture::new(one(|_| ()), &[Some(1)]);
    fixture.run(0.5);
    fixture.apply(&fence_by(60.0));
    let mut sent = None;
    for step in fixture.fencing.poll(fixture.now).steps {
        let reply = fixture.objects.apply(&step, fixture.now);
        fixture.fencing.reply(step, reply, fixture.now);
    }
    for step in fixture.fencing.poll(fixture.now).steps {
        assert!(step.call.is_write());
        sent = Some(step);
    }
    fixture.apply(&release());
    fixture.run(0.5 + after);
    let sent = sent.unwrap();
    fixture.objects.apply(&sent, fixture.now);
    assert_eq!(fixture.replicas(), [Some(0)], "the late write lands");
    let start = fixture.now;
    fixture.run(seconds(start) + 60.0);
    assert_eq!(
        (fixture.replicas(), fixture.has_marker()),
        (vec![Some(1)], false)
    );
    fixture.first_write_at(0, "up").unwrap() - seconds(start)
}

#[test]
fn late_fence_is_restored_soon() {
    for (after, within) in [(0.2, 1.0), (2.0, 2.0), (5.0, 4.0), (30.0, 10.0)] {
        let took = restored_after_late_fence(after);
        assert!(
            took <= within,
            "landed after {after} s, restored after {took} s"
        );
    }
}

#[test]
fn rejected_write_is_repeated_without_a_read() {
    let mut fixture = FenceFixture::new(one(|_| ()), &[Some(1)]);
    fixture.show(0);
    fixture.apply(&fence_by(60.0));
    let mut calls = Vec::new();
    fixture.run_with(1.0, |step, _, now| {
        calls.push((seconds(now), step.call.is_write()));
        (calls.len() < 3).then_some(Reply::Rejected)
    });
    assert_eq!(calls, [(0.0, true), (0.1, true), (0.3, true)]);
    assert_eq!(fixture.replicas(), [Some(0)]);
}

#[test]
fn unacknowledged_fence_is_reported_when_found() {
    let mut fixture = FenceFixture::new(one(|_| ()), &[Some(1)]);
    fixture.apply(&fence_by(60.0));
    let mut is_lost = false;
    fixture.run_with(5.0, |step, objects, now| {
        let loses = step.call.is_write() && !std::mem::replace(&mut is_lost, true);
        loses.then(|| {
            objects.apply(step, now);
            Reply::Failed
        })
    });
    let applied = |event: &FenceEvent| matches!(event, FenceEvent::Applied { .. });
    assert_eq!(
        fixture.events.iter().filter(|event| applied(event)).count(),
        1
    );
    let outcome = fixture.reports[0].outcomes[0];
    assert!(
        matches!(outcome, Some(TargetOutcome::Applied { .. })),
        "{outcome:?}"
    );
}

#[test]
fn new_leader_keeps_what_a_watch_has_shown() {
    let mut fixture = FenceFixture::new(one(|_| ()), &[Some(1)]);
    fixture.show(0);
    fixture.fencing.invalidate();
    assert_eq!(fixture.fencing.fence(), FenceState::None);
    fixture.fencing.set_watched(TargetId(0), false, at(0.0));
    fixture.fencing.invalidate();
    assert_eq!(fixture.fencing.fence(), FenceState::Unknown);
}

#[test]
fn restart_between_two_writes_finds_the_record() {
    let mut fixture = FenceFixture::new(one(in_two_writes), &[Some(3)]);
    fixture.apply(&fence_by(60.0));
    fixture.run_with(0.05, |step, _, _| {
        matches!(step.call, Call::Fence(_)).then_some(Reply::Failed)
    });
    assert!(fixture.has_marker());
    fixture.fencing = Fencing::new(one(in_two_writes).into());
    fixture.run(1.0);
    fixture.apply(&release());
    fixture.run(10.0);
    assert_eq!(
        (fixture.replicas(), fixture.has_marker()),
        (vec![Some(3)], false)
    );
}
