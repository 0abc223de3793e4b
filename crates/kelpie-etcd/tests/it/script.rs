//! A member that does as it is told.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::FutureExt;
use kelpie_etcd::{
    Boot, Call, Fault, Member, Options, ProcessState, Sample, Serving, Status, Version,
};
use kelpie_health::{Group, Health};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::time::Instant;

/// How a call goes at the moment.
#[derive(Clone, Debug)]
pub(crate) enum Going<T> {
    Says(T),
    Fails(Fault),
    /// Until the script changes.
    Hangs,
}

use Going::{Fails, Hangs, Says};

/// What the member does with each call.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) read: Going<()>,
    pub(crate) linearizable_read: Going<()>,
    pub(crate) read_index: Going<()>,
    pub(crate) status: Going<Status>,
    pub(crate) leader_commit: Going<u64>,
    pub(crate) ping: Going<Serving>,
    pub(crate) propose: Going<()>,
    pub(crate) metrics: Going<Sample>,
    pub(crate) own_metrics_listener: bool,
    pub(crate) answered: bool,
    pub(crate) process: ProcessState,
}

/// Clones are the same member.
#[derive(Clone)]
pub(crate) struct Script {
    state: watch::Sender<State>,
    boot: Boot,
    calls: Arc<Mutex<BTreeMap<&'static str, usize>>>,
}

/// The checks of a scripted member.
pub(crate) struct Stage {
    pub(crate) member: Script,
    pub(crate) health: Health,
    registry: Registry,
}

pub(crate) const HEALTHY: Status = Status {
    version: Some(Version(3, 5)),
    id: 1,
    leader: 1,
    commit: 9,
    applied: 9,
    is_learner: false,
    is_corrupt: false,
};

pub(crate) fn page() -> Sample {
    Sample {
        defrag_inflight: Some(false),
        defrags: Some(0),
        has_leader: Some(true),
        snapshots: 0,
        version: Some(Version(3, 5)),
    }
}

impl State {
    fn healthy() -> Self {
        Self {
            read: Says(()),
            linearizable_read: Says(()),
            read_index: Says(()),
            status: Says(HEALTHY),
            leader_commit: Says(9),
            ping: Says(Serving::Serving),
            propose: Says(()),
            metrics: Says(page()),
            own_metrics_listener: false,
            answered: true,
            process: ProcessState::Unknown,
        }
    }

    /// Nothing comes back, as from a stopped process or a booting member.
    pub(crate) fn silent(&mut self) {
        self.read = Hangs;
        self.linearizable_read = Hangs;
        self.read_index = Hangs;
        self.status = Hangs;
        self.ping = Hangs;
        self.metrics = Hangs;
    }

    /// The store is locked; what needs it hangs.
    pub(crate) fn locked(&mut self) {
        self.read = Hangs;
        self.linearizable_read = Hangs;
        self.status = Hangs;
    }

    pub(crate) fn defragmenting(&mut self) {
        self.locked();
        self.metrics = Says(Sample {
            defrag_inflight: Some(true),
            ..page()
        });
    }

    pub(crate) fn fails(&mut self, fault: &Fault) {
        self.read = Fails(fault.clone());
        self.linearizable_read = Fails(fault.clone());
        self.read_index = Fails(fault.clone());
        self.status = Fails(fault.clone());
        self.ping = Fails(fault.clone());
        self.metrics = Fails(fault.clone());
    }
}

