//! Leader election on a Lease: only one of several replicas acts.
//!
//! `elector` has the rules, without IO. This module makes the calls, which need `get`, `create` and
//! `update` on leases.

mod election;
mod elector;

use std::mem;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kelpie_runtime::watch::{Receiver, Sender};
use kube::Api;
use kube::api::PostParams;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::client::{ApiError, ClusterClient, suppress_logs};
use crate::system_clock::SystemClock;
use elector::{ElectionAction, Elector, LeaseRecord, SeenLease};

pub use election::{Election, ElectionHandle, ReplicaRole};

/// Longer than any process runs.
const FOREVER: Duration = Duration::from_hours(100 * 365 * 24);
/// The time limit for releasing the Lease at the end.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

/// The settings of an election.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElectionSettings {
    /// The namespace of the Lease.
    pub namespace: String,
    /// The name of the Lease.
    pub name: String,
    /// The identity of this replica. It must be unique.
    pub identity: String,
    /// The time that standbys wait after the last renewal they saw.
    pub lease_duration: Duration,
    /// The time that the leader acts after its last successful renewal; shorter than the lease.
    pub renew_deadline: Duration,
    /// The time between renewals; shorter than the renew deadline.
    pub retry_period: Duration,
}

/// The leadership of this replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leadership {
    /// This replica may not act.
    Standby,
    /// This replica may act.
    Leader {
        /// The end of the leadership, unless a renewal moves it forward.
        until: Instant,
    },
}

impl Leadership {
    /// Returns a leadership that never ends, for a replica without others.
    pub fn alone() -> Self {
        Self::Leader {
            until: Instant::now() + FOREVER,
        }
    }

    /// Returns whether this replica may write now. It has to be checked right before each write: a
    /// process does not know that it was paused.
    pub fn may_act(&self, now: Instant) -> bool {
        match self {
            Self::Standby => false,
            Self::Leader { until } => now < *until,
        }
    }
}

/// Takes part in an election until the token is cancelled, and then releases the Lease. The future
/// has to be spawned. The channel wakes its receivers when leadership is gained or lost.
pub fn elect(
    seed: &ClusterClient,
    settings: ElectionSettings,
    token: CancellationToken,
) -> (
    Receiver<Leadership>,
    impl Future<Output = ()> + Send + use<>,
) {
    let sender = Sender::new(Leadership::Standby);
    let leadership = sender.subscribe();
    let candidate = Candidate {
        leases: Api::namespaced(seed.urgent(), &settings.namespace),
        elector: Elector::new(settings.clone(), Instant::now()),
        settings,
        last: Lease::default(),
        sender,
        clock: seed.system_clock().clone(),
        is_failing: false,
    };
    (leadership, candidate.run(token))
}

struct Candidate {
    leases: Api<Lease>,
    elector: Elector,
    settings: ElectionSettings,
    /// The Lease as last seen. Fields that others wrote are kept.
    last: Lease,
    sender: Sender<Leadership>,
    clock: SystemClock,
    is_failing: bool,
}

impl Candidate {
    async fn run(mut self, token: CancellationToken) {
        tokio::select! {
            biased;
            () = token.cancelled() => {}
            () = self.take_part() => {}
        }
        self.publish(Leadership::Standby);
        // A Lease that cannot be released in time expires.
        let _ = timeout(RELEASE_TIMEOUT, self.release()).await;
    }

    async fn take_part(&mut self) {
        loop {
            let now = Instant::now();
            let leadership = self.elector.leadership(now);
            self.publish(leadership);
            match (self.elector.next(now, self.clock.stamp()), leadership) {
                (ElectionAction::Wait(at), Leadership::Leader { until }) => {
                    sleep_until(at.min(until)).await;
                }
                (ElectionAction::Wait(at), Leadership::Standby) => sleep_until(at).await,
                (act, _) => self.act(act, now).await,
            }
        }
    }

    async fn act(&mut self, act: ElectionAction, start: Instant) {
        let limit = self.elector.call_timeout(start);
        let done = timeout(limit, self.request(&act)).await;
        let now = Instant::now();
        match (done.unwrap_or(Err(ApiError::TimedOut)), act) {
            (Ok(seen), ElectionAction::Read | ElectionAction::Wait(_)) => {
                let jitter = fastrand::f64();
                self.elector.observe(seen, now, jitter);
                self.is_failing = false;
            }
            (Ok(Some(seen)), ElectionAction::Create(_) | ElectionAction::Update(_)) => {
                self.elector.wrote(seen, start, now);
                self.is_failing = false;
            }
            // A create that is not found lacks its namespace, which is a failure.
            (Ok(None) | Err(ApiError::Conflict), _)
            | (Err(ApiError::NotFound), ElectionAction::Update(_)) => {
                self.elector.conflicted(now);
            }
            (Err(error), _) => {
                let jitter = fastrand::f64();
                self.elector.failed(now, jitter);
                self.report_failure(&error);
            }
        }
    }

