//! Leader election on a Lease: of several processes one acts.
//!
//! The rules stand in `elector`; here are the calls. They need `get`, `create` and `update` on leases.

mod elector;
mod office;
mod part;

use std::mem;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kelpie_bell::{Bell, Listener};
use kube::Api;
use kube::api::PostParams;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::seed::{Fault, Seed, quietly};
use crate::wall::WallClock;
use elector::{Act, Elector, Record, Seen};

pub use office::{Candidacy, Office};
pub use part::Part;

/// Longer than any process lives.
const FOR_GOOD: Duration = Duration::from_hours(100 * 365 * 24);
/// For giving the lease up at the end.
const FAREWELL: Duration = Duration::from_secs(2);

/// Who is elected, where and how fast.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElectionSettings {
    /// The namespace of the Lease.
    pub namespace: String,
    /// The name of the Lease.
    pub name: String,
    /// What we are called; no two processes may be called the same.
    pub identity: String,
    /// How long the others wait after the last renewal they saw.
    pub lease_duration: Duration,
    /// How long we act after the last renewal that succeeded; shorter than the lease.
    pub renew_deadline: Duration,
    /// How often we renew; shorter than the renew deadline.
    pub retry_period: Duration,
}

/// Whether we may act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leadership {
    /// Not now.
    Standby,
    /// Until this instant, if nothing newer is heard.
    Leader {
        /// Each renewal moves it forward.
        until: Instant,
    },
}

impl Leadership {
    /// Where there is nobody else: for good.
    pub fn alone() -> Self {
        Self::Leader {
            until: Instant::now() + FOR_GOOD,
        }
    }

    /// Whether a write may be made now. To be asked right before each one: a process that was paused
    /// does not know it.
    pub fn may_act(&self, now: Instant) -> bool {
        match self {
            Self::Standby => false,
            Self::Leader { until } => now < *until,
        }
    }
}

/// Takes part in an election until the token is cancelled, then gives the Lease up. The future has
/// to be spawned; a change is sent whenever leadership is won or lost.
pub fn elect(
    seed: &Seed,
    settings: ElectionSettings,
    token: CancellationToken,
) -> (
    Listener<Leadership>,
    impl Future<Output = ()> + Send + use<>,
) {
    let bell = Bell::new(Leadership::Standby);
    let leadership = bell.listen();
    let candidate = Candidate {
        leases: Api::namespaced(seed.urgent(), &settings.namespace),
        elector: Elector::new(settings.clone(), Instant::now()),
        settings,
        last: Lease::default(),
        bell,
        wall: seed.wall_clock().clone(),
        is_failing: false,
    };
    (leadership, candidate.run(token))
}

