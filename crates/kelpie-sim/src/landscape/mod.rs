//! A landscape: a seed, the clusters whose control planes it holds, and all who act in them.
//!
//! A [`Plan`] says how large it is; [`Landscape::play`] puts a scenario's faults on its timeline;
//! [`Landscape::run`] drives everybody. A watchdog reaches it over a [`Link`], inside the process and
//! in whatever time the runtime has; [`Landscape::open`] lets others in over TLS. [`Row`] and [`Damage`] say what it looks
//! like and what was broken; every [`Happening`] can be watched. `world` is where all of it changes;
//! `cluster` is one cluster's part of that.

mod authority;
mod cluster;
mod happening;
mod link;
mod objects;
mod plan;
mod process;
mod report;
mod script;
mod shared;
mod shuffled;
mod snare;
mod world;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use kelpie_config::scenario::Scenario;
use kelpie_core::Time;
use tokio::time::{Instant, sleep_until};

use crate::clock::Clock;
use crate::resource::{DEPLOYMENTS, PODS, Resource};
use crate::selection::Selection;
use crate::server::{Listening, Server, User};
use authority::Authority;
pub use happening::{Happening, What};
pub use link::Link;
pub use plan::Plan;
pub use process::Process;
pub use report::{Controller, Damage, Row};
use shared::{Place, Shared};
use world::World;

/// Where the seed is, inside the process.
const SEED: &str = "seed";

/// A landscape. Clones are the same landscape.
#[derive(Clone, Debug)]
pub struct Landscape(Arc<Shared>);

/// What somebody who runs watchdogs has to do, because the script says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The one that leads dies at once.
    Crash,
    /// Another one is started.
    Start,
    /// The one that leads hears and says nothing.
    Pause,
    /// It goes on.
    Resume,
}

/// API servers that listen on loopback, for as long as this is kept.
#[derive(Debug)]
pub struct Doors {
    /// With a context for the `seed`, which is the current one, and one for each cluster, as somebody who
    /// may do everything.
    pub kubeconfig: String,
    _listening: Vec<Listening>,
}

/// How a cluster's nodes really are.
#[derive(Clone, Debug, PartialEq)]
pub struct Truth {
    /// How long ago each of them renewed its lease, and how long it had not done so before that.
    pub silent: Vec<(Duration, Duration)>,
    /// Kubelets that do not reach their API server.
    pub cut_off: usize,
    /// When the first node that is Ready may turn Unknown if nobody renews any more.
    pub deadline: Option<Time>,
}

/// Why a landscape cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum LandscapeError {
    /// This machine makes no keys.
    #[error("cannot make a certificate for the simulated API servers: {0}")]
    Certificate(String),
    /// Another program has to let go of ports, or the limit of open files has to be raised.
    #[error(
        "cannot listen on loopback for the simulated API servers: {0}; are there free ports, and files (ulimit -n)?"
    )]
    Listen(#[from] io::Error),
}

impl Landscape {
    /// A landscape inside the process: who has a [`Link`] reaches it, without sockets.
    pub fn inside(plan: &Plan, clock: &Clock) -> Result<Self, LandscapeError> {
        let landscape = Self::empty(plan, clock, Authority::new()?);
        for number in 0..plan.clusters {
            let url = format!("https://{}", plan.cluster_name(number));
            landscape.add(landscape.shoot_server(number), url);
        }
        Ok(landscape)
    }

    fn empty(plan: &Plan, clock: &Clock, authority: Authority) -> Self {
        let shared = Arc::new_cyclic(|weak| {
            let server = Shared::server(weak, clock, plan.seed, Place::Seed);
            let world = World::new(plan.clone(), server.clone(), authority);
            Shared::new(clock.clone(), server, world)
        });
        Self(shared)
    }

    fn shoot_server(&self, number: usize) -> Server {
        let weak = Arc::downgrade(&self.0);
        // Any number that differs from the others'.
        let seed =
            self.0.world().plan.seed ^ (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Shared::server(&weak, &self.0.clock, seed, Place::Shoot(number))
    }

    fn add(&self, server: Server, url: String) {
        let now = self.now();
        self.0.world().add(server, url, now);
    }

    /// What time it is.
    pub fn now(&self) -> Time {
        self.0.clock.now()
    }

    /// What the watchdog takes for the time.
    pub fn watchdog_clock(&self) -> impl Fn() -> Time + Send + Sync + 'static {
        let shared = Arc::clone(&self.0);
        move || {
            let micros = shared.world().clock_offset.saturating_mul(1_000);
            Time::from_micros(shared.clock.now().as_micros().saturating_add(micros))
        }
    }

    /// The seed's API server.
    pub fn seed(&self) -> Server {
        self.0.seed.clone()
    }

    /// The URL of the seed's API server inside the process.
    pub fn seed_url(&self) -> String {
        format!("http://{SEED}")
    }

    /// The API server of a cluster.
    pub fn shoot(&self, cluster: &str) -> Option<Server> {
        let world = self.0.world();
        let number = world.numbers.get(cluster)?;
        Some(world.clusters.get(*number)?.server.clone())
    }

    /// A process' way into the landscape. The seed knows it by this name, which is its token too.
    pub fn link(&self, name: &str) -> Link {
        self.admit(name);
        Link::new(name, Arc::downgrade(&self.0))
    }