    /// Makes a call and returns the Lease after it.
    async fn request(&mut self, act: &ElectionAction) -> Result<Option<SeenLease>, ApiError> {
        let how = PostParams::default();
        let (leases, name) = (&self.leases, &self.settings.name);
        let answer = match act {
            ElectionAction::Wait(_) => return Ok(None),
            ElectionAction::Read => suppress_logs(leases.get_opt(name)).await,
            ElectionAction::Create(record) => {
                let lease = self.lease(Lease::default(), record);
                suppress_logs(leases.create(&how, &lease)).await.map(Some)
            }
            ElectionAction::Update(seen) => {
                let mut lease = self.lease(self.last.clone(), &seen.record);
                lease.metadata.resource_version = Some(seen.version.clone());
                suppress_logs(leases.replace(name, &how, &lease))
                    .await
                    .map(Some)
            }
        };
        let lease = answer.map_err(|error| ApiError::from(&error))?;
        Ok(lease.map(|mut lease| {
            lease.metadata.managed_fields = None;
            let seen = seen(&lease);
            self.last = lease;
            seen
        }))
    }

    async fn release(&mut self) {
        let mut released = self.elector.release(self.clock.stamp());
        for _ in 0..2 {
            // A write without a response may have acquired the Lease, or changed its version.
            if released.is_none() {
                let Ok(seen) = self.request(&ElectionAction::Read).await else {
                    return;
                };
                self.elector.observe(seen, Instant::now(), 0.0);
                released = self.elector.release(self.clock.stamp());
            }
            let Some(released) = released.take() else {
                return;
            };
            match self.request(&ElectionAction::Update(released)).await {
                Ok(_) => {
                    info!(lease = self.settings.name, "released the Lease");
                    return;
                }
                Err(ApiError::Conflict) => {}
                Err(error) => {
                    debug!(lease = self.settings.name, %error, "could not release the Lease");
                    return;
                }
            }
        }
    }

    /// Publishes the leadership. A renewal wakes no receiver: thousands of probes may be waiting.
    fn publish(&self, leadership: Leadership) {
        let is_flip = mem::discriminant(&self.sender.borrow()) != mem::discriminant(&leadership);
        if is_flip {
            self.sender.send(leadership);
        } else {
            self.sender.send_silently(leadership);
        }
        let lease = &self.settings.name;
        match leadership {
            Leadership::Leader { .. } if is_flip => info!(lease, "acquired the Lease"),
            Leadership::Standby if is_flip => info!(lease, "lost the Lease"),
            _ => {}
        }
    }

    /// Logs a failure, once per outage.
    fn report_failure(&mut self, error: &ApiError) {
        let (lease, namespace) = (&self.settings.name, &self.settings.namespace);
        if self.is_failing {
            debug!(lease, namespace, %error, "leader election still fails");
        } else {
            warn!(
                lease,
                namespace,
                %error,
                "leader election failed; it needs the namespace, and get, create and update on the \
                 Lease"
            );
        }
        self.is_failing = true;
    }

    /// Writes a record into a Lease.
    fn lease(&self, mut lease: Lease, record: &LeaseRecord) -> Lease {
        // Rounded up, so that no other replica takes over while the holder may still act.
        let seconds = record.duration.as_millis().div_ceil(1_000);
        let seconds = i32::try_from(seconds).unwrap_or(i32::MAX);
        lease.metadata.namespace = Some(self.settings.namespace.clone());
        lease.metadata.name = Some(self.settings.name.clone());
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = Some(record.holder.clone());
        spec.lease_duration_seconds = Some(seconds.max(1));
        spec.lease_transitions = Some(record.transitions);
        spec.acquire_time = record.acquired.map(MicroTime);
        spec.renew_time = record.renewed.map(MicroTime);
        lease
    }
}

/// Reads the record of a Lease.
fn seen(lease: &Lease) -> SeenLease {
    let spec = lease.spec.clone().unwrap_or_default();
    let seconds = spec.lease_duration_seconds.unwrap_or_default();
    SeenLease {
        record: LeaseRecord {
            holder: spec.holder_identity.unwrap_or_default(),
            duration: Duration::from_secs(u64::try_from(seconds).unwrap_or_default()),
            transitions: spec.lease_transitions.unwrap_or_default(),
            acquired: spec.acquire_time.map(|time| time.0),
            renewed: spec.renew_time.map(|time| time.0),
        },
        version: lease.metadata.resource_version.clone().unwrap_or_default(),
    }
}
