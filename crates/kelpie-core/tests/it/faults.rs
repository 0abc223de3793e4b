//! The fencing flow under faults: lost calls and replies, restarts, flipped verdicts, late replies.

use std::time::Duration;

use kelpie_core::Time;
use kelpie_core::prober::fence::{Call, Fencing, Reply, Step, TargetId};
use kelpie_core::prober::{FlowRule, Setting, Target, Verdict};
use proptest::prelude::*;

use crate::fence_fixture::{
    FenceFixture, decision, fence_by, in_two_writes, release, seconds, target,
};
use crate::model::control_plane::Targets;

#[derive(Clone, Copy, Debug)]
enum CallFault {
    None,
    /// The call never reaches the API server.
    Lost,
    /// The call reaches the API server, but the reply is lost.
    ReplyLost,
    /// The call is not answered, as if a webhook hangs, and happens or not.
    Unanswered {
        happens: bool,
    },
    /// Another client writes to the object before the call.
    Touched,
    /// The admission webhook goes away before the call, or is back.
    Webhook {
        is_away: bool,
    },
}

fn any_fault() -> impl Strategy<Value = CallFault> {
    prop_oneof![
        6 => Just(CallFault::None),
        1 => Just(CallFault::Lost),
        1 => Just(CallFault::ReplyLost),
        1 => any::<bool>().prop_map(|happens| CallFault::Unanswered { happens }),
        1 => Just(CallFault::Touched),
        1 => any::<bool>().prop_map(|is_away| CallFault::Webhook { is_away }),
    ]
}

