//! Fences and restores while an admission webhook does not answer: the record is kept on the leader
//! Lease, and the scale subresource is used.

use kelpie_core::Time;
use kelpie_core::prober::fence::{
    Call, Fencing, KeptRecord, RecordedSetting, Reply, ResourceVersion, Step,
};
use kelpie_core::prober::{FenceState, Setting, Target};

use crate::fence_fixture::{FenceFixture, fence_by, in_two_writes, one, release, target};
use crate::model::control_plane::Targets;

fn names(fixture: &FenceFixture) -> Vec<&'static str> {
    fixture.writes.iter().map(|write| write.2).collect()
}

/// Returns a target that was fenced while the webhook is away.
fn fenced(change: fn(&mut Target)) -> FenceFixture {
    let mut fixture = FenceFixture::new(one(change), &[Some(3)]);
    fixture.set_webhook(true);
    fixture.apply(&fence_by(60.0));
    fixture.run(1.0);
    fixture
}

/// Answers calls of one kind with this reply instead of the API server's.
fn failing(
    matches: fn(&Call) -> bool,
    reply: Reply,
) -> impl FnMut(&Step, &mut Targets, Time) -> Option<Reply> {
    move |step, _, _| matches(&step.call).then(|| reply.clone())
}

fn assert_restored(fixture: &FenceFixture) {
    assert_eq!(
        (fixture.replicas(), fixture.has_marker()),
        (vec![Some(3)], false)
    );
    assert_eq!(fixture.fencing.fence(), FenceState::None);
}

#[test]
fn record_is_kept_before_the_scale() {
    for change in [|_: &mut Target| (), in_two_writes] {
        let mut fixture = fenced(change);
        assert_eq!(names(&fixture), ["keep", "down"]);
        assert_eq!(fixture.first_write_at(0, "down"), Some(0.0), "at once");
        assert_eq!(fixture.fencing.fence(), FenceState::Full);
        assert_eq!(fixture.object(0).recorded(), Some(Setting(3)));
    }
}

/// Returns whether a call is delayed by an admission webhook that hangs.
fn is_delayed(call: &Call) -> bool {
    call.writes_record() || matches!(call, Call::MoveRecord(_) | Call::DropMarker(_))
}

#[test]
fn unanswered_patch_is_bypassed() {
    for change in [|_: &mut Target| (), in_two_writes] {
        let mut fixture = FenceFixture::new(one(change), &[Some(3)]);
        fixture.apply(&fence_by(60.0));
        fixture.run_with(1.0, failing(is_delayed, Reply::Unanswered));
        assert_eq!(names(&fixture), ["keep", "down"]);
        assert_eq!(fixture.fencing.fence(), FenceState::Full);
        fixture.apply(&release());
        fixture.run_with(20.0, failing(is_delayed, Reply::WebhookFailed));
        assert_restored(&fixture);
    }
}

/// Returns the patch that fences the target of a fixture.
fn patch(fixture: &mut FenceFixture) -> Step {
    let mut fencing = Fencing::new(one(|_| ()).into());
    fencing.apply(&fence_by(60.0));
    loop {
        for step in fencing.poll(fixture.now).steps {
            if is_delayed(&step.call) {
                return step;
            }
            let reply = fixture.objects.apply(&step, fixture.now);
            fencing.reply(step, reply, fixture.now);
        }
    }
}

/// The patch happens before its record is kept on the Lease, or right after that.
#[test]
fn late_patch_and_bypass_make_one_fence() {
    for lands_before in [
        |call: &Call| matches!(call, Call::KeepRecord(_)),
        |call: &Call| matches!(call, Call::Fence(write) if !write.carries_record()),
    ] {
        let mut fixture = FenceFixture::new(one(|_| ()), &[Some(3)]);
        let mut late = Some(patch(&mut fixture));
        fixture.apply(&fence_by(60.0));
        fixture.run_with(30.0, |step, targets, now| {
            if let Some(late) = late.take_if(|_| lands_before(&step.call)) {
                targets.apply(&late, now);
            }
            (late.is_some() && is_delayed(&step.call)).then_some(Reply::Unanswered)
        });
        let object = fixture.object(0);
        assert!(object.present.marked, "by the patch");
        assert_eq!(object.kept, None);
        fixture.apply(&release());
        fixture.run(60.0);
        assert_restored(&fixture);
    }
}

#[test]
fn kept_fence_is_restored_without_the_webhook() {
    for change in [|_: &mut Target| (), in_two_writes] {
        let mut fixture = fenced(change);
        fixture.apply(&release());
        fixture.run(20.0);
        assert_eq!(names(&fixture), ["keep", "down", "up", "drop"]);
        assert_restored(&fixture);
    }
}