    /// Lets others in as well, over TLS on loopback, in a runtime with IO whose time is real. Links find
    /// their way as before.
    pub async fn open(&self) -> Result<Doors, LandscapeError> {
        let (tls, shoots) = {
            let world = self.0.world();
            let servers = world.clusters.iter().map(|cluster| cluster.server.clone());
            (world.authority.server()?, servers.collect::<Vec<_>>())
        };
        let mut listening = Vec::new();
        for server in [self.seed()].into_iter().chain(shoots) {
            listening.push(server.listen(tls.clone()).await?);
        }
        let kubeconfig = self.0.world().open(&listening);
        Ok(Doors {
            kubeconfig,
            _listening: listening,
        })
    }

    fn admit(&self, name: &str) {
        let user = User::new(name, &["system:masters"]);
        self.0.seed.users().add_token(name, user);
    }

    /// Deletes a Cluster from the seed, as if its owner had: its API server and nodes go on.
    pub fn forget(&self, cluster: &str) {
        let how = crate::store::Deletion::now();
        // Whoever is not there cannot be deleted.
        let _ = self
            .0
            .seed
            .store()
            .delete(&objects::CLUSTERS, "", cluster, &how);
    }

    /// Puts a scenario on the timeline, beginning now.
    pub fn play(&self, scenario: &Scenario) {
        let now = self.now();
        self.0.world().play(&scenario.incidents, now);
        self.0.bell.notify_one();
    }

    /// From now on these dice decide which of the connections that are ready at the same instant goes first;
    /// else it is the same one whenever the rest is the same.
    pub(crate) fn shuffle(&self, dice: Rng) {
        self.0.world().shuffle = Some(dice);
    }

    /// Shows everything that happens to `observer`, which may ask the landscape in turn.
    pub fn observe(&self, observer: impl FnMut(&Happening) + Send + 'static) {
        self.0.set_observer(Box::new(observer));
    }

    /// What the keeper of the watchdogs has to do since the last time.
    pub fn take_orders(&self) -> Vec<Order> {
        std::mem::take(&mut self.0.world().orders)
    }

    /// The fleet as it is.
    pub fn fleet(&self) -> Vec<Row> {
        let now = self.now();
        self.0.world().rows(now)
    }

    /// What was broken so far.
    pub fn damage(&self) -> Damage {
        let now = self.now();
        self.0.world().damage(now)
    }

    /// How late somebody acted, at worst, since this was last asked: nobody is in virtual time; where time
    /// is real, it says whether this machine keeps up with it.
    pub fn take_lag(&self) -> Duration {
        std::mem::take(&mut self.0.world().lag)
    }

    /// How the nodes of a cluster are.
    pub fn truth(&self, cluster: &str) -> Option<Truth> {
        let now = self.now();
        let mut world = self.0.world();
        let grace = world.plan.grace;
        let number = *world.numbers.get(cluster)?;
        let cluster = world.clusters.get_mut(number)?;
        cluster.settle(now);
        let nodes = cluster.nodes.iter();
        let silent = nodes.map(|node| (now.since(node.renewed), node.gap));
        Some(Truth {
            silent: silent.collect(),
            cut_off: cluster.cut_off(),
            deadline: cluster.deadline(grace),
        })
    }

    /// Drives everybody, in the runtime's time, until it is dropped.
    pub async fn run(&self) {
        // All are told in the beginning; those that are as they were mean nothing.
        let follow =
            |resource: &Resource| self.0.seed.store().watch(resource, Selection::all(), None);
        let (Ok(mut deployments), Ok(mut pods)) = (follow(&DEPLOYMENTS), follow(&PODS)) else {
            return;
        };
        loop {
            while let Some(event) = deployments.try_next() {
                if !self.0.see_deployment(&event) {
                    let Ok(again) = follow(&DEPLOYMENTS) else {
                        return;
                    };
                    deployments = again;
                }
            }
            while let Some(event) = pods.try_next() {
                if !self.0.see_pod(&event) {
                    let Ok(again) = follow(&PODS) else { return };
                    pods = again;
                }
            }
            let next = self.0.step();
            let wake = Instant::now() + next.since(self.now()).min(Duration::from_hours(1));
            tokio::select! {
                biased;
                () = deployments.ready() => {}
                () = pods.ready() => {}
                () = self.0.bell.notified() => {}
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
    async fn a_driver_that_was_away_is_behind_and_keeps_up_from_then_on() {
        let clock = Clock::starting_at(Time::from_unix(1_700_000_000, 0));
        let landscape = Landscape::inside(&Plan::of(2, 2), &clock).unwrap();
        advance(Duration::from_secs(12)).await;
        let driving = landscape.clone();
        let driver = tokio::spawn(async move { driving.run().await });
        sleep(Duration::from_secs(1)).await;
        let lag = landscape.take_lag();
        assert!(lag > Duration::from_secs(7), "{lag:?}");
        sleep(Duration::from_mins(2)).await;
        // Timers are as fine as that.
        let lag = landscape.take_lag();
        assert!(lag <= Duration::from_millis(1), "{lag:?}");
        driver.abort();
    }
}
