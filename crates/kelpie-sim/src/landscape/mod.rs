//! A landscape: a seed, the clusters whose control planes it hosts, and their controllers.
//!
//! A [`LandscapePlan`] sets its size and timings, [`Landscape::play`] puts a scenario's faults on
//! its timeline, and [`Landscape::run`] drives all actors. A watchdog connects over a
//! [`ProcessLink`], inside the process and in the runtime's time; a [`ReplicaSet`] keeps its
//! replicas, which faults crash and pause. [`Landscape::listen`] opens the API servers to other
//! clients over TLS. [`ClusterSnapshot`] and [`Damage`] report its state, and
//! [`Landscape::observe`] every [`SimEvent`]. All changes happen in `state`, those of one cluster
//! in `cluster`.

mod authority;
mod cluster;
mod event;
mod inner;
mod link;
mod objects;
mod pause_on_write;
mod plan;
mod process;
mod replica_set;
mod report;
mod state;
mod timeline;
mod yielding_stream;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use kelpie_config::scenario::Scenario;
use kelpie_core::Time;
use tokio::time::{Instant, sleep_until};

use crate::clock::SimClock;
use crate::resource::{DEPLOYMENTS, GroupResource, LEASES, PODS};
use crate::selector::ObjectSelector;
use crate::server::{ListenerHandle, SimServer, UserInfo};
use crate::store::DeleteOptions;
use authority::CertificateAuthority;
pub use event::{SimEvent, SimEventKind};
use inner::{LandscapeInner, ServerId};
pub use link::ProcessLink;
pub use plan::{LandscapePlan, Platform};
pub use process::SimProcess;
pub use replica_set::ReplicaSet;
pub use report::{ClusterSnapshot, ControllerReplicas, Damage};
use state::LandscapeState;

/// The seed's host name inside the process.
const SEED: &str = "seed";

/// A simulated landscape. Clones share the landscape.
#[derive(Clone, Debug)]
pub struct Landscape(Arc<LandscapeInner>);

/// A command of the scenario to the code that runs the watchdog's replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaCommand {
    /// Kill the leading replica.
    Crash,
    /// Start another replica, if one is missing.
    Start,
    /// Cut the leader off from the network.
    Pause,
    /// Reconnect the replica that was paused first.
    Resume,
}

/// The API servers on loopback. They stop listening when this is dropped.
#[derive(Debug)]
pub struct Listeners {
    /// A kubeconfig with admin rights: one context for each cluster, and the current context for
    /// the `seed`.
    pub kubeconfig: String,
    _handles: Vec<ListenerHandle>,
}

/// The real state of a cluster's nodes, as opposed to what its API server shows.
#[derive(Clone, Debug, PartialEq)]
pub struct GroundTruth {
    /// For each node, the time since its last renewal, and the time between that and the renewal
    /// before it.
    pub renewal_gaps: Vec<(Duration, Duration)>,
    /// The number of kubelets that do not reach their API server.
    pub cut_off: usize,
    /// The time at which the first Ready node may turn Unknown if no kubelet renews any more.
    pub deadline: Option<Time>,
}

/// The reasons why a landscape cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum LandscapeError {
    /// Keys or certificates could not be generated.
    #[error("cannot generate certificates for the simulated API servers: {0}")]
    Certificate(String),
    /// No free ports, or the limit of open files is too low.
    #[error(
        "cannot listen on loopback for the simulated API servers: {0}; free some ports, or \
         raise the limit of open files (ulimit -n)"
    )]
    Listen(#[from] io::Error),
}