struct Candidate {
    leases: Api<Lease>,
    elector: Elector,
    settings: ElectionSettings,
    /// The Lease as it was last seen: what others wrote into it stays there.
    last: Lease,
    bell: Bell<Leadership>,
    wall: WallClock,
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
        // If it cannot be given up in time it runs out by itself.
        let _ = timeout(FAREWELL, self.release()).await;
    }

    async fn take_part(&mut self) {
        loop {
            let now = Instant::now();
            let leadership = self.elector.leadership(now);
            self.publish(leadership);
            match (self.elector.next(now, self.wall.stamp()), leadership) {
                (Act::Wait(at), Leadership::Leader { until }) => sleep_until(at.min(until)).await,
                (Act::Wait(at), Leadership::Standby) => sleep_until(at).await,
                (act, _) => self.act(act, now).await,
            }
        }
    }

    async fn act(&mut self, act: Act, start: Instant) {
        let patience = self.elector.patience(start);
        let done = timeout(patience, self.request(&act)).await;
        let now = Instant::now();
        match (done.unwrap_or(Err(Fault::TimedOut)), act) {
            (Ok(seen), Act::Read | Act::Wait(_)) => {
                let jitter = fastrand::f64();
                self.elector.observe(seen, now, jitter);
                self.is_failing = false;
            }
            (Ok(Some(seen)), Act::Create(_) | Act::Update(_)) => {
                self.elector.wrote(seen, start, now);
                self.is_failing = false;
            }
            // A create that is not found lacks its namespace: that is a failure.
            (Ok(None) | Err(Fault::Conflict), _) | (Err(Fault::NotFound), Act::Update(_)) => {
                self.elector.conflicted(now);
            }
            (Err(fault), _) => {
                let jitter = fastrand::f64();
                self.elector.failed(now, jitter);
                self.complain(&fault);
            }
        }
    }

    /// Makes a call and gives what the Lease is after it.
    async fn request(&mut self, act: &Act) -> Result<Option<Seen>, Fault> {
        let how = PostParams::default();
        let (leases, name) = (&self.leases, &self.settings.name);
        let answer = match act {
            Act::Wait(_) => return Ok(None),
            Act::Read => quietly(leases.get_opt(name)).await,
            Act::Create(record) => {
                let lease = self.lease(Lease::default(), record);
                quietly(leases.create(&how, &lease)).await.map(Some)
            }
            Act::Update(seen) => {
                let mut lease = self.lease(self.last.clone(), &seen.record);
                lease.metadata.resource_version = Some(seen.version.clone());
                quietly(leases.replace(name, &how, &lease)).await.map(Some)
            }
        };
        let lease = answer.map_err(|error| Fault::from(&error))?;
        Ok(lease.map(|mut lease| {
            lease.metadata.managed_fields = None;
            let seen = seen(&lease);
            self.last = lease;
            seen
        }))
    }

    async fn release(&mut self) {
        let mut released = self.elector.release(self.wall.stamp());
        for _ in 0..2 {
            // A write that was cut off may have made it ours, or given it a new version.
            if released.is_none() {
                let Ok(seen) = self.request(&Act::Read).await else {
                    return;
                };
                self.elector.observe(seen, Instant::now(), 0.0);
                released = self.elector.release(self.wall.stamp());
            }
            let Some(released) = released.take() else {
                return;
            };
            match self.request(&Act::Update(released)).await {
                Ok(_) => {
                    info!(lease = self.settings.name, "gave the leadership up");
                    return;
                }
                Err(Fault::Conflict) => {}
                Err(fault) => {
                    debug!(lease = self.settings.name, %fault, "the lease was not given up");
                    return;
                }
            }
        }
    }

    /// A renewal is there to be read, but wakes nobody: thousands of probes may be waiting.
    fn publish(&self, leadership: Leadership) {
        let is_flip = mem::discriminant(&self.bell.value()) != mem::discriminant(&leadership);
        if is_flip {
            self.bell.ring(leadership);
        } else {
            self.bell.set(leadership);
        }
        let lease = &self.settings.name;
        match leadership {
            Leadership::Leader { .. } if is_flip => info!(lease, "leads from now on"),
            Leadership::Standby if is_flip => info!(lease, "leads no longer"),
            _ => {}
        }
    }

    /// Once per outage.
    fn complain(&mut self, fault: &Fault) {
        let (lease, namespace) = (&self.settings.name, &self.settings.namespace);
        if self.is_failing {
            debug!(lease, namespace, %fault, "the election still cannot go on");
        } else {
            warn!(
                lease,
                namespace,
                %fault,
                "the election cannot go on; it needs get, create and update on this lease"
            );
        }
        self.is_failing = true;
    }

    /// A Lease that says what the record says.
    fn lease(&self, mut lease: Lease, record: &Record) -> Lease {
        // Rounded up: nobody may take over while the holder may still act.
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

/// What a Lease says.
fn seen(lease: &Lease) -> Seen {
    let spec = lease.spec.as_ref();
    let seconds = spec.and_then(|spec| spec.lease_duration_seconds);
    let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
    let acquired = spec.and_then(|spec| spec.acquire_time.as_ref());
    let renewed = spec.and_then(|spec| spec.renew_time.as_ref());
    let holder = spec.and_then(|spec| spec.holder_identity.clone());
    let transitions = spec.and_then(|spec| spec.lease_transitions);
    Seen {
        record: Record {
            holder: holder.unwrap_or_default(),
            duration: Duration::from_secs(seconds.unwrap_or_default()),
            transitions: transitions.unwrap_or_default(),
            acquired: acquired.map(|time| time.0),
            renewed: renewed.map(|time| time.0),
        },
        version: lease.metadata.resource_version.clone().unwrap_or_default(),
    }
}
