//! The fencing flow: what is written, in which order, and what survives a cut.

use std::time::Duration;

use kelpie_core::fence::{
    Call, Direction, Fencing, FlowReport, Outcome, Recorded, Reply, Sight, Step,
};
use kelpie_core::{Decision, Fence, Lists, ResourceRef, ScaleRule, Target, Time, Verdict};
use proptest::prelude::*;

use crate::model::landscape::{Object, Targets, gardener_targets};
use crate::stage::{Stage, at, seen, settings};

const RESERVE: Duration = Duration::from_secs(3);

/// A decision with this verdict and deadline; the rest is of no interest to a flow.
fn decision(verdict: Verdict, deadline: Option<Time>) -> Decision {
    let mut stage = Stage::new(settings(), at(0.0));
    let decision = stage.judge.decide(&seen(at(0.0), Lists::NotAsked));
    Decision {
        verdict,
        deadline,
        ..decision
    }
}

fn fence_by(seconds: f64) -> Decision {
    decision(Verdict::Fence, Some(at(seconds)))
}

fn release() -> Decision {
    decision(Verdict::Release, None)
}

fn target(name: &str, change: impl FnOnce(&mut Target)) -> Target {
    let mut target = Target {
        resource: ResourceRef {
            api_version: "apps/v1".into(),
            kind: "Deployment".into(),
            name: name.into(),
        },
        optional: false,
        up: ScaleRule::default(),
        down: ScaleRule::default(),
    };
    change(&mut target);
    target
}

fn one(change: impl FnOnce(&mut Target)) -> Vec<Target> {
    vec![target("kube-controller-manager", change)]
}

/// A fencing with its API server, in virtual time.
struct Rig {
    fencing: Fencing,
    objects: Targets,
    now: Time,
    /// Writes that went through, with the instant.
    writes: Vec<(f64, usize, &'static str)>,
    reports: Vec<FlowReport>,
    beat_order: bool,
}

impl Rig {
    fn new(targets: Vec<Target>, replicas: &[Option<u32>]) -> Self {
        let objects = replicas
            .iter()
            .map(|replicas| replicas.map(Object::with_replicas))
            .collect();
        Self {
            fencing: Fencing::new(targets, RESERVE),
            objects: Targets(objects),
            now: at(0.0),
            writes: Vec::new(),
            reports: Vec::new(),
            beat_order: false,
        }
    }

    fn gardener() -> Self {
        Self::new(gardener_targets(), &[Some(1), Some(1), Some(1)])
    }

    /// Lets everything happen until `end`; `fault` may answer a step instead of the API server.
    fn run_with(
        &mut self,
        end: f64,
        mut fault: impl FnMut(&Step, &mut Targets, Time) -> Option<Reply>,
    ) {
        for _ in 0..100_000 {
            let polled = self.fencing.poll(self.now);
            self.beat_order |= polled.deadline_beat_order;
            let is_idle = polled.steps.is_empty();
            for step in polled.steps {
                let reply = match fault(&step, &mut self.objects, self.now) {
                    Some(reply) => reply,
                    None => self.objects.apply(&step, self.now),
                };
                if let Reply::Written(_) = reply {
                    self.writes
                        .push((seconds(self.now), step.target.0, call_name(&step.call)));
                }
                self.reports
                    .extend(self.fencing.reply(step, reply, self.now));
            }
            if is_idle {
                match self.fencing.next_wake() {
                    Some(wake) if wake <= at(end) => self.now = self.now.max(wake),
                    _ => break,
                }
            }
        }
        self.now = self.now.max(at(end));
    }

    fn run(&mut self, end: f64) {
        self.run_with(end, |_, _, _| None);
    }

    fn object(&mut self, index: usize) -> &mut Object {
        self.objects.0[index].as_mut().unwrap()
    }

    fn replicas(&self) -> Vec<Option<u32>> {
        let replicas =
            |object: &Option<Object>| object.as_ref().map(|object| object.present.replicas);
        self.objects.0.iter().map(replicas).collect()
    }

    fn any_marker(&self) -> bool {
        self.objects
            .0
            .iter()
            .flatten()
            .any(|object| object.present.marked)
    }

    fn when(&self, index: usize, call: &str) -> Option<f64> {
        self.writes
            .iter()
            .find(|(_, target, name)| *target == index && *name == call)
            .map(|w| w.0)
    }

