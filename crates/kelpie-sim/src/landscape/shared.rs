//! What the servers, the links and the driver of a landscape share.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use kelpie_core::Time;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::happening::{Happening, What};
use super::world::World;
use crate::clock::Clock;
use crate::server::{Call, Fate, Hooks, Server};
use crate::store::{Event, Store};

/// Who waits at a door that does not answer looks again so often.
const KNOCK: Duration = Duration::from_millis(250);

/// Whose API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Seed,
    Shoot(usize),
}

type Observer = Box<dyn FnMut(&Happening) + Send>;

/// A landscape, as its parts hold it.
pub(super) struct Shared {
    pub(super) clock: Clock,
    pub(super) seed: Server,
    /// The driver has to look again.
    pub(super) bell: Notify,
    world: Mutex<World>,
    observer: Mutex<Option<Observer>>,
    is_observed: AtomicBool,
}

impl Shared {
    pub(super) fn new(clock: Clock, seed: Server, world: World) -> Self {
        Self {
            clock,
            seed,
            bell: Notify::new(),
            world: Mutex::new(world),
            observer: Mutex::new(None),
            is_observed: AtomicBool::new(false),
        }
    }

    /// An API server with an empty store, whose requests go the way that the faults of the moment say.
    pub(super) fn server(weak: &Weak<Self>, clock: &Clock, seed: u64, place: Place) -> Server {
        let (deciding, telling) = (weak.clone(), weak.clone());
        let fate = move |call: &Call| {
            let shared = deciding.upgrade();
            shared.map_or_else(Fate::default, |shared| shared.fate(place, call))
        };
        let log = move |call: &Call, status: u16| {
            if let Some(shared) = telling.upgrade() {
                shared.note(place, call, status);
            }
        };
        let hooks = Hooks {
            fate: Some(Arc::new(fate)),
            rights: None,
            log: Some(Arc::new(log)),
        };
        Server::new(Store::new(clock.clone(), seed), hooks)
    }

    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_observer(&self, observer: Observer) {
        *self.observer() = Some(observer);
        self.is_observed.store(true, Ordering::Relaxed);
    }

    fn observer(&self) -> MutexGuard<'_, Option<Observer>> {
        self.observer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fate(&self, place: Place, call: &Call) -> Fate {
        let now = self.clock.now();
        let mut world = self.world();
        match place {
            Place::Seed => world.seed_fate(call),
            Place::Shoot(number) => {
                let cluster = world.clusters.get_mut(number);
                cluster.map_or_else(Fate::default, |cluster| cluster.fate(now))
            }
        }
    }

    fn note(&self, place: Place, call: &Call, status: u16) {
        if !self.is_observed.load(Ordering::Relaxed) {
            return;
        }
        let at = self.clock.now();
        let mut world = self.world();
        let server = match place {
            Place::Seed => super::SEED.into(),
            Place::Shoot(number) => {
                let cluster = world.clusters.get(number);
                cluster
                    .map(|cluster| Arc::clone(&cluster.name))
                    .unwrap_or_default()
            }
        };
        let what = What::Call {
            server,
            came: call.at,
            was_held: call.is_held,
            user: call.user.name.clone(),
            verb: call.verb,
            path: call.path.clone(),
            status,
        };
        world.tell(at, what);
        drop(world);
        self.publish();
    }

    /// Tells the observer what has happened.
    fn publish(&self) {
        let happened = std::mem::take(&mut self.world().happened);
        if happened.is_empty() {
            return;
        }
        if let Some(observer) = &mut *self.observer() {
            happened.iter().for_each(observer);
        }
    }

    /// Lets everybody act whose time has come; gives the next time.
    pub(super) fn step(&self) -> Time {
        let next = self.world().step(self.clock.now());
        self.publish();
        next
    }

    /// Takes in what became of a Deployment; false if the watch is of no more use.
    pub(super) fn see_deployment(&self, event: &Event) -> bool {
        let (object, is_gone) = match event {
            Event::Added(object) | Event::Modified(object) => (object, false),
            Event::Deleted(object) => (object, true),
            Event::Expired => return false,
        };
        let wanted = object["spec"]["replicas"].as_u64().unwrap_or(1);
        let wanted = if is_gone { 0 } else { wanted };
        let wanted = u32::try_from(wanted).unwrap_or(u32::MAX);
        let (namespace, name) = place(object);
        let key = (namespace.into(), name.into());
        let observed = &object["status"]["observedGeneration"];
        let is_observed = is_gone || *observed == object["metadata"]["generation"];
        let now = self.clock.now();
        self.world().see_deployment(key, wanted, is_observed, now);
        true
    }

    /// Takes in what became of a pod; false if the watch is of no more use.
    pub(super) fn see_pod(&self, event: &Event) -> bool {
        if let Event::Deleted(pod) = event {
            let (namespace, name) = place(pod);
            self.world().miss_pod(namespace, name, self.clock.now());
        }
        *event != Event::Expired
    }

    /// The server behind a host and port, when it lets somebody in.
    pub(super) async fn enter(&self, host: &str, port: u16) -> io::Result<Server> {
        loop {
            let (is_open, is_awake, server) = {
                let world = self.world();
                match world.find(host, port) {
                    _ if host == super::SEED => {
                        let (is_open, is_awake) = world.seed_door();
                        (is_open, is_awake, self.seed.clone())
                    }
                    Some(number) => {
                        let cluster = world.clusters.get(number);
                        let cluster = cluster.ok_or(io::ErrorKind::HostUnreachable)?;
                        let (is_open, is_awake) = (!cluster.is_down(), !cluster.weather.hangs());
                        (is_open, is_awake, cluster.server.clone())
                    }
                    None => return Err(io::ErrorKind::HostUnreachable.into()),
                }
            };
            if !is_open {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            if is_awake {
                return Ok(server);
            }
            sleep(KNOCK).await;
        }
    }
}

/// Namespace and name of an object.
fn place(object: &Value) -> (&str, &str) {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    (text("namespace"), text("name"))
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Landscape").finish_non_exhaustive()
    }
}