impl Landscape {
    /// Creates a landscape that clients reach over a [`ProcessLink`], without sockets.
    pub fn in_process(plan: &LandscapePlan, clock: &SimClock) -> Result<Self, LandscapeError> {
        let authority = CertificateAuthority::new()?;
        let inner = Arc::new_cyclic(|weak| {
            let server = LandscapeInner::server(weak, clock, plan.rng_seed, ServerId::Seed);
            let state = LandscapeState::new(Arc::new(plan.clone()), server.clone(), authority);
            LandscapeInner::new(clock.clone(), server, state)
        });
        for number in 0..plan.clusters {
            let url = format!("https://{}", plan.cluster_name(number));
            // Any number that differs from those of the other servers.
            let rng_seed = plan.rng_seed ^ (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let id = ServerId::Shoot(number);
            let server = LandscapeInner::server(&Arc::downgrade(&inner), clock, rng_seed, id);
            inner.state().add_cluster(server, url, clock.now());
        }
        Ok(Self(inner))
    }

    /// Returns the landscape's time.
    pub fn now(&self) -> Time {
        self.0.clock.now()
    }

    /// Returns the clock of the watchdog, which faults may set wrong.
    pub fn watchdog_clock(&self) -> impl Fn() -> Time + Send + Sync + 'static {
        let inner = Arc::clone(&self.0);
        move || {
            let micros = inner.state().clock_offset.saturating_mul(1_000);
            Time::from_micros(inner.clock.now().as_micros().saturating_add(micros))
        }
    }

    /// Returns the seed's API server.
    pub fn seed(&self) -> SimServer {
        self.0.seed.clone()
    }

    /// Returns the platform that the seed belongs to.
    pub fn platform(&self) -> Platform {
        self.0.state().plan.platform
    }

    /// Returns the URL of the seed's API server inside the process.
    pub fn seed_url(&self) -> String {
        format!("http://{SEED}")
    }

    /// Returns the API server of a cluster.
    pub fn shoot(&self, cluster: &str) -> Option<SimServer> {
        let state = self.0.state();
        let number = state.cluster_numbers.get(cluster)?;
        Some(state.clusters.get(*number)?.server.clone())
    }

    /// Connects a process to the landscape. `name` is both the user that the seed sees and its
    /// token.
    pub fn link(&self, name: &str) -> ProcessLink {
        let user = UserInfo::new(name, &["system:masters"]);
        self.0.seed.users().add_token(name, user);
        ProcessLink::new(name, Arc::downgrade(&self.0))
    }

    /// Opens the API servers to other clients, over TLS on loopback. Needs a runtime with IO and
    /// real time. Links keep working.
    pub async fn listen(&self) -> Result<Listeners, LandscapeError> {
        let (tls, shoots) = {
            let state = self.0.state();
            let servers = state.clusters.iter().map(|cluster| cluster.server.clone());
            (state.authority.server()?, servers.collect::<Vec<_>>())
        };
        let mut handles = Vec::new();
        for server in [self.seed()].into_iter().chain(shoots) {
            handles.push(server.listen(tls.clone()).await?);
        }
        let kubeconfig = self.0.state().set_listeners(&handles);
        Ok(Listeners {
            kubeconfig,
            _handles: handles,
        })
    }

    /// Deletes a Cluster from the seed, as its owner would. Its API server and nodes keep running.
    pub fn delete_cluster(&self, cluster: &str) {
        let (store, options) = (self.0.seed.store(), DeleteOptions::immediate());
        // Deleting a Cluster that does not exist is no error.
        let (resource, namespace) = objects::cluster_place(self.0.state().plan.platform);
        let _ = store.delete(&resource, namespace, cluster, &options);
    }

    /// Puts a scenario on the timeline, starting now.
    pub fn play(&self, scenario: &Scenario) {
        let now = self.now();
        self.0.state().play(&scenario.incidents, now);
        self.0.wake_driver.notify_one();
    }

    /// Randomizes the order of connections that are ready at the same instant. Without it the order
    /// is always the same, given that everything else is.
    pub fn shuffle_connections(&self, rng: Rng) {
        self.0.state().connection_rng = Some(rng);
    }

