//! A scripted member and its checks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::FutureExt;
use kelpie_etcd::{
    BootTracker, EtcdError, EtcdMetrics, EtcdOptions, EtcdVersion, Member, MemberCall,
    MemberStatus, ProcessState, ServingStatus, WatchProgress,
};
use kelpie_health::{CheckGroup, Health};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::time::Instant;

/// The current behaviour of a call.
#[derive(Clone, Debug)]
pub(crate) enum Scripted<T> {
    Returns(T),
    Fails(EtcdError),
    /// Hangs until the script changes.
    Hangs,
}

use Scripted::{Fails, Hangs, Returns};

/// The behaviour of each call.
#[derive(Clone, Debug)]
pub(crate) struct MemberScript {
    pub(crate) read: Scripted<()>,
    pub(crate) linearizable_read: Scripted<()>,
    pub(crate) read_index: Scripted<()>,
    pub(crate) status: Scripted<MemberStatus>,
    pub(crate) leader_commit: Scripted<u64>,
    pub(crate) ping: Scripted<ServingStatus>,
    pub(crate) propose: Scripted<()>,
    pub(crate) watch: Scripted<()>,
    pub(crate) members: Scripted<usize>,
    pub(crate) metrics: Scripted<EtcdMetrics>,
    pub(crate) own_metrics_listener: bool,
    pub(crate) answered: bool,
    pub(crate) process: ProcessState,
}

/// A member that follows a script. Clones share it.
#[derive(Clone)]
pub(crate) struct ScriptedMember {
    script: watch::Sender<MemberScript>,
    boot: BootTracker,
    calls: Arc<Mutex<BTreeMap<&'static str, usize>>>,
}

/// The checks of a scripted member.
pub(crate) struct Fixture {
    pub(crate) member: ScriptedMember,
    pub(crate) health: Health,
    registry: Registry,
}

pub(crate) const HEALTHY: MemberStatus = MemberStatus {
    version: Some(EtcdVersion(3, 5)),
    watch_progress: WatchProgress::Always,
    id: 1,
    leader: 1,
    commit: 9,
    applied: 9,
    is_learner: false,
    is_corrupt: false,
    is_out_of_space: false,
};

pub(crate) fn idle_metrics() -> EtcdMetrics {
    EtcdMetrics {
        defrag_inflight: Some(false),
        defrags: Some(0),
        has_leader: Some(true),
        version: Some(EtcdVersion(3, 5)),
        ..EtcdMetrics::default()
    }
}

impl MemberScript {
    fn healthy() -> Self {
        Self {
            read: Returns(()),
            linearizable_read: Returns(()),
            read_index: Returns(()),
            status: Returns(HEALTHY),
            leader_commit: Returns(9),
            ping: Returns(ServingStatus::Serving),
            propose: Returns(()),
            watch: Returns(()),
            members: Returns(3),
            metrics: Returns(idle_metrics()),
            own_metrics_listener: false,
            answered: true,
            process: ProcessState::Unknown,
        }
    }

    /// No call is answered, as by a stopped process or a booting member.
    pub(crate) fn silent(&mut self) {
        self.read = Hangs;
        self.linearizable_read = Hangs;
        self.read_index = Hangs;
        self.status = Hangs;
        self.ping = Hangs;
        self.propose = Hangs;
        self.watch = Hangs;
        self.members = Hangs;
        self.metrics = Hangs;
    }

    /// The store is locked, and the calls that need it hang.
    pub(crate) fn locked(&mut self) {
        self.read = Hangs;
        self.linearizable_read = Hangs;
        self.status = Hangs;
    }

    pub(crate) fn defragmenting(&mut self) {
        self.locked();
        self.metrics = Returns(EtcdMetrics {
            defrag_inflight: Some(true),
            ..idle_metrics()
        });
    }

    pub(crate) fn fail_with(&mut self, error: &EtcdError) {
        self.read = Fails(error.clone());
        self.linearizable_read = Fails(error.clone());
        self.read_index = Fails(error.clone());
        self.status = Fails(error.clone());
        self.ping = Fails(error.clone());
        self.watch = Fails(error.clone());
        self.members = Fails(error.clone());
        self.metrics = Fails(error.clone());
    }
}