#[test]
fn kept_fence_is_restored_with_the_webhook() {
    let mut fixture = fenced(|_| ());
    fixture.set_webhook(false);
    fixture.apply(&release());
    fixture.run(20.0);
    assert_restored(&fixture);
}

#[test]
fn record_moves_once_the_webhook_answers() {
    let mut fixture = fenced(|_| ());
    fixture.run(35.0);
    assert_eq!(names(&fixture), ["keep", "down"]);
    fixture.set_webhook(false);
    fixture.run(46.0);
    assert_eq!(names(&fixture), ["keep", "down", "move", "drop"]);
    let object = fixture.object(0);
    assert_eq!(object.kept, None);
    assert!(object.present.marked);
    assert_eq!(object.present.recorded, RecordedSetting::Value(Setting(3)));
    fixture.apply(&release());
    fixture.run(60.0);
    assert_restored(&fixture);
}

#[test]
fn webhook_is_tried_every_ten_seconds() {
    let mut fixture = FenceFixture::new(one(|_| ()), &[Some(3)]);
    fixture.set_webhook(true);
    fixture.apply(&fence_by(60.0));
    let mut tries = 0;
    fixture.run_with(61.0, |step, _, _| {
        tries += usize::from(matches!(step.call, Call::MoveRecord(_)));
        None
    });
    assert_eq!(tries, 6);
}

#[test]
fn restart_between_record_and_scale_leaves_no_trace() {
    for releases in [true, false] {
        let mut fixture = FenceFixture::new(one(|_| ()), &[Some(3)]);
        fixture.set_webhook(true);
        fixture.apply(&fence_by(60.0));
        fixture.run_with(0.05, |step, _, _| {
            let scales = matches!(&step.call, Call::Fence(write) if !write.carries_record());
            scales.then_some(Reply::Failed)
        });
        assert_eq!(names(&fixture), ["keep"]);
        fixture.fencing = Fencing::new(one(|_| ()).into());
        fixture.run(1.0);
        if !releases {
            fixture.apply(&fence_by(60.0));
            fixture.run(10.0);
            assert_eq!(fixture.fencing.fence(), FenceState::Full);
        }
        fixture.apply(&release());
        fixture.run(20.0);
        // The first process may still send its write.
        assert_eq!(fixture.has_marker(), releases);
        fixture.touch_kept();
        fixture.run(400.0);
        assert_restored(&fixture);
    }
}

#[test]
fn late_scale_is_restored_from_the_lease() {
    let mut fixture = FenceFixture::new(one(|_| ()), &[Some(3)]);
    fixture.set_webhook(true);
    fixture.apply(&fence_by(60.0));
    let mut late = None;
    while late.is_none() {
        for step in fixture.fencing.poll(fixture.now).steps {
            match &step.call {
                Call::Fence(write) if !write.carries_record() => late = Some(step),
                _ => {
                    let reply = fixture.objects.apply(&step, fixture.now);
                    fixture.fencing.reply(step, reply, fixture.now);
                }
            }
        }
    }
    // The record stays while the fence may still happen.
    fixture.apply(&release());
    fixture.run(30.0);
    fixture.objects.apply(&late.unwrap(), fixture.now);
    assert_eq!(fixture.replicas(), [Some(0)]);
    fixture.run(50.0);
    assert_restored(&fixture);
}

#[test]
fn successor_restores_from_the_lease() {
    let mut fixture = fenced(|_| ());
    fixture.fencing = Fencing::new(one(|_| ()).into());
    fixture.run(2.0);
    assert_eq!(fixture.fencing.fence(), FenceState::Full);
    fixture.fencing.invalidate();
    fixture.apply(&release());
    fixture.run(20.0);
    assert_restored(&fixture);
}

#[test]
fn no_scale_without_the_record() {
    for reply in [Reply::Rejected, Reply::Failed] {
        let mut fixture = FenceFixture::new(one(|_| ()), &[Some(3)]);
        fixture.set_webhook(true);
        fixture.apply(&fence_by(60.0));
        let refuses = failing(|call| matches!(call, Call::KeepRecord(_)), reply);
        fixture.run_with(5.0, refuses);
        assert_eq!(fixture.replicas(), [Some(3)]);
        fixture.set_webhook(false);
        fixture.run(10.0);
        assert_eq!(fixture.replicas(), [Some(0)]);
    }
}

#[test]
fn targets_without_deadline_wait_for_the_webhook() {
    let mut fixture = FenceFixture::gardener();
    fixture.set_webhook(true);
    fixture.apply(&fence_by(5.0));
    fixture.run(20.0);
    assert_eq!(fixture.replicas(), [Some(1), Some(1), Some(0)]);
    assert_eq!(
        fixture.first_write_at(2, "down"),
        Some(2.0),
        "within the reserve"
    );
    assert_eq!(fixture.fencing.fence(), FenceState::Partial);
    assert!(!fixture.fencing.is_deadline_open());
    fixture.set_webhook(false);
    fixture.run(40.0);
    assert_eq!(fixture.replicas(), [Some(0); 3]);
    fixture.apply(&release());
    fixture.run(60.0);
    assert_eq!(fixture.replicas(), [Some(1); 3]);
    assert!(!fixture.has_marker());
}

