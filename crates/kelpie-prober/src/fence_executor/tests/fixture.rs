//! A seed in this process, and the calls of a fence.

use std::sync::atomic::{AtomicUsize, Ordering};

use kelpie_core::prober::fence::{ResourceVersion, TargetObject};
use kelpie_core::prober::{Evaluator, ProbeSettings, ResourceRef, Setting};
use kelpie_kube::SystemClock;
use kelpie_kube::actuator::TargetScope;
use kelpie_kube::client::ClusterClient;
use kelpie_kube::leader::Leadership;
use kelpie_net::{DialFuture, Network};
use kelpie_runtime::watch::Sender;

use crate::deadline_queue::DeadlineQueue;
use crate::fence_executor::*;
use crate::observer::tests::nothing_seen;

/// The time for which a new [`SeedFixture`] leads.
pub(super) const LEADS: Duration = Duration::from_secs(10);

/// A seed that counts its connections, behind a queue with one place.
pub(super) struct SeedFixture {
    pub(super) access: SeedAccess,
    pub(super) leadership: Sender<Leadership>,
    connections: Arc<AtomicUsize>,
    pub(super) cancel: CancellationToken,
}

impl SeedFixture {
    /// Creates a seed that `dial` connects to.
    pub(super) fn new(dial: impl Fn() -> DialFuture + Send + Sync + 'static) -> Self {
        let connections = Arc::<AtomicUsize>::default();
        let counter = Arc::clone(&connections);
        let network = Network::in_process(move |_, _| {
            counter.fetch_add(1, Ordering::Relaxed);
            dial()
        });
        let wall = SystemClock::new(|| Time::from_micros(0));
        let seed = ClusterClient::in_process(&network, wall, "http://seed.inside:443", "t");
        let seed = seed.unwrap();
        let until = Instant::now() + LEADS;
        let leadership = Sender::new(Leadership::Leader { until });
        let (batch_reader, _) = seed.batch_reader();
        let clock = AnchoredClock::anchored(&SystemClock::default());
        let (settings, receiver) = (ProbeSettings::default(), leadership.subscribe());
        let mut access = SeedAccess::new(&seed, batch_reader, receiver, clock, &settings, false);
        access.queue = DeadlineQueue::new(1);
        Self {
            access,
            leadership,
            connections,
            cancel: CancellationToken::new(),
        }
    }

    pub(super) async fn perform(&self, step: &Step, right: WriteRight) -> Result<Reply, StepError> {
        let context = CallContext {
            deadline: Time::MAX,
            right,
            cancel: self.cancel.clone(),
            can_leave: true,
        };
        let (scope, target) = (TargetScope::of_namespace("shoot"), target());
        self.access.perform(&scope, &target, step, &context).await
    }

    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

fn target() -> Target {
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