impl ScriptedMember {
    fn new() -> Self {
        Self {
            script: watch::Sender::new(MemberScript::healthy()),
            boot: BootTracker::new(Instant::now()),
            calls: Arc::default(),
        }
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut MemberScript)) {
        self.script.send_modify(change);
    }

    pub(crate) fn heal(&self) {
        self.change(|script| *script = MemberScript::healthy());
    }

    /// Returns the number of calls of a kind so far.
    pub(crate) fn calls(&self, kind: &str) -> usize {
        self.counts().get(kind).copied().unwrap_or_default()
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<&'static str, usize>> {
        self.calls.lock().unwrap()
    }

    fn call<T: Clone + Send + Sync + 'static>(
        &self,
        kind: &'static str,
        select: impl Fn(&MemberScript) -> Scripted<T> + Send + Sync + 'static,
    ) -> MemberCall<T> {
        *self.counts().entry(kind).or_default() += 1;
        let mut script = self.script.subscribe();
        async move {
            loop {
                let scripted = select(&script.borrow_and_update());
                match scripted {
                    Returns(answer) => return Ok(answer),
                    Fails(error) => return Err(error),
                    Hangs => script.changed().await.unwrap(),
                }
            }
        }
        .boxed()
    }
}

impl Member for ScriptedMember {
    fn serializable_read(&self) -> MemberCall<()> {
        self.call("read", |script| script.read.clone())
    }

    fn linearizable_read(&self) -> MemberCall<()> {
        self.call("linearizable_read", |script| {
            script.linearizable_read.clone()
        })
    }

    fn read_index(&self) -> MemberCall<()> {
        self.call("read_index", |script| script.read_index.clone())
    }

    fn status(&self) -> MemberCall<MemberStatus> {
        self.call("status", |script| script.status.clone())
    }

    fn leader_commit(&self, _leader: u64) -> MemberCall<u64> {
        self.call("leader_commit", |script| script.leader_commit.clone())
    }

    fn ping(&self) -> MemberCall<ServingStatus> {
        self.call("ping", |script| script.ping.clone())
    }

    fn propose(&self) -> MemberCall<()> {
        self.call("propose", |script| script.propose.clone())
    }

    fn watch_progress(&self) -> MemberCall<()> {
        self.call("watch", |script| script.watch.clone())
    }

    fn member_count(&self) -> MemberCall<usize> {
        self.call("members", |script| script.members.clone())
    }

    fn metrics(&self) -> MemberCall<EtcdMetrics> {
        self.call("metrics", |script| script.metrics.clone())
    }

    fn has_own_metrics_listener(&self) -> bool {
        self.script.borrow().own_metrics_listener
    }

    fn boot(&self) -> BootTracker {
        let mut boot = self.boot;
        if self.script.borrow().answered {
            boot.record_answer();
        }
        boot
    }

    fn process(&self) -> ProcessState {
        self.script.borrow().process
    }
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(configure: impl FnOnce(&mut EtcdOptions)) -> Self {
        let mut options = EtcdOptions::default();
        configure(&mut options);
        let scripted = ScriptedMember::new();
        let member: Arc<dyn Member> = Arc::new(scripted.clone());
        let mut registry = Registry::default();
        let health = kelpie_etcd::member_health(&member, &options, &mut registry)
            .unwrap()
            .checks;
        Self {
            member: scripted,
            health,
            registry,
        }
    }

    /// Returns the result of a probe: `ok`, or `check: reason` of each check that failed.
    pub(crate) async fn probe(&self, group: CheckGroup) -> String {
        let started = Instant::now();
        let report = self.health.probe(group).await;
        let deadline = self.health.settings().deadline(group);
        assert!(started.elapsed() <= deadline, "{:?}", started.elapsed());
        let failed = report.checks.iter().filter_map(|check| {
            let reason = check.result.as_ref().err()?;
            Some(format!("{}: {reason}", check.name))
        });
        match failed.collect::<Vec<_>>().join("; ") {
            failed if failed.is_empty() => "ok".to_owned(),
            failed => failed,
        }
    }

    pub(crate) async fn livez(&self) -> String {
        self.probe(CheckGroup::Livez).await
    }

    pub(crate) async fn readyz(&self) -> String {
        self.probe(CheckGroup::Readyz).await
    }

    /// Returns the result of one readyz check: `ok` or the reason.
    pub(crate) async fn readyz_check(&self, name: &str) -> String {
        let report = self.health.probe(CheckGroup::Readyz).await;
        let named = report
            .checks
            .iter()
            .find(|check| check.name.as_str() == name);
        let result = named.unwrap().result.clone();
        result.map_or_else(|reason| reason.to_string(), |()| "ok".to_owned())
    }

    /// Probes readyz every second, as a kubelet does, and returns the last result.
    pub(crate) async fn readyz_for(&self, seconds: u64) -> String {
        let mut last = String::new();
        let mut next = Instant::now();
        for _ in 0..seconds {
            last = self.readyz().await;
            next += Duration::from_secs(1);
            tokio::time::sleep_until(next).await;
        }
        last
    }

    /// Returns the value of a series without labels.
    pub(crate) fn gauge(&self, name: &str) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).unwrap();
        let line = text.lines().find(|line| line.starts_with(name));
        line.unwrap().rsplit_once(' ').unwrap().1.to_owned()
    }
}
