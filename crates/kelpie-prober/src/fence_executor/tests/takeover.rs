//! What a takeover hurries for, and what is made of replies.

use std::io::Write;

use kelpie_core::prober::{ProbeSettings, ResourceRef};
use kelpie_kube::SystemClock;
use kelpie_kube::client::{ClientOptions, ClusterClient};
use kelpie_kube::events::ObjectRef;
use kelpie_kube::leader::Leadership;
use kelpie_runtime::watch::Sender;
use prometheus_client::registry::Registry;
use tempfile::NamedTempFile;

use super::fixture::fence_decision;
use crate::fence_executor::*;
use crate::metrics::ProberMetrics;
use crate::source::ClusterIdentity;
use crate::state_page::StatePage;

const KUBECONFIG: &str = "{apiVersion: v1, kind: Config, current-context: c, users: [],
    clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}],
    contexts: [{name: c, context: {cluster: c, user: ''}}]}";

/// A seed that does not answer.
async fn nowhere() -> ClusterClient {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(KUBECONFIG.as_bytes()).unwrap();
    let options = ClientOptions {
        kubeconfig: Some(file.path().to_owned()),
        qps: 5.0,
        burst: 10,
        user_agent: "kelpie-test".into(),
    };
    ClusterClient::connect(&options).await.unwrap()
}

/// The executor of a standby with one target, and the sender that makes it lead.
pub(super) async fn standby() -> (FenceExecutor, Sender<Leadership>) {
    let target = Target {
        optional: true,
        ..Target::new(ResourceRef {
            api_version: "apps/v1".into(),
            kind: "Deployment".into(),
            name: "kcm".into(),
        })
    };
    let sender = Sender::new(Leadership::Standby);
    let seed = nowhere().await;
    // Refreshes are not served: the executor knows only what a test tells it.
    let (batch_reader, _) = seed.batch_reader();
    let clock = AnchoredClock::anchored(&SystemClock::default());
    let settings = ProbeSettings::default();
    let leadership = sender.subscribe();
    let access = SeedAccess::new(&seed, batch_reader, leadership, clock, &settings, false);
    let cluster = Arc::new(ClusterIdentity {
        id: "a".into(),
        namespace: "a".into(),
        object: ObjectRef::default(),
    });
    let targets: Arc<[_]> = [target].into();
    let metrics = ProberMetrics::new(&mut Registry::default(), clock).of_cluster(&cluster.id);
    let place = StatePage::default().place(&cluster.id);
    let reporter = ProbeReporter::new(
        Arc::clone(&cluster),
        Arc::clone(&targets),
        place,
        metrics,
        None,
    );
    let executor = FenceExecutor::new(&cluster, clock, targets, access, reporter);
    (executor, sender)
}

impl FenceExecutor {
    /// Replies that the target does not exist.
    fn sees_nothing(&mut self) {
        let now = self.clock.now();
        for step in self.fencing.poll(now).steps {
            self.fencing
                .reply(step, Reply::Read(Observed::Missing), now);
        }
        assert_eq!(self.fencing.fence(), FenceState::None);
    }

    /// Returns whether a round is due at once after it becomes leader.
    async fn takes_over_pressed(mut self, sender: &Sender<Leadership>) -> bool {
        sender.send(Leadership::alone());
        let next_round = Instant::now() + Duration::from_secs(10);
        let event = self.work_until_look_wanted(sleep_until(next_round)).await;
        assert!(self.acts);
        event.is_none()
    }
}

#[tokio::test(start_paused = true)]
async fn takeover_without_fence_starts_no_round() {
    let (mut executor, sender) = standby().await;
    executor.sees_nothing();
    executor.verdict = Some(Verdict::Release);
    assert!(!executor.takes_over_pressed(&sender).await);
}

#[tokio::test(start_paused = true)]
async fn takeover_of_fence_starts_a_round() {
    let (mut executor, sender) = standby().await;
    executor.sees_nothing();
    executor.verdict = Some(Verdict::Fence);
    assert!(executor.takes_over_pressed(&sender).await);

    let (mut executor, sender) = standby().await;
    executor.verdict = Some(Verdict::Release);
    assert_eq!(executor.fencing.fence(), FenceState::Unknown);
    assert!(executor.takes_over_pressed(&sender).await);
}

/// Returns whether a call of a flow is due after this many seconds.
fn has_flow(executor: &mut FenceExecutor, seconds: u64) -> bool {
    let now = executor.clock.now().after(Duration::from_secs(seconds));
    let steps = executor.fencing.poll(now).steps;
    steps.iter().any(|step| !step.can_wait())
}

#[tokio::test(start_paused = true)]
async fn new_leader_acts_on_a_fresh_decision() {
    for (age, acts) in [(0, true), (19, true), (21, false)] {
        let (mut executor, sender) = standby().await;
        let at = executor.clock.now().before(Duration::from_secs(age));
        executor.decision = Some(fence_decision(at));
        executor.verdict = Some(Verdict::Fence);
        sender.send(Leadership::alone());
        executor.update_leadership();
        assert_eq!(has_flow(&mut executor, 0), acts, "{age} s");
        assert!(executor.wants_look());
    }
}

#[tokio::test(start_paused = true)]
async fn standby_assists_except_in_dry_run() {
    for dry_run in [false, true] {
        let (mut executor, _sender) = standby().await;
        executor.access.dry_run = dry_run;
        let decision = fence_decision(executor.clock.now());
        executor.apply(&decision);
        assert!(!has_flow(&mut executor, 0), "the leader goes first");
        assert_eq!(has_flow(&mut executor, 2), !dry_run);
        let stands_by = executor.round_context().stands_by;
        assert_eq!(stands_by, dry_run);
    }
}

#[test]
fn unknown_kind_of_optional_target_is_missing() {
    let unknown = || {
        Err(StepError::Refused(ActuatorError::UnknownKind {
            what: "Rig rig".into(),
            kind: "Rig".into(),
            api_version: "example.org/v1".into(),
        }))
    };
    let missing = Reply::Read(Observed::Missing);
    assert_eq!(
        interpret(unknown(), true),
        (missing.clone(), CallReport::Works)
    );
    let (reply, report) = interpret(unknown(), false);
    assert_eq!(reply, Reply::Rejected);
    assert!(matches!(report, CallReport::Problem(_)));
    let (_, report) = interpret(Ok(missing), false);
    assert!(matches!(report, CallReport::Problem(_)));
}

#[test]
fn conflicts_and_calls_that_were_not_made_are_no_news() {
    assert_eq!(interpret(Ok(Reply::Conflict), false).1, CallReport::None);
    assert_eq!(
        interpret(Err(StepError::Superseded), false).1,
        CallReport::None
    );
    assert_eq!(
        interpret(Err(StepError::NotAllowed), false).1,
        CallReport::None
    );
}
