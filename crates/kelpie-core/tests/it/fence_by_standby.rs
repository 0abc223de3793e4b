//! Fences by a standby: late, once per trip, and never against the leader.

use kelpie_core::prober::fence::{RecordedSetting, TargetOutcome};
use kelpie_core::prober::{Decision, FenceState, Setting, Verdict};

use crate::evaluator_fixture::at;
use crate::fence_fixture::{FenceFixture, decision, fence_by, release};

impl FenceFixture {
    fn assist(&mut self, decision: &Decision) {
        let report = self.fencing.assist(decision, self.now);
        self.reports.extend(report);
    }
}

const KCM: usize = 2;

#[test]
fn standby_fences_deadline_target_after_a_second() {
    for is_watched in [false, true] {
        let mut fixture = FenceFixture::gardener();
        if is_watched {
            (0..3).for_each(|index| fixture.show(index));
        }
        fixture.assist(&fence_by(4.0));
        fixture.run(0.9);
        assert_eq!(fixture.writes, []);
        fixture.assist(&fence_by(4.0));
        fixture.run(20.0);
        assert_eq!(fixture.writes, [(1.0, KCM, "down")]);
        assert_eq!(fixture.fencing.fence(), FenceState::Partial);
        let outcomes = &fixture.reports[0].outcomes;
        assert_eq!(outcomes[0], Some(TargetOutcome::LeftToLeader));
        assert_eq!(
            fixture.object(KCM).present.recorded,
            RecordedSetting::Value(Setting(1))
        );
    }
}

#[test]
fn standby_leaves_the_levels_to_an_acting_leader() {
    for first_marked_at in [0.0, 0.5] {
        let mut fixture = FenceFixture::gardener();
        (0..3).for_each(|index| fixture.show(index));
        fixture.run(first_marked_at);
        fixture.object(0).present.marked = true;
        fixture.object(0).scale(0, at(first_marked_at));
        fixture.show(0);
        fixture.assist(&fence_by(9.0));
        fixture.run(5.9);
        assert_eq!(fixture.writes, []);
        // The leader did not go on: the deadline ends the order of the levels.
        fixture.run(20.0);
        assert_eq!(fixture.writes, [(6.0, KCM, "down")]);
    }
}

#[test]
fn standby_fences_once_per_trip() {
    let mut fixture = FenceFixture::gardener();
    fixture.assist(&fence_by(4.0));
    fixture.run(10.0);
    assert_eq!(fixture.writes.len(), 1);
    // The leader releases, and this replica still judges that the cluster is cut off.
    fixture.object(KCM).present.marked = false;
    fixture.object(KCM).scale(1, at(10.0));
    fixture.assist(&fence_by(4.0));
    fixture.assist(&decision(Verdict::Hold, None));
    fixture.assist(&fence_by(4.0));
    fixture.run(60.0);
    assert_eq!(fixture.writes.len(), 1);
    fixture.assist(&release());
    fixture.assist(&fence_by(64.0));
    fixture.run(70.0);
    assert_eq!(fixture.writes.len(), 2, "in the next trip");
}

#[test]
fn standby_accepts_release_while_pods_stop() {
    let mut fixture = FenceFixture::gardener();
    (0..3).for_each(|index| fixture.show(index));
    fixture.assist(&fence_by(4.0));
    fixture.run(1.1);
    assert_eq!(fixture.writes, [(1.0, KCM, "down")]);
    for seconds in [1.2, 1.3, 1.4] {
        fixture.now = at(seconds);
        fixture.object(KCM).present.marked = false;
        fixture.object(KCM).scale(1, at(seconds));
        fixture.show(KCM);
        fixture.run(seconds);
    }
    fixture.run(60.0);
    assert_eq!(fixture.writes.len(), 1);
}

#[test]
fn fence_is_lifted_only_by_a_newer_decision() {
    let mut fixture = FenceFixture::gardener();
    (0..3).for_each(|index| fixture.show(index));
    fixture.apply(&release());
    fixture.now = at(5.0);
    fixture.object(KCM).present.marked = true;
    fixture.object(KCM).present.recorded = RecordedSetting::Value(Setting(1));
    fixture.object(KCM).scale(0, at(5.0));
    fixture.show(KCM);
    assert!(fixture.fencing.wants_look());
    assert_eq!(fixture.fencing.poll(fixture.now).steps, []);
    // The look finds nothing but the same.
    fixture.run(20.0);
    assert_eq!(fixture.looks, 1);
    assert_eq!(fixture.writes, [(5.0, KCM, "up")]);
    assert_eq!(fixture.fencing.fence(), FenceState::None);
}

#[test]
fn standby_never_writes_against_the_leader() {
    // The leader has fenced.
    let mut fixture = FenceFixture::gardener();
    (0..3).for_each(|index| fixture.show(index));
    fixture.assist(&fence_by(4.0));
    fixture.object(KCM).present.marked = true;
    fixture.object(KCM).scale(0, at(0.5));
    fixture.now = at(0.5);
    fixture.show(KCM);
    // It releases again.
    fixture.object(KCM).present.marked = false;
    fixture.object(KCM).scale(1, at(0.6));
    fixture.now = at(0.6);
    fixture.show(KCM);
    fixture.run(60.0);
    assert_eq!(fixture.writes, []);

    // The leader's marker is found only by the read of the flow.
    let mut fixture = FenceFixture::gardener();
    fixture.run(0.1);
    fixture.assist(&fence_by(4.0));
    fixture.object(KCM).present.marked = true;
    fixture.object(KCM).touch();
    fixture.run(60.0);
    assert_eq!(fixture.writes, []);

    // The target was started since.
    let mut fixture = FenceFixture::gardener();
    fixture.run(0.1);
    fixture.assist(&fence_by(4.0));
    fixture.object(KCM).scale(2, at(0.2));
    fixture.run(60.0);
    assert_eq!(fixture.writes, []);
}

#[test]
fn standby_never_restores() {
    let mut fixture = FenceFixture::gardener();
    fixture.object(KCM).present.marked = true;
    fixture.object(KCM).scale(0, at(0.0));
    fixture.run(1.0);
    fixture.assist(&release());
    fixture.run(400.0);
    assert_eq!(fixture.writes, []);
}

#[test]
fn release_stops_standby() {
    let mut fixture = FenceFixture::gardener();
    fixture.assist(&fence_by(4.0));
    fixture.run(0.9);
    fixture.assist(&release());
    fixture.run(60.0);
    assert_eq!(fixture.writes, []);
}

#[test]
fn new_leader_continues_fence_of_standby() {
    let mut fixture = FenceFixture::gardener();
    fixture.assist(&fence_by(4.0));
    fixture.run(1.5);
    fixture.apply(&fence_by(4.0));
    fixture.run(20.0);
    assert_eq!(fixture.replicas(), [Some(0); 3]);
    assert_eq!(fixture.fencing.fence(), FenceState::Full);
}
