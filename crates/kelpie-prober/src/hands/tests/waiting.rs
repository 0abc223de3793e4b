//! Writes that wait at the gate while the world changes.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use kelpie_bell::Bell;
use kelpie_core::fence::{Present, Version};
use kelpie_core::{Judge, Lists, Observation, Outcome, ResourceRef, ScaleRule, Settings};
use kelpie_kube::WallClock;
use kelpie_net::Network;

use super::takeover;
use crate::hands::*;

const LEADS: Duration = Duration::from_secs(10);

/// A seed that refuses every connection and counts them, behind a gate with one place.
struct Scene {
    reach: Reach,
    leadership: Bell<Leadership>,
    calls: Arc<AtomicUsize>,
    course: CancellationToken,
}

impl Scene {
    fn new() -> Self {
        let calls = Arc::<AtomicUsize>::default();
        let counter = Arc::clone(&calls);
        let network = Network::inside(move |_, _| {
            counter.fetch_add(1, Ordering::Relaxed);
            Box::pin(async { Err(io::ErrorKind::ConnectionRefused.into()) })
        });
        let wall = WallClock::new(|| Time::from_micros(0));
        let seed = Seed::inside(&network, wall, "http://seed.inside:443", "t");
        let until = Instant::now() + LEADS;
        let leadership = Bell::new(Leadership::Leader { until });
        let seed = seed.unwrap();
        let (survey, _) = seed.survey();
        let mut reach = Reach::new(&seed, survey, leadership.listen(), false);
        reach.gate = Gate::new(1);
        Self {
            reach,
            leadership,
            calls,
            course: CancellationToken::new(),
        }
    }

    async fn perform(&self, step: &Step) -> Result<Reply, Hitch> {
        let target = target().resource;
        let reach = &self.reach;
        reach
            .perform(&"shoot".into(), &target, step, Time::MAX, &self.course)
            .await
    }

    /// Performs the step behind somebody who is at the gate, who goes once `meanwhile` is over.
    async fn perform_after(
        &self,
        step: &Step,
        meanwhile: impl Future<Output = ()>,
    ) -> Result<Reply, Hitch> {
        let first = self.reach.gate.enter(Urgency::Deadline(Time::MIN)).await;
        let gone = async {
            meanwhile.await;
            drop(first);
        };
        tokio::join!(self.perform(step), gone).0
    }

    /// What was not performed has left the gate.
    async fn has_free_gate(&self) -> bool {
        let turn = timeout(
            Duration::ZERO,
            self.reach.gate.enter(Urgency::Deadline(Time::MAX)),
        );
        turn.await.is_ok()
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }
}

fn target() -> Target {
    Target {
        resource: ResourceRef {
            api_version: "apps/v1".into(),
            kind: "Deployment".into(),
            name: "kube-controller-manager".into(),
        },
        optional: false,
        up: ScaleRule::default(),
        down: ScaleRule::default(),
    }
}

/// The first read and the first write of a fence.
fn read_and_write() -> (Step, Step) {
    let now = Time::from_micros(0);
    let nothing = Observation {
        start: now,
        end: now,
        api_server: Outcome::Success,
        external: None,
        lists: Lists::NotAsked,
        throttled: None,
        fence: Fence::None,
        stands_by: false,
        released: None,
        jitter: 0.0,
    };
    let decision = Judge::new(Settings::default(), now).decide(&nothing);
    let fence = Decision {
        verdict: Verdict::Fence,
        ..decision
    };
    let begin = || {
        let mut fencing = Fencing::new([target()].into());
        fencing.steer(&fence);
        fencing
    };
    let next = |fencing: &mut Fencing| {
        let mut steps = fencing.poll(now).steps.into_iter();
        steps.find(|step| !step.can_wait()).unwrap()
    };
    let mut fencing = begin();
    let found = Present::new(3, 3, Version::new("7"), |_| None);
    let read = next(&mut fencing);
    fencing.reply(read, Reply::Seen(Sight::Present(found)), now);
    let write = next(&mut fencing);
    assert!(write.call.is_write());
    (next(&mut begin()), write)
}

#[tokio::test(start_paused = true)]
async fn a_leader_calls_when_its_turn_comes() {
    let scene = Scene::new();
    let (read, write) = read_and_write();
    for step in [read, write] {
        let done = scene.perform_after(&step, async {}).await;
        assert!(matches!(done, Err(Hitch::Refused(_))), "by the seed");
    }
    assert_eq!(scene.calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_verdict_flips_while_it_waits_is_never_made() {
    let scene = Scene::new();
    let (_, write) = read_and_write();
    let flips = async { scene.course.cancel() };
    let done = scene.perform_after(&write, flips).await;
    assert!(matches!(done, Err(Hitch::Superseded)));
    // Nor one that comes to the gate later.
    let done = scene.perform(&write).await;
    assert!(matches!(done, Err(Hitch::Superseded)));
    assert_eq!(scene.calls(), 0);
    assert!(scene.has_free_gate().await);
}

/// Nobody has told us: the election's own task may be slower than we are.
#[tokio::test(start_paused = true)]
async fn a_write_whose_leadership_runs_out_while_it_waits_is_never_made() {
    let scene = Scene::new();
    let (read, write) = read_and_write();
    let done = scene.perform_after(&write, tokio::time::sleep(LEADS));
    assert!(matches!(done.await, Err(Hitch::NotLeading)));
    assert_eq!(scene.calls(), 0);
    assert!(scene.has_free_gate().await);
    // Looking is allowed.
    assert!(matches!(scene.perform(&read).await, Err(Hitch::Refused(_))));
    assert_eq!(scene.calls(), 1);

    scene.leadership.ring(Leadership::Standby);
    assert!(matches!(
        scene.perform(&write).await,
        Err(Hitch::NotLeading)
    ));
    assert_eq!(scene.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_round_is_put_off_while_calls_of_the_flow_wait_for_their_answers_but_not_for_long() {
    let second = Duration::from_secs(1);
    for (calls_take, round_after, is_put_off) in [
        (None, second, false),
        (Some(second / 2), second, false),
        (Some(second * 3 / 2), second * 3 / 2, true),
        (Some(second * 9), second + CROWDED, true),
    ] {
        let (mut hands, _bell) = takeover::standby().await;
        hands.verdict = Some(Verdict::Fence);
        let start = Instant::now();
        if let Some(calls_take) = calls_take {
            hands.under_way.push(Box::pin(async move {
                sleep_until(start + calls_take).await;
                let (step, _) = read_and_write();
                let result = Err(Hitch::Superseded);
                Done { step, result }
            }));
        }
        assert_eq!(hands.work_until(start + second).await, is_put_off);
        assert_eq!(start.elapsed(), round_after);
    }
}
