//! One replica of a component: its part in the election, its Events and its state.

use k8s_openapi::api::coordination::v1::Lease;
use kelpie_core::{PAUSE_ANNOTATION, PAUSE_REASON_ANNOTATION, PauseSwitch, Time};
use kelpie_runtime::watch::{Receiver, Sender};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::AnchoredClock;
use crate::client::{ClientMetrics, ClusterClient};
use crate::events::EventRecorder;
use crate::leader::{CallLatency, Election, ElectionHandle, Leadership, LeaseName, ReplicaRole};
use crate::lease_records::LeaseRecords;

/// A replica of a component that does not run yet.
pub struct Replica {
    election: Election,
    /// `None` in a dry run.
    events: Option<EventRecorder>,
    /// The name of the Lease, and 1 while this replica is the leader; `None` without an election.
    master_status: Option<(String, Gauge)>,
    status: ReplicaStatus,
}

/// Reads the state of a replica. Clones read the same state.
#[derive(Clone)]
pub struct ReplicaStatus {
    clock: AnchoredClock,
    dry_run: bool,
    leadership: Receiver<Leadership>,
    lease: watch::Receiver<Lease>,
}

/// Reads the pause switch of a replica. Clones read the same Lease.
#[derive(Clone, Debug)]
pub struct PauseReader {
    lease: watch::Receiver<Lease>,
    clock: AnchoredClock,
}

impl PauseReader {
    /// Returns the position of the switch now, as the election last read it. Without an election
    /// it is off.
    pub fn switch(&self) -> PauseSwitch {
        let lease = self.lease.borrow();
        let Some(annotations) = &lease.metadata.annotations else {
            return PauseSwitch::Off;
        };
        let annotation = |name: &str| annotations.get(name).map(String::as_str);
        let switch = PauseSwitch::read(
            annotation(PAUSE_ANNOTATION),
            annotation(PAUSE_REASON_ANNOTATION),
        );
        switch.at(self.clock.now())
    }

    /// Returns whether nothing new may be fenced or deleted now.
    pub fn is_paused(&self) -> bool {
        self.switch().is_paused(self.clock.now())
    }
}

/// The state of a replica, as state pages begin with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaState {
    /// The present instant by the clock of the replica.
    pub at: Time,
    /// The replica is the leader.
    pub leads: bool,
    /// The replica writes nothing.
    pub dry_run: bool,
}

impl Replica {
    /// Creates a replica in this role. `events` creates its recorder, which a dry run does not
    /// have.
    pub fn new(
        client: &ClusterClient,
        role: ReplicaRole,
        events: impl FnOnce() -> EventRecorder,
    ) -> Self {
        let dry_run = role == ReplicaRole::Observer;
        let master_status = match &role {
            ReplicaRole::Candidate(settings) => Some((settings.name.clone(), Gauge::default())),
            ReplicaRole::Observer | ReplicaRole::Alone => None,
        };
        let election = role.election(client);
        Self {
            events: (!dry_run).then(events),
            master_status,
            status: ReplicaStatus {
                clock: AnchoredClock::anchored(client.system_clock()),
                dry_run,
                leadership: election.leadership(),
                lease: election.lease(),
            },
            election,
        }
    }

    /// Registers the metrics of the client and of the Events under this prefix.
    pub fn register_metrics(&self, client: &ClusterClient, registry: &mut Registry, prefix: &str) {
        let (client, recorder) = (client.clone(), self.events.clone());
        let dropped = move || {
            recorder
                .as_ref()
                .map(EventRecorder::dropped)
                .unwrap_or_default()
        };
        let pause = self.pause();
        let paused = move || pause.is_paused();
        let responses = move || client.response_counts();
        ClientMetrics::register(registry, prefix, responses, dropped, paused);
        self.register_election(registry);
    }

    /// Registers the metric of the election, if there is one.
    pub fn register_election(&self, registry: &mut Registry) {
        if let Some((lease, status)) = &self.master_status {
            register_master_status(registry, lease, status);
        }
    }

    /// Returns the recorder of Events; `None` in a dry run.
    pub fn events(&self) -> Option<&EventRecorder> {
        self.events.as_ref()
    }

    /// Returns whether the replica may act, as a channel.
    pub fn leadership(&self) -> Receiver<Leadership> {
        self.status.leadership.clone()
    }

    /// Returns the latency of the last call of the election, as a channel: a sample of the latency
    /// of the API server. Without an election it stays `None`.
    pub fn election_latency(&self) -> Receiver<Option<CallLatency>> {
        self.election.latency()
    }

    /// Returns the channel that holds this replica back from the election. While its value is
    /// false, the replica takes only a Lease that has been free for 5 s. It is true from the start.
    pub fn standing(&self) -> Sender<bool> {
        self.election.standing()
    }

    /// Returns the store of the records on this Lease, which is the one of the election if there is
    /// one, and the future that serves the store. It has to be spawned once.
    pub fn lease_records(
        &self,
        client: &ClusterClient,
        lease: LeaseName,
    ) -> (LeaseRecords, impl Future<Output = ()> + Send + use<>) {
        LeaseRecords::new(client, lease, self.election.lease())
    }

    /// Returns a reader of the pause switch.
    pub fn pause(&self) -> PauseReader {
        self.status.pause()
    }

    /// Returns the clock of the replica.
    pub fn clock(&self) -> AnchoredClock {
        self.status.clock
    }

    /// Returns the state of the replica, for pages that outlive it.
    pub fn status(&self) -> ReplicaStatus {
        self.status.clone()
    }

    /// Runs the election and sends Events while `work` runs, and releases the Lease after it.
    /// `leader` is 1 while this replica acts. Work may start background tasks on the handle.
    pub async fn run<F: Future<Output = ()>>(
        self,
        leader: Gauge,
        work: impl FnOnce(&ElectionHandle) -> F,
    ) {
        let master_status = self.master_status.map(|(_, status)| status);
        let election = self.election.spawn(move |leads| {
            leader.set(leads.into());
            if let Some(status) = &master_status {
                status.set(leads.into());
            }
        });
        if let Some(events) = self.events {
            election.spawn(|over| events.run(over));
        }
        work(&election).await;
        election.step_down().await;
    }
}

/// Registers the metric of an election under the name that Kubernetes' own components use.
pub fn register_master_status(registry: &mut Registry, lease: &str, status: &Gauge) {
    let label = ("name".into(), lease.to_owned().into());
    registry.sub_registry_with_label(label).register(
        "leader_election_master_status",
        "1 if this replica is the leader, 0 if it is a standby, by the name of the Lease",
        status.clone(),
    );
}

impl ReplicaStatus {
    /// Returns a reader of the pause switch.
    pub fn pause(&self) -> PauseReader {
        PauseReader {
            lease: self.lease.clone(),
            clock: self.clock,
        }
    }

    /// Returns the identity of the leader as last seen; `None` if there is none or it is not known.
    pub fn holder(&self) -> Option<String> {
        let lease = self.lease.borrow();
        let holder = lease.spec.as_ref()?.holder_identity.clone();
        holder.filter(|holder| !holder.is_empty())
    }

    /// Returns the state of the replica now.
    pub fn now(&self) -> ReplicaState {
        ReplicaState {
            at: self.clock.now(),
            leads: self.leadership.borrow().may_act(Instant::now()),
            dry_run: self.dry_run,
        }
    }
}