    fn steer(&mut self, decision: &Decision) {
        self.fencing.steer(decision);
    }
}

fn seconds(time: Time) -> f64 {
    time.as_micros() as f64 / 1e6
}

fn call_name(call: &Call) -> &'static str {
    match call {
        Call::Read => "read",
        Call::WriteRecord(_) => "record",
        Call::ScaleDown(_) => "down",
        Call::ScaleUp(_) => "up",
        Call::DropMarker(_) => "unmark",
    }
}

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
    let scaled = Outcome::Scaled {
        replicas: 0,
        unready: false,
        corrupt_record: false,
    };
    assert_eq!(
        rig.reports,
        [FlowReport {
            direction: Direction::Down,
            outcomes: vec![Some(scaled), Some(Outcome::Missing), Some(scaled)],
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
    assert!(!rig.beat_order);
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
    assert!(rig.beat_order);
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
    rig.fencing = Fencing::new(gardener_targets(), Duration::ZERO);
    rig.steer(&decision(Verdict::Fence, None));
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
    assert_eq!(rig.reports[0].outcomes, [Some(Outcome::AlreadyThere)]);
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
        rig.fencing = Fencing::new([one(|_| ()), one(|_| ())].concat(), RESERVE);
        rig.objects.0.push(Some(Object::with_replicas(1)));
        rig.run(0.5);
        rig.steer(&verdict);
        rig.run(30.0);
        assert_eq!(rig.object(0).present.replicas, 1);
        assert!(!rig.object(0).present.marked);
        assert_eq!(rig.reports[0].outcomes[0], Some(Outcome::Ignored));
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
    assert_eq!(rig.reports[0].outcomes[0], Some(Outcome::NotOurs));
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
    assert_eq!(rig.reports[0].outcomes, [Some(Outcome::AlreadyThere)]);
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
        let outcome = Outcome::Scaled {
            replicas: expected,
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
    let outcome = Outcome::Scaled {
        replicas: 0,
        unready: true,
        corrupt_record: false,
    };
    assert_eq!(rig.reports[0].outcomes, [Some(outcome); 3]);
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
        [None, None, Some(Outcome::Failed)],
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
fn endless_conflicts_do_not_become_a_busy_loop() {
    let mut rig = Rig::new(one(|_| ()), &[Some(1)]);
    rig.steer(&fence_by(60.0));
    let mut calls = 0;
    rig.run_with(10.0, |step, _, _| {
        calls += 1;
        (step.call != Call::Read).then_some(Reply::Conflict)
    });
    assert!(calls < 400, "{calls} calls in 10 s");
}

#[test]
fn somebody_who_scales_up_against_a_fence_is_scaled_down_again() {
    let mut rig = Rig::new(one(|_| ()), &[Some(1)]);
    rig.steer(&fence_by(60.0));
    rig.run(10.0);
    rig.object(0).scale(2, at(10.0));
    rig.fencing.survey();
    rig.run(20.0);
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
fn a_look_that_fails_is_repeated_after_a_second() {
    let mut rig = Rig::new(one(|_| ()), &[Some(1)]);
    let mut looks = Vec::new();
    rig.run_with(3.5, |_, _, now| {
        looks.push(seconds(now));
        Some(Reply::Failed)
    });
    assert_eq!(looks, [0.0, 1.0, 2.0, 3.0]);
    assert_eq!(rig.fencing.fence(), Fence::Unknown);
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

// === properties ===

#[derive(Clone, Copy, Debug)]
enum Fault {
    None,
    /// The call never reaches the API server.
    Lost,
    /// It does, but the answer is lost.
    AnswerLost,
    /// Somebody writes to the object in between.
    Touched,
}

fn any_fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        6 => Just(Fault::None),
        1 => Just(Fault::Lost),
        1 => Just(Fault::AnswerLost),
        1 => Just(Fault::Touched),
    ]
}

fn any_targets() -> impl Strategy<Value = Vec<Target>> {
    let rule = (0_u32..3, 0_u64..3).prop_map(|(level, delay)| ScaleRule {
        level,
        initial_delay: Duration::from_secs(delay),
        ..ScaleRule::default()
    });
    let target = (
        rule.clone(),
        rule,
        any::<bool>(),
        prop::option::weighted(0.2, 0_u32..2),
    )
        .prop_map(|(up, down, optional, floor)| {
            target("a", |target| {
                target.up = up;
                target.down = down;
                target.down.replicas = floor;
                target.optional = optional;
            })
        });
    prop::collection::vec(target, 1..5)
}

fn any_replicas() -> impl Strategy<Value = Vec<Option<u32>>> {
    prop::collection::vec(
        prop_oneof![5 => (0_u32..5).prop_map(Some), 1 => Just(None)],
        5,
    )
}

/// Objects exist where the target is not optional, so that every flow can end.
fn possible(targets: &[Target], replicas: &[Option<u32>]) -> Vec<Option<u32>> {
    let fill = |(target, replicas): (&Target, &Option<u32>)| match replicas {
        None if !target.optional => Some(1),
        other => *other,
    };
    targets.iter().zip(replicas).map(fill).collect()
}

fn with_faults(faults: &[Fault]) -> impl FnMut(&Step, &mut Targets, Time) -> Option<Reply> {
    let mut faults = faults.iter();
    move |step, objects, now| match faults.next().copied().unwrap_or(Fault::None) {
        Fault::None => None,
        Fault::Lost => Some(Reply::Failed),
        Fault::AnswerLost => {
            objects.apply(step, now);
            Some(Reply::Failed)
        }
        Fault::Touched => {
            if let Some(object) = &mut objects.0[step.target.0] {
                object.touch();
            }
            None
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn a_flow_cut_at_any_step_and_started_again_from_what_is_there_ends_in_the_same_state(
        targets in any_targets(),
        replicas in any_replicas(),
        cuts in prop::collection::vec(0_usize..12, 0..5),
        faults in prop::collection::vec(any_fault(), 0..60),
    ) {
        let replicas = possible(&targets, &replicas);
        let floor = |target: &Target| target.down.replicas.unwrap_or(0);
        let fenced: Vec<_> = targets.iter().zip(&replicas)
            .map(|(target, replicas)| replicas.map(|count| count.min(floor(target))))
            .collect();
        let mut rig = Rig::new(targets.clone(), &replicas);
        for (verdict, expected) in [(fence_by(500.0), &fenced), (release(), &replicas)] {
            for cut in &cuts {
                // The process dies after so many calls; a new one knows nothing.
                rig.fencing = Fencing::new(targets.clone(), RESERVE);
                rig.steer(&verdict);
                let mut left = *cut;
                let mut faulty = with_faults(&faults);
                rig.run_with(seconds(rig.now) + 20.0, |step, objects, now| {
                    if left == 0 {
                        return Some(Reply::Failed);
                    }
                    left -= 1;
                    faulty(step, objects, now)
                });
            }
            rig.fencing = Fencing::new(targets.clone(), RESERVE);
            rig.run(seconds(rig.now) + 1.0);
            rig.steer(&verdict);
            rig.run_with(seconds(rig.now) + 400.0, with_faults(&faults));
            prop_assert_eq!(&rig.replicas(), expected);
        }
        prop_assert!(!rig.any_marker());
    }

    #[test]
    fn verdicts_that_flip_at_any_time_restore_exactly_and_hold_never_scales(
        targets in any_targets(),
        replicas in any_replicas(),
        verdicts in prop::collection::vec((0_u8..3, 0.0..8.0_f64), 0..12),
        faults in prop::collection::vec(any_fault(), 0..60),
    ) {
        let replicas = possible(&targets, &replicas);
        let mut rig = Rig::new(targets, &replicas);
        let mut faulty = with_faults(&faults);
        for (verdict, length) in verdicts {
            let verdict = match verdict {
                0 => fence_by(seconds(rig.now) + 10.0),
                1 => release(),
                _ => decision(Verdict::Hold, None),
            };
            rig.steer(&verdict);
            let before = rig.writes.len();
            rig.run_with(seconds(rig.now) + length, &mut faulty);
            if verdict.verdict == Verdict::Hold {
                prop_assert_eq!(rig.writes.len(), before, "Hold wrote something");
            }
        }
        rig.steer(&release());
        rig.run(seconds(rig.now) + 400.0);
        prop_assert_eq!(rig.replicas(), replicas);
        prop_assert!(!rig.any_marker());
    }
}