    /// Calls `observer` for every event. It may call the landscape.
    pub fn observe(&self, observer: impl FnMut(&SimEvent) + Send + 'static) {
        self.0.set_observer(Box::new(observer));
    }

    /// Takes the commands since the last call.
    pub fn take_commands(&self) -> Vec<ReplicaCommand> {
        std::mem::take(&mut self.0.state().commands)
    }

    /// Returns the holder of a Lease in `garden`, by which the replicas of a watchdog elect a
    /// leader.
    pub fn lease_holder(&self, lease: &str) -> Option<String> {
        let lease = self.0.seed.store().get(&LEASES, "garden", lease).ok()?;
        Some(lease["spec"]["holderIdentity"].as_str()?.to_owned())
    }

    /// Returns the current state of all clusters.
    pub fn snapshot(&self) -> Vec<ClusterSnapshot> {
        let now = self.now();
        self.0.state().snapshot(now)
    }

    /// Returns the damage so far.
    pub fn damage(&self) -> Damage {
        let now = self.now();
        self.0.state().damage(now)
    }

    /// Returns the largest delay of any actor since the last call. It is zero in virtual time; in
    /// real time it tells whether the machine keeps up.
    pub fn take_lag(&self) -> Duration {
        std::mem::take(&mut self.0.state().lag)
    }

    /// Returns the real state of a cluster's nodes.
    pub fn ground_truth(&self, cluster: &str) -> Option<GroundTruth> {
        let now = self.now();
        let mut state = self.0.state();
        let number = *state.cluster_numbers.get(cluster)?;
        let cluster = state.clusters.get_mut(number)?;
        cluster.catch_up(now);
        let nodes = cluster.nodes.iter();
        let renewal_gaps = nodes.map(|node| (now.since(node.renewed), node.previous_gap));
        Some(GroundTruth {
            renewal_gaps: renewal_gaps.collect(),
            cut_off: cluster.cut_off(),
            deadline: cluster.deadline(),
        })
    }

    /// Drives all actors in the runtime's time. Stops when the future is dropped.
    pub async fn run(&self) {
        // A new watch starts with all objects; those that have not changed have no effect.
        let seed = self.0.seed.store();
        let watch_all =
            |resource: &GroupResource| seed.watch(resource, ObjectSelector::all(), None);
        let (Ok(mut deployments), Ok(mut pods)) = (watch_all(&DEPLOYMENTS), watch_all(&PODS))
        else {
            return;
        };
        loop {
            while let Some(event) = deployments.try_next() {
                if !self.0.on_deployment_event(&event) {
                    let Ok(again) = watch_all(&DEPLOYMENTS) else {
                        return;
                    };
                    deployments = again;
                }
            }
            while let Some(event) = pods.try_next() {
                if !self.0.on_pod_event(&event) {
                    let Ok(again) = watch_all(&PODS) else { return };
                    pods = again;
                }
            }
            let next = self.0.step();
            let wake = Instant::now() + next.since(self.now()).min(Duration::from_hours(1));
            tokio::select! {
                biased;
                () = deployments.ready() => {}
                () = pods.ready() => {}
                () = self.0.wake_driver.notified() => {}
                () = sleep_until(wake) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn late_driver_lags_then_keeps_up() {
        let clock = SimClock::starting_at(Time::from_unix(1_700_000_000, 0));
        let landscape = Landscape::in_process(&LandscapePlan::with_size(2, 2), &clock).unwrap();
        advance(Duration::from_secs(12)).await;
        let driven = landscape.clone();
        let driver = tokio::spawn(async move { driven.run().await });
        sleep(Duration::from_secs(1)).await;
        let lag = landscape.take_lag();
        assert!(lag > Duration::from_secs(7), "{lag:?}");
        sleep(Duration::from_mins(2)).await;
        // The timer's resolution.
        let lag = landscape.take_lag();
        assert!(lag <= Duration::from_millis(1), "{lag:?}");
        driver.abort();
    }
}
