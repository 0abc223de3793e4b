//! Leader election on a Lease: only one of several replicas acts.
//!
//! `elector` has the rules, without IO. This module makes the calls, which need `get`, `create` and
//! `update` on leases.

mod election;
mod elector;

use std::time::Duration;
use std::{fmt, mem};

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kelpie_runtime::watch::{Receiver, Sender};
use kube::Api;
use kube::api::PostParams;
use tokio::sync::watch;
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
const RELEASE_TIMEOUT: Duration = Duration::from_secs(4);

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

/// The name of a Lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseName {
    /// The namespace of the Lease.
    pub namespace: String,
    /// The name in this namespace.
    pub name: String,
}

impl fmt::Display for LeaseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
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

/// The time that a call of an election took: a sample of the latency of the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallLatency {
    /// The instant at which the call ended.
    pub at: Instant,
    /// The time from the request to the response, or until the call was given up.
    pub elapsed: Duration,
    /// False if there was no response: the call would have taken longer.
    pub has_response: bool,
}

/// The channels of an election.
#[derive(Debug)]
pub(crate) struct ElectionChannels {
    /// Wakes its receivers when leadership is gained or lost.
    pub(crate) leadership: Sender<Leadership>,
    /// The latency of the last call; `None` before the first.
    pub(crate) latency: Sender<Option<CallLatency>>,
    /// False while this replica takes only a Lease that was free for 5 s.
    pub(crate) standing: Receiver<bool>,
    /// The Lease as last seen: its version and annotations count.
    pub(crate) lease: watch::Sender<Lease>,
}

/// Takes part in an election until the token is cancelled, and then releases the Lease. The future
/// has to be spawned.
pub(crate) fn elect(
    seed: &ClusterClient,
    settings: ElectionSettings,
    channels: ElectionChannels,
    token: CancellationToken,
) -> impl Future<Output = ()> + Send + use<> {
    let candidate = Candidate {
        leases: Api::namespaced(seed.urgent(), &settings.namespace),
        elector: Elector::new(settings.clone(), Instant::now()),
        settings,
        last: Lease::default(),
        channels,
        clock: seed.system_clock().clone(),
        is_failing: false,
    };
    candidate.run(token)
}

struct Candidate {
    leases: Api<Lease>,
    elector: Elector,
    settings: ElectionSettings,
    /// The Lease as last seen. Fields that others wrote are kept.
    last: Lease,
    channels: ElectionChannels,
    clock: SystemClock,
    is_failing: bool,
}

