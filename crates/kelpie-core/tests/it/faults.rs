//! The fencing flow under faults: lost calls and answers, cuts, flips, late answers.

use std::time::Duration;

use kelpie_core::fence::{Call, Fencing, Reply, Step};
use kelpie_core::{ScaleRule, Target, Time, Verdict};
use proptest::prelude::*;

use crate::model::landscape::Targets;
use crate::rig::{Rig, decision, fence_by, release, seconds, target};

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
                rig.fencing = Fencing::new(targets.clone().into());
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
            rig.fencing = Fencing::new(targets.clone().into());
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

/// Calls that are carried out now or later, and answered later still, in any order.
struct Wire {
    rng: fastrand::Rng,
    under_way: Vec<(Step, Option<Reply>)>,
}

impl Wire {
    fn send(&mut self, step: Step, objects: &mut Targets, now: Time) {
        let reply = self.rng.bool().then(|| objects.apply(&step, now));
        self.under_way.push((step, reply));
    }

    /// The next answer; it may be lost, and so may the call.
    fn receive(&mut self, objects: &mut Targets, now: Time, faulty: bool) -> Option<(Step, Reply)> {
        let index = self.rng.usize(0..self.under_way.len().max(1));
        let (step, reply) =
            (index < self.under_way.len()).then(|| self.under_way.swap_remove(index))?;
        let is_lost = faulty && self.rng.u8(0..8) == 0;
        let reply = match reply {
            _ if is_lost => Reply::Failed,
            Some(reply) => reply,
            None => objects.apply(&step, now),
        };
        Some((step, reply))
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn answers_that_come_late_lost_or_out_of_order_change_nothing(
        targets in any_targets(),
        replicas in any_replicas(),
        seed in any::<u64>(),
        rounds in 20_usize..200,
    ) {
        let replicas = possible(&targets, &replicas);
        let mut rig = Rig::new(targets, &replicas);
        let mut wire = Wire { rng: fastrand::Rng::with_seed(seed), under_way: Vec::new() };
        let mut verdict = Verdict::Hold;
        let mut idle = 0;
        for round in 0..rounds + 3_000 {
            let is_calm = round >= rounds;
            let next = match wire.rng.u8(0..24) {
                _ if round == rounds => Some(release()),
                0 if !is_calm => Some(fence_by(seconds(rig.now) + wire.rng.f64() * 10.0)),
                1 if !is_calm => Some(release()),
                2 if !is_calm => Some(decision(Verdict::Hold, None)),
                _ => None,
            };
            if let Some(next) = next {
                verdict = next.verdict;
                rig.steer(&next);
            }
            if !is_calm && wire.rng.u8(0..30) == 0 {
                rig.fencing.survey();
            }
            let steps = rig.fencing.poll(rig.now).steps;
            let is_idle = steps.is_empty();
            for step in steps {
                match step.call {
                    Call::Read => {}
                    Call::ScaleUp(_) => prop_assert_eq!(verdict, Verdict::Release),
                    Call::WriteRecord(_) | Call::ScaleDown(_) => prop_assert_eq!(verdict, Verdict::Fence),
                    Call::DropMarker(_) => prop_assert_ne!(verdict, Verdict::Hold),
                }
                wire.send(step, &mut rig.objects, rig.now);
            }
            let answers = is_calm || wire.rng.u8(0..3) > 0;
            if answers
                && let Some((step, reply)) = wire.receive(&mut rig.objects, rig.now, !is_calm)
            {
                rig.fencing.reply(step, reply, rig.now);
                idle = 0;
                continue;
            }
            if is_idle {
                let wake = rig.fencing.next_wake(rig.now);
                let soon = rig.now.after(Duration::from_millis(wire.rng.u64(1..300)));
                match wake {
                    Some(wake) if wake <= rig.now => idle += 1,
                    Some(wake) if wire.under_way.is_empty() => rig.now = wake,
                    Some(wake) => rig.now = soon.min(wake),
                    None => {
                        prop_assert!(!wire.under_way.is_empty(), "nothing will ever happen again");
                        rig.now = soon;
                    }
                }
                prop_assert!(idle < 10, "it asks to be polled and does nothing");
            }
        }
        prop_assert_eq!(rig.replicas(), replicas);
        prop_assert!(!rig.any_marker());
    }
}