fn any_targets() -> impl Strategy<Value = Vec<Target>> {
    let rule = (0_u32..3, 0_u64..3).prop_map(|(level, delay)| FlowRule {
        level,
        initial_delay: Duration::from_secs(delay),
        ..FlowRule::default()
    });
    let target = (
        rule.clone(),
        rule,
        any::<bool>(),
        prop::option::weighted(0.2, 0_u32..2),
        any::<bool>(),
    )
        .prop_map(|(up, down, optional, floor, takes_one_write)| {
            target("a", |target| {
                if !takes_one_write {
                    in_two_writes(target);
                }
                target.up = up;
                target.down = down;
                target.down.setting = floor.map(Setting);
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

/// Adds the objects of targets that are not optional, so that every flow can end.
fn with_required_objects(targets: &[Target], replicas: &[Option<u32>]) -> Vec<Option<u32>> {
    let fill = |(target, replicas): (&Target, &Option<u32>)| match replicas {
        None if !target.optional => Some(1),
        other => *other,
    };
    targets.iter().zip(replicas).map(fill).collect()
}

fn with_faults(faults: &[CallFault]) -> impl FnMut(&Step, &mut Targets, Time) -> Option<Reply> {
    let mut faults = faults.iter();
    let end = CallFault::Webhook { is_away: false };
    move |step, objects, now| match faults.next().copied().unwrap_or(end) {
        CallFault::None => None,
        CallFault::Lost => Some(Reply::Failed),
        CallFault::ReplyLost => {
            objects.apply(step, now);
            Some(Reply::Failed)
        }
        CallFault::Unanswered { happens } => {
            if happens {
                objects.apply(step, now);
            }
            Some(if step.call.writes_record() {
                Reply::Unanswered
            } else {
                Reply::Failed
            })
        }
        CallFault::Touched => {
            if let Some(object) = &mut objects.0[step.target.0] {
                object.touch();
            }
            None
        }
        CallFault::Webhook { is_away } => {
            for object in objects.0.iter_mut().flatten() {
                object.is_webhook_away = is_away;
            }
            None
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn restarted_flow_reaches_same_state(
        targets in any_targets(),
        replicas in any_replicas(),
        kill_points in prop::collection::vec(0_usize..12, 0..5),
        faults in prop::collection::vec(any_fault(), 0..60),
    ) {
        let replicas = with_required_objects(&targets, &replicas);
        let floor = |target: &Target| target.down.setting.map_or(0, |setting| setting.0);
        let fenced: Vec<_> = targets.iter().zip(&replicas)
            .map(|(target, replicas)| replicas.map(|count| count.min(floor(target))))
            .collect();
        let mut fixture = FenceFixture::new(targets.clone(), &replicas);
        for (verdict, expected) in [(fence_by(500.0), &fenced), (release(), &replicas)] {
            for calls_until_kill in &kill_points {
                // The process is killed after so many calls. The next one knows nothing.
                fixture.fencing = Fencing::new(targets.clone().into());
                fixture.apply(&verdict);
                let mut remaining = *calls_until_kill;
                let mut faulty = with_faults(&faults);
                fixture.run_with(seconds(fixture.now) + 20.0, |step, objects, now| {
                    if remaining == 0 {
                        return Some(Reply::Failed);
                    }
                    remaining -= 1;
                    faulty(step, objects, now)
                });
            }
            fixture.fencing = Fencing::new(targets.clone().into());
            fixture.run(seconds(fixture.now) + 1.0);
            fixture.apply(&verdict);
            fixture.run_with(seconds(fixture.now) + 400.0, with_faults(&faults));
            prop_assert_eq!(&fixture.replicas(), expected);
        }
        fixture.touch_kept();
        fixture.run(seconds(fixture.now) + 400.0);
        prop_assert!(!fixture.has_marker());
    }

    #[test]
    fn flipped_verdicts_restore_exactly(
        targets in any_targets(),
        replicas in any_replicas(),
        verdicts in prop::collection::vec((0_u8..3, 0.0..8.0_f64), 0..12),
        faults in prop::collection::vec(any_fault(), 0..60),
    ) {
        let replicas = with_required_objects(&targets, &replicas);
        let mut fixture = FenceFixture::new(targets, &replicas);
        let mut faulty = with_faults(&faults);
        for (verdict, length) in verdicts {
            let verdict = match verdict {
                0 => fence_by(seconds(fixture.now) + 10.0),
                1 => release(),
                _ => decision(Verdict::Hold, None),
            };
            fixture.apply(&verdict);
            let before = fixture.writes.len();
            fixture.run_with(seconds(fixture.now) + length, &mut faulty);
            if verdict.verdict == Verdict::Hold {
                prop_assert_eq!(fixture.writes.len(), before, "Hold wrote something");
            }
        }
        fixture.apply(&release());
        fixture.set_webhook(false);
        fixture.run(seconds(fixture.now) + 400.0);
        fixture.touch_kept();
        fixture.run(seconds(fixture.now) + 400.0);
        prop_assert_eq!(fixture.replicas(), replicas);
        prop_assert!(!fixture.has_marker());
    }
}

/// Calls in flight. Each is carried out when it is sent or when its reply is received, and the
/// replies arrive in any order.
struct CallQueue {
    rng: fastrand::Rng,
    in_flight: Vec<(Step, Option<Reply>)>,
}

impl CallQueue {
    fn send(&mut self, step: Step, objects: &mut Targets, now: Time) {
        let reply = self.rng.bool().then(|| objects.apply(&step, now));
        self.in_flight.push((step, reply));
    }

    /// Returns a reply. If `faulty`, the reply or the call may be lost.
    fn receive(&mut self, objects: &mut Targets, now: Time, faulty: bool) -> Option<(Step, Reply)> {
        let index = self.rng.usize(0..self.in_flight.len().max(1));
        let (step, reply) =
            (index < self.in_flight.len()).then(|| self.in_flight.swap_remove(index))?;
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
    fn late_and_lost_replies_restore_exactly(
        targets in any_targets(),
        replicas in any_replicas(),
        rng_seed in any::<u64>(),
        rounds in 20_usize..200,
        watched in any::<bool>(),
    ) {
        let replicas = with_required_objects(&targets, &replicas);
        let mut fixture = FenceFixture::new(targets, &replicas);
        let rng = fastrand::Rng::with_seed(rng_seed);
        let mut calls = CallQueue { rng, in_flight: Vec::new() };
        let mut verdict = Verdict::Hold;
        let mut idle_polls = 0;
        for round in 0..rounds + 3_000 {
            let is_calm = round >= rounds;
            let next = match calls.rng.u8(0..24) {
                _ if round == rounds => Some(release()),
                0 if !is_calm => Some(fence_by(seconds(fixture.now) + calls.rng.f64() * 10.0)),
                1 if !is_calm => Some(release()),
                2 if !is_calm => Some(decision(Verdict::Hold, None)),
                _ => None,
            };
            if let Some(next) = next {
                verdict = next.verdict;
                fixture.apply(&next);
            }
            if !is_calm && calls.rng.u8(0..30) == 0 {
                fixture.fencing.refresh();
            }
            if is_calm || calls.rng.u8(0..30) == 0 {
                let is_away = !is_calm && calls.rng.bool();
                fixture.set_webhook(is_away);
            }
            if round == rounds + 2_000 {
                fixture.touch_kept();
            }
            if is_calm || calls.rng.u8(0..3) == 0 {
                fixture.show_lease();
            }
            if watched && calls.rng.u8(0..4) == 0 {
                let index = calls.rng.usize(0..fixture.objects.0.len());
                fixture.show(index);
            }
            if watched && calls.rng.u8(0..40) == 0 {
                let target = TargetId(calls.rng.usize(0..fixture.objects.0.len()));
                fixture.fencing.set_watched(target, false, fixture.now);
            }
            fixture.look_if_wanted();
            let steps = fixture.fencing.poll(fixture.now).steps;
            let is_idle = steps.is_empty();
            for step in steps {
                match step.call {
                    Call::Read => {}
                    Call::Restore(_) => prop_assert_eq!(verdict, Verdict::Release),
                    Call::WriteRecord(_)
                    | Call::Fence(_)
                    | Call::KeepRecord(_)
                    | Call::MoveRecord(_) => {
                        prop_assert_eq!(verdict, Verdict::Fence);
                    }
                    Call::DropMarker(_) | Call::DropRecord(_) => {
                        prop_assert_ne!(verdict, Verdict::Hold);
                    }
                }
                calls.send(step, &mut fixture.objects, fixture.now);
            }
            let is_reply_due = is_calm || calls.rng.u8(0..3) > 0;
            if is_reply_due
                && let Some((step, reply)) =
                    calls.receive(&mut fixture.objects, fixture.now, !is_calm)
            {
                fixture.fencing.reply(step, reply, fixture.now);
                idle_polls = 0;
                continue;
            }
            if is_idle {
                let wake = fixture.fencing.next_wake(fixture.now);
                let soon = fixture.now.after(Duration::from_millis(calls.rng.u64(1..300)));
                match wake {
                    Some(wake) if wake <= fixture.now => idle_polls += 1,
                    Some(wake) if calls.in_flight.is_empty() => fixture.now = wake,
                    Some(wake) => fixture.now = soon.min(wake),
                    None => {
                        prop_assert!(!calls.in_flight.is_empty(), "nothing left to wait for");
                        fixture.now = soon;
                    }
                }
                prop_assert!(idle_polls < 10, "asks to be polled without having a step");
            }
        }
        prop_assert_eq!(fixture.replicas(), replicas);
        prop_assert!(!fixture.has_marker());
    }
}