/// A call and its result: the Lease after it.
struct CompletedCall {
    action: ElectionAction,
    start: Instant,
    result: Result<Option<Lease>, ApiError>,
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
        let mut calls = FuturesUnordered::new();
        loop {
            let now = Instant::now();
            self.elector.stand(self.channels.standing.borrow());
            let leadership = self.elector.leadership(now);
            self.publish(leadership);
            let next_at = match self.elector.next(now, self.clock.stamp()) {
                ElectionAction::Wait(at) => at,
                action => {
                    self.elector.sent(&action, now);
                    calls.push(self.call(action, now));
                    continue;
                }
            };
            let wake = match leadership {
                Leadership::Leader { until } => next_at.min(until),
                Leadership::Standby => next_at,
            };
            tokio::select! {
                biased;
                Some(done) = calls.next() => self.finish(done),
                () = sleep_until(wake) => {}
            }
        }
    }

    /// Starts a call.
    fn call(&self, action: ElectionAction, start: Instant) -> BoxFuture<'static, CompletedCall> {
        let request = self.request(&action);
        let limit = self.elector.call_limit();
        async move {
            let result = timeout(limit, request).await;
            CompletedCall {
                action,
                start,
                result: result.unwrap_or(Err(ApiError::TimedOut)),
            }
        }
        .boxed()
    }

    /// Takes in the result of a call.
    fn finish(
        &mut self,
        CompletedCall {
            action,
            start,
            result,
        }: CompletedCall,
    ) {
        let now = Instant::now();
        self.sample(&result, start, now);
        match (result, action) {
            (Ok(lease), ElectionAction::Read | ElectionAction::Wait(_)) => {
                let (jitter, lease) = (fastrand::f64(), lease.map(without_managed_fields));
                let seen = lease.as_ref().map(seen);
                if self.elector.observe(seen, start, now, jitter) {
                    self.saw(lease.unwrap_or_default());
                }
                self.is_failing = false;
            }
            (Ok(Some(lease)), ElectionAction::Create(_) | ElectionAction::Update(_)) => {
                let lease = without_managed_fields(lease);
                if self.elector.wrote(seen(&lease), start, now) {
                    self.saw(lease);
                }
                self.is_failing = false;
            }
            (
                Ok(None) | Err(ApiError::Conflict | ApiError::NotFound),
                ElectionAction::Update(of),
            ) => {
                self.elector.conflicted(Some(&of.version), now);
            }
            // A create that is not found lacks its namespace, which is a failure.
            (Ok(None) | Err(ApiError::Conflict), _) => self.elector.conflicted(None, now),
            (Err(error), _) => {
                let jitter = fastrand::f64();
                self.elector.failed(start, now, jitter);
                self.report_failure(&error);
            }
        }
    }

    /// Takes in the newest state of the Lease.
    fn saw(&mut self, lease: Lease) {
        let version = |lease: &Lease| lease.metadata.resource_version.clone();
        self.channels.lease.send_if_modified(|last| {
            let is_new = version(last) != version(&lease);
            if is_new {
                last.clone_from(&lease);
            }
            is_new
        });
        self.last = lease;
    }

    /// Publishes the latency of a call. An immediate error says nothing about it.
    fn sample(&self, result: &Result<Option<Lease>, ApiError>, start: Instant, now: Instant) {
        let has_response = match result {
            Ok(_) | Err(ApiError::Conflict | ApiError::NotFound) => true,
            Err(ApiError::TimedOut) => false,
            Err(_) => return,
        };
        self.channels.latency.send(Some(CallLatency {
            at: now,
            elapsed: now - start,
            has_response,
        }));
    }

    /// Makes a call and returns the Lease after it.
    fn request(
        &self,
        action: &ElectionAction,
    ) -> impl Future<Output = Result<Option<Lease>, ApiError>> + Send + use<> {
        let (leases, name) = (self.leases.clone(), self.settings.name.clone());
        let (action, lease) = match action {
            ElectionAction::Create(record) => {
                let lease = self.lease(Lease::default(), record);
                (CallKind::Create, lease)
            }
            ElectionAction::Update(seen) => {
                let mut lease = self.lease(self.last.clone(), &seen.record);
                lease.metadata.resource_version = Some(seen.version.clone());
                (CallKind::Update, lease)
            }
            ElectionAction::Read | ElectionAction::Wait(_) => (CallKind::Read, Lease::default()),
        };
        async move {
            let how = PostParams::default();
            let answer = match action {
                CallKind::Read => suppress_logs(leases.get_opt(&name)).await,
                CallKind::Create => suppress_logs(leases.create(&how, &lease)).await.map(Some),
                CallKind::Update => {
                    let update = leases.replace(&name, &how, &lease);
                    suppress_logs(update).await.map(Some)
                }
            };
            answer.map_err(|error| ApiError::from(&error))
        }
    }

    async fn release(&mut self) {
        let mut released = self.elector.release(self.clock.stamp());
        for _ in 0..2 {
            // A write without a response may have acquired the Lease, or changed its version.
            if released.is_none() {
                let start = Instant::now();
                let Ok(lease) = self.request(&ElectionAction::Read).await else {
                    return;
                };
                let seen = lease.as_ref().map(seen);
                self.elector.observe(seen, start, Instant::now(), 0.0);
                self.last = lease.unwrap_or_default();
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
        let sender = &self.channels.leadership;
        let is_flip = mem::discriminant(&sender.borrow()) != mem::discriminant(&leadership);
        if is_flip {
            sender.send(leadership);
        } else {
            sender.send_silently(leadership);
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
            let problem = election_problem(error, namespace);
            warn!(
                lease,
                namespace, "leader election failed; retrying: {problem}"
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

/// Describes a failed call of an election and its remedy.
fn election_problem(error: &ApiError, namespace: &str) -> String {
    match error {
        // A read that finds no Lease is no failure, and an update reads again.
        ApiError::NotFound => format!(
            "there is no namespace {namespace}; create it, or set --leader-election-namespace"
        ),
        ApiError::Forbidden(reason) => {
            format!("{reason}; grant get, create and update on the Lease")
        }
        cause => format!("{cause}; {}", cause.remedy()),
    }
}

/// The kind of a call, without its content.
#[derive(Debug, Clone, Copy)]
enum CallKind {
    Read,
    Create,
    Update,
}

fn without_managed_fields(mut lease: Lease) -> Lease {
    lease.metadata.managed_fields = None;
    lease
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