#[test]
fn record_of_former_target_is_dropped() {
    let mut fixture = fenced(|_| ());
    let (now, object) = (fixture.now, fixture.object(0));
    object.present.uid = "another".into();
    object.scale(2, now);
    fixture.fencing.refresh();
    fixture.apply(&release());
    fixture.run(20.0);
    assert_eq!(fixture.replicas(), [Some(2)]);
    assert!(!fixture.has_marker());
    assert!(!names(&fixture).contains(&"up"));
}

#[test]
fn stale_state_drops_no_record() {
    let mut fixture = FenceFixture::new(one(|_| ()), &[Some(3)]);
    let old = fixture.object(0).clone();
    fixture.object(0).touch();
    fixture.set_webhook(true);
    fixture.apply(&fence_by(60.0));
    fixture.run(1.0);
    for is_marked in [false, true] {
        fixture.fencing = Fencing::new(one(|_| ()).into());
        let fenced = std::mem::replace(fixture.object(0), old.clone());
        fixture.object(0).present.marked = is_marked;
        fixture.show(0);
        *fixture.object(0) = fenced;
        fixture.show_lease();
        fixture.apply(&release());
        let steps = fixture.fencing.poll(fixture.now).steps;
        let drops = |step: &Step| matches!(step.call, Call::DropRecord(_));
        assert!(!steps.iter().any(drops), "{steps:?}");
    }
    fixture.fencing = Fencing::new(one(|_| ()).into());
    fixture.apply(&release());
    fixture.run(20.0);
    assert_restored(&fixture);
}

#[test]
fn marked_targets_are_restored_without_the_webhook() {
    let level = |level: u32| target(&format!("target-{level}"), |target| target.up.level = level);
    let mut fixture = FenceFixture::new(vec![level(0), level(1)], &[Some(3), Some(2)]);
    fixture.apply(&fence_by(60.0));
    fixture.run(10.0);
    fixture.set_webhook(true);
    fixture.apply(&release());
    fixture.run(20.0);
    assert_eq!(fixture.replicas(), [Some(3), Some(2)]);
    assert_eq!(fixture.reports.len(), 2, "the flow has ended");
    assert!(fixture.has_marker());
    assert_eq!(fixture.fencing.fence(), FenceState::None);
    fixture.run(40.0);
    assert_eq!(fixture.reports.len(), 2, "and no other one began");
    fixture.set_webhook(false);
    fixture.run(55.0);
    assert!(!fixture.has_marker());
}

#[test]
fn stuck_marker_does_not_prevent_the_next_fence() {
    let mut fixture = FenceFixture::new(one(|_| ()), &[Some(3)]);
    fixture.apply(&fence_by(60.0));
    fixture.run(10.0);
    fixture.set_webhook(true);
    fixture.apply(&release());
    fixture.run(20.0);
    fixture.apply(&fence_by(80.0));
    fixture.run(30.0);
    assert_eq!(fixture.replicas(), [Some(0)]);
    fixture.apply(&release());
    fixture.set_webhook(false);
    fixture.run(60.0);
    assert_restored(&fixture);
}

#[test]
fn lost_replies_of_the_lease_are_made_up_for() {
    let mut fixture = FenceFixture::new(one(|_| ()), &[Some(3)]);
    fixture.set_webhook(true);
    fixture.apply(&fence_by(60.0));
    let mut lost = 0;
    let mut losing = |step: &Step, objects: &mut Targets, now: Time| {
        let is_lease = matches!(step.call, Call::KeepRecord(_) | Call::DropRecord(_));
        (is_lease && lost < 2).then(|| {
            lost += 1;
            objects.apply(step, now);
            Reply::Failed
        })
    };
    fixture.run_with(5.0, &mut losing);
    assert_eq!(fixture.replicas(), [Some(0)]);
    fixture.apply(&release());
    fixture.run_with(20.0, &mut losing);
    assert_restored(&fixture);
}

#[test]
fn kept_records_hold_the_beginning_of_a_uid() {
    let record = |uid: &str| KeptRecord::new(uid, Setting(1), ResourceVersion::new("7"));
    let kept = record("5e1f0c2a-3b4d-4e5f").unwrap();
    assert_eq!((kept.uid(), kept.setting()), ("5e1f0c2a", Setting(1)));
    assert_eq!(record("5e1f0c2a"), Some(kept));
    assert_eq!(record(""), None);
}