impl Script {
    fn new() -> Self {
        Self {
            state: watch::Sender::new(State::healthy()),
            boot: Boot::new(Instant::now()),
            calls: Arc::default(),
        }
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut State)) {
        self.state.send_modify(change);
    }

    pub(crate) fn heal(&self) {
        self.change(|state| *state = State::healthy());
    }

    /// Calls of a kind so far.
    pub(crate) fn calls(&self, kind: &str) -> usize {
        self.counts().get(kind).copied().unwrap_or_default()
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<&'static str, usize>> {
        self.calls.lock().unwrap()
    }

    fn go<T: Clone + Send + Sync + 'static>(
        &self,
        kind: &'static str,
        of: impl Fn(&State) -> Going<T> + Send + Sync + 'static,
    ) -> Call<T> {
        *self.counts().entry(kind).or_default() += 1;
        let mut state = self.state.subscribe();
        async move {
            loop {
                let going = of(&state.borrow_and_update());
                match going {
                    Says(answer) => return Ok(answer),
                    Fails(fault) => return Err(fault),
                    Hangs => state.changed().await.unwrap(),
                }
            }
        }
        .boxed()
    }
}

impl Member for Script {
    fn serializable_read(&self) -> Call<()> {
        self.go("read", |state| state.read.clone())
    }

    fn linearizable_read(&self) -> Call<()> {
        self.go("linearizable_read", |state| state.linearizable_read.clone())
    }

    fn read_index(&self) -> Call<()> {
        self.go("read_index", |state| state.read_index.clone())
    }

    fn status(&self) -> Call<Status> {
        self.go("status", |state| state.status.clone())
    }

    fn leader_commit(&self, _leader: u64) -> Call<u64> {
        self.go("leader_commit", |state| state.leader_commit.clone())
    }

    fn ping(&self) -> Call<Serving> {
        self.go("ping", |state| state.ping.clone())
    }

    fn propose(&self) -> Call<()> {
        self.go("propose", |state| state.propose.clone())
    }

    fn metrics(&self) -> Call<Sample> {
        self.go("metrics", |state| state.metrics.clone())
    }

    fn has_own_metrics_listener(&self) -> bool {
        self.state.borrow().own_metrics_listener
    }

    fn boot(&self) -> Boot {
        let mut boot = self.boot;
        if self.state.borrow().answered {
            boot.answered();
        }
        boot
    }

    fn process(&self) -> ProcessState {
        self.state.borrow().process
    }
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(choose: impl FnOnce(&mut Options)) -> Self {
        let mut options = Options::default();
        choose(&mut options);
        let script = Script::new();
        let member: Arc<dyn Member> = Arc::new(script.clone());
        let mut registry = Registry::default();
        let health = kelpie_etcd::checks(&member, &options, &mut registry).unwrap();
        Self {
            member: script,
            health,
            registry,
        }
    }

    /// What a probe says: `ok`, or `check: reason` of each that failed.
    pub(crate) async fn probe(&self, group: Group) -> String {
        let began = Instant::now();
        let report = self.health.probe(group).await;
        let deadline = self.health.settings().deadline(group);
        assert!(began.elapsed() <= deadline, "{:?}", began.elapsed());
        let failed = report.findings.iter().filter_map(|found| {
            let reason = found.verdict.as_ref().err()?;
            Some(format!("{}: {reason}", found.name))
        });
        match failed.collect::<Vec<_>>().join("; ") {
            failed if failed.is_empty() => "ok".to_owned(),
            failed => failed,
        }
    }

    pub(crate) async fn livez(&self) -> String {
        self.probe(Group::Livez).await
    }

    pub(crate) async fn readyz(&self) -> String {
        self.probe(Group::Readyz).await
    }

    /// One check of readyz.
    pub(crate) async fn ready(&self, check: &str) -> String {
        let report = self.health.probe(Group::Readyz).await;
        let named = report
            .findings
            .iter()
            .find(|found| found.name.as_str() == check);
        let verdict = named.unwrap().verdict.clone();
        verdict.map_or_else(|reason| reason.to_string(), |()| "ok".to_owned())
    }

    /// Probes readyz every second, as a kubelet does, and returns the last answer.
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

    /// The value of a series without labels.
    pub(crate) fn gauge(&self, name: &str) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).unwrap();
        let line = text.lines().find(|line| line.starts_with(name));
        line.unwrap().rsplit_once(' ').unwrap().1.to_owned()
    }
}
