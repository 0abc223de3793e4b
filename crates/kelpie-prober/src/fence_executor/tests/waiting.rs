//! Writes that wait in the queue while the situation changes.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use kelpie_core::prober::fence::{ResourceVersion, TargetObject};
use kelpie_core::prober::{Evaluator, ProbeSettings, ResourceRef, Setting};
use kelpie_kube::SystemClock;
use kelpie_kube::client::ClusterClient;
use kelpie_kube::leader::Leadership;
use kelpie_net::Network;
use kelpie_runtime::watch::Sender;

use super::takeover;
use crate::deadline_queue::{DeadlineQueue, Priority};
use crate::fence_executor::*;
use crate::observer::tests::nothing_seen;

const LEADS: Duration = Duration::from_secs(10);

/// A seed that refuses and counts every connection, behind a queue with one place.
struct Scene {
    access: SeedAccess,
    leadership: Sender<Leadership>,
    calls: Arc<AtomicUsize>,
    cancel: CancellationToken,
}

impl Scene {
    fn new() -> Self {
        let calls = Arc::<AtomicUsize>::default();
        let counter = Arc::clone(&calls);
        let network = Network::in_process(move |_, _| {
            counter.fetch_add(1, Ordering::Relaxed);
            Box::pin(async { Err(io::ErrorKind::ConnectionRefused.into()) })
        });
        let wall = SystemClock::new(|| Time::from_micros(0));
        let seed = ClusterClient::in_process(&network, wall, "http://seed.inside:443", "t");
        let until = Instant::now() + LEADS;
        let leadership = Sender::new(Leadership::Leader { until });
        let seed = seed.unwrap();
        let (batch_reader, _) = seed.batch_reader();
        let clock = AnchoredClock::anchored(&SystemClock::default());
        let (settings, receiver) = (ProbeSettings::default(), leadership.subscribe());
        let mut access = SeedAccess::new(&seed, batch_reader, receiver, clock, &settings, false);
        access.queue = DeadlineQueue::new(1);
        Self {
            access,
            leadership,
            calls,
            cancel: CancellationToken::new(),
        }
    }

    async fn perform(&self, step: &Step) -> Result<Reply, StepError> {
        self.perform_as(step, WriteRight::Leader).await
    }

    async fn perform_as(&self, step: &Step, right: WriteRight) -> Result<Reply, StepError> {
        let context = CallContext {
            deadline: Time::MAX,
            right,
            direction: Direction::Down,
            cancel: self.cancel.clone(),
        };
        let (cluster, target) = ("shoot".into(), target());
        self.access.perform(&cluster, &target, step, &context).await
    }

    /// Performs the step behind another call in the queue, which leaves once `meanwhile` is over.
    async fn perform_after(
        &self,
        step: &Step,
        meanwhile: impl Future<Output = ()>,
    ) -> Result<Reply, StepError> {
        let first = self.access.queue.enter(Priority::Deadline(Time::MIN)).await;
        let gone = async {
            meanwhile.await;
            drop(first);
        };
        tokio::join!(self.perform(step), gone).0
    }

    /// Returns whether a call that was not performed has left the queue.
    async fn has_free_place(&self) -> bool {
        let turn = timeout(
            Duration::ZERO,
            self.access.queue.enter(Priority::Deadline(Time::MAX)),
        );
        turn.await.is_ok()
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }
}

pub(super) fn target() -> Target {
    Target {
        is_deadline_target: true,
        ..Target::new(ResourceRef {
            api_version: "apps/v1".into(),
            kind: "Deployment".into(),
            name: "kube-controller-manager".into(),
        })
    }
}

/// Returns a decision to fence.
pub(super) fn fence_decision(now: Time) -> Decision {
    let decision = Evaluator::new(ProbeSettings::default(), now).decide(&nothing_seen(now));
    Decision {
        verdict: Verdict::Fence,
        ..decision
    }
}

/// The first read and the first write of a fence.
pub(super) fn read_and_write() -> (Step, Step) {
    let now = Time::from_micros(0);
    let fence = fence_decision(now);
    let begin = || {
        let mut fencing = Fencing::new([target()].into());
        fencing.apply(&fence);
        fencing
    };
    let next = |fencing: &mut Fencing| {
        let mut steps = fencing.poll(now).steps.into_iter();
        steps.find(|step| !step.can_wait()).unwrap()
    };
    let mut fencing = begin();
    let found = TargetObject::running(Setting(3), ResourceVersion::new("7"));
    let read = next(&mut fencing);
    fencing.reply(read, Reply::Read(Observed::Present(found)), now);
    let write = next(&mut fencing);
    assert!(write.call.is_write());
    (next(&mut begin()), write)
}

#[tokio::test(start_paused = true)]
async fn leader_calls_in_turn() {
    let scene = Scene::new();
    let (read, write) = read_and_write();
    for step in [read, write] {
        let done = scene.perform_after(&step, async {}).await;
        assert!(matches!(done, Err(StepError::Refused(_))), "by the seed");
    }
    assert_eq!(scene.calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn flipped_verdict_drops_waiting_write() {
    let scene = Scene::new();
    let (_, write) = read_and_write();
    let flips = async { scene.cancel.cancel() };
    let done = scene.perform_after(&write, flips).await;
    assert!(matches!(done, Err(StepError::Superseded)));
    // A write that enters the queue later is dropped as well.
    let done = scene.perform(&write).await;
    assert!(matches!(done, Err(StepError::Superseded)));
    assert_eq!(scene.calls(), 0);
    assert!(scene.has_free_place().await);
}

/// The channel does not wake the executor: the task of the election may be slower.
#[tokio::test(start_paused = true)]
async fn expired_leadership_drops_waiting_write() {
    let scene = Scene::new();
    let (read, write) = read_and_write();
    let done = scene.perform_after(&write, tokio::time::sleep(LEADS));
    assert!(matches!(done.await, Err(StepError::NotAllowed)));
    assert_eq!(scene.calls(), 0);
    assert!(scene.has_free_place().await);
    // Looking is allowed.
    assert!(matches!(
        scene.perform(&read).await,
        Err(StepError::Refused(_))
    ));
    assert_eq!(scene.calls(), 1);

    scene.leadership.send(Leadership::Standby);
    assert!(matches!(
        scene.perform(&write).await,
        Err(StepError::NotAllowed)
    ));
    assert_eq!(scene.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn calls_of_a_fence_crowd_the_looks() {
    for (verdict, is_crowded) in [(Verdict::Fence, true), (Verdict::Release, false)] {
        let (mut executor, _sender) = takeover::standby().await;
        executor.verdict = Some(verdict);
        assert!(!executor.is_crowded());
        executor.under_way.push(Box::pin(async {
            let (step, _) = read_and_write();
            let result = Err(StepError::Superseded);
            CompletedStep { step, result }
        }));
        assert_eq!(executor.is_crowded(), is_crowded);
    }
}
