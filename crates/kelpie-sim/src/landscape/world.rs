//! Everything of a landscape that changes, and the one schedule that changes it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use kelpie_config::scenario::{Fault, Incident};
use kelpie_core::Time;

use super::authority::Authority;
use super::cluster::{Cluster, Scene};
use super::happening::{Happening, What};
use super::report::{Controller, Damage, Row};
use super::script::{Due, Script};
use super::snare::Snare;
use super::{Order, Plan};
use crate::actor::{Deployments, Key};
use crate::fault::{Weather, numbers};
use crate::field;
use crate::resource::DEPLOYMENTS;
use crate::server::{Call, Fate, Listening, Server, User};
use crate::store::{Part, Store};

/// Where API servers listen.
const LOOPBACK: &str = "127.0.0.1";

/// Who is to act; at the same instant in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Actor {
    Script,
    Pods,
    Cluster(usize),
}

/// A landscape's state. Everything happens at once and as a whole; nobody waits in here.
#[derive(Debug)]
pub(super) struct World {
    pub(super) plan: Plan,
    pub(super) seed: Server,
    pub(super) clusters: Vec<Cluster>,
    pub(super) numbers: BTreeMap<Arc<str>, usize>,
    /// Vouches for the API servers.
    pub(super) authority: Authority,
    /// The clusters by their ports on loopback, where they listen.
    pub(super) ports: BTreeMap<u16, usize>,
    weather: Weather,
    deployments: Deployments,
    /// What the script has scaled, and to how many: whoever else does so is the watchdog.
    scaled_by_others: BTreeSet<(Key, u32)>,
    script: Script,
    wakes: BinaryHeap<Reverse<(Time, Actor)>>,
    rng: Rng,
    /// Decides which of several connections goes first, if anybody wants that.
    pub(super) shuffle: Option<Rng>,
    /// The watchdog's clock is wrong by so many milliseconds.
    pub(super) clock_offset: i64,
    damage: Damage,
    /// When the first fault began.
    disturbed: Option<Time>,
    /// When something was last not as usual.
    last_trouble: Time,
    /// How late somebody acted, at worst, since somebody asked.
    pub(super) lag: Duration,
    /// What has happened and was not told yet.
    pub(super) happened: Vec<Happening>,
    /// For processes that are to stop in the midst of a write, by name.
    pub(super) snares: BTreeMap<Arc<str>, Snare>,
    /// What the watchdog's keeper has to do.
    pub(super) orders: Vec<Order>,
}

impl World {
    pub(super) fn new(plan: Plan, seed: Server, authority: Authority) -> Self {
        super::objects::prepare(seed.store());
        let mut rng = Rng::with_seed(plan.seed);
        Self {
            deployments: Deployments::new(plan.pod_start, plan.pod_stop),
            weather: Weather::new(plan.latency, rng.fork()),
            scaled_by_others: BTreeSet::new(),
            rng,
            plan,
            seed,
            clusters: Vec::new(),
            numbers: BTreeMap::new(),
            authority,
            ports: BTreeMap::new(),
            script: Script::default(),
            wakes: BinaryHeap::new(),
            shuffle: None,
            clock_offset: 0,
            damage: Damage::default(),
            disturbed: None,
            last_trouble: Time::MIN,
            lag: Duration::ZERO,
            happened: Vec::new(),
            snares: BTreeMap::new(),
            orders: Vec::new(),
        }
    }

    /// Adds a cluster whose API server is `server`, which the watchdog finds under `url`.
    pub(super) fn add(&mut self, server: Server, url: String, now: Time) {
        let number = self.clusters.len();
        let name: Arc<str> = self.plan.cluster_name(number).into();
        let seed = self.seed.store();
        let place = (Arc::clone(&name), url);
        let mut cluster = Cluster::new(place, server, &self.plan, seed, self.rng.fork(), now);
        for (controller, count) in Plan::CONTROLLERS.into_iter().zip(self.plan.replicas) {
            super::objects::deployment(seed, &name, controller, count);
            let key = (Arc::clone(&name), controller.into());
            self.deployments.add(seed, key, count, now);
        }
        cluster.rotate(seed, &self.authority.pem);
        super::objects::cluster(seed, &name, &self.plan);
        self.wakes
            .push(Reverse((cluster.next(), Actor::Cluster(number))));
        self.clusters.push(cluster);
        self.numbers.insert(name, number);
    }

    /// The API servers listen there, the seed's first: the kubeconfigs of the clusters lead there from now
    /// on. Gives one for all of them.
    pub(super) fn open(&mut self, listening: &[Listening]) -> String {
        const TOKEN: &str = "admin";
        let urls: Vec<String> = listening.iter().map(Listening::url).collect();
        self.seed.users().add_token(TOKEN, User::admin());
        let doors = listening.iter().zip(&urls).skip(1);
        for ((number, cluster), (listening, url)) in self.clusters.iter_mut().enumerate().zip(doors)
        {
            cluster.server.users().add_token(TOKEN, User::admin());
            self.ports.insert(listening.address().port(), number);
            cluster.url.clone_from(url);
            cluster.rotate(self.seed.store(), &self.authority.pem);
        }
        let names = self.clusters.iter().map(|cluster| &*cluster.name);
        let names = [super::SEED].into_iter().chain(names);
        let servers: Vec<(&str, &str)> = names.zip(urls.iter().map(String::as_str)).collect();
        super::objects::kubeconfig(&servers, &self.authority.pem, TOKEN)
    }

    /// The number of the cluster that a link finds under this host and port.
    pub(super) fn find(&self, host: &str, port: u16) -> Option<usize> {
        match host {
            LOOPBACK => self.ports.get(&port).copied(),
            name => self.numbers.get(name).copied(),
        }
    }

    /// Puts incidents on the timeline, counted from `now`.
    pub(super) fn play(&mut self, incidents: &[Incident], now: Time) {
        for incident in incidents {
            self.script.add(incident, now);
        }
        self.wake_script();
    }

    /// What becomes of a request to the seed.
    pub(super) fn seed_fate(&mut self, call: &Call) -> Fate {
        let snare = self.snares.get_mut(&*call.user.name);
        if let Some(goes_on) = snare.and_then(|snare| snare.spring(call)) {
            return Fate::held(goes_on);
        }
        self.weather.fate()
    }

    /// Whether the seed lets anybody in, and whether it does so soon.
    pub(super) fn seed_door(&self) -> (bool, bool) {
        (!self.weather.is_down(), !self.weather.hangs())
    }

    pub(super) fn tell(&mut self, at: Time, what: What) {
        self.happened.push(Happening { at, what });
    }

    /// A Deployment was written.
    pub(super) fn see_deployment(&mut self, key: Key, wanted: u32, is_observed: bool, now: Time) {
        let (before, _) = self.deployments.count(&key);
        let is_somebodys = self.scaled_by_others.remove(&(key.clone(), wanted));
        if *key.1 == *Plan::CONTROLLERS[0]
            && let Some(number) = self.numbers.get(&key.0)
            && let Some(cluster) = self.clusters.get_mut(*number)
        {
            if wanted > 0 {
                cluster.is_fenced = false;
            } else if before > 0 && !is_somebodys {
                cluster.is_fenced = true;
                let deadline = cluster.deadline(self.plan.grace);
                let deadline = deadline.filter(|_| cluster.cut_off() > 0);
                cluster.margin = deadline.map(|deadline| signed(deadline, now));
                self.damage.margins.extend(cluster.margin);
            }
        }
        self.deployments.see(key, wanted, is_observed, now);
        if let Some(at) = self.deployments.next() {
            self.wakes.push(Reverse((at, Actor::Pods)));
        }
    }

    /// A pod in the namespace of a cluster is gone.
    pub(super) fn miss_pod(&mut self, namespace: &str, pod: &str, now: Time) {
        let Some(number) = self.numbers.get(namespace).copied() else {
            return;
        };
        let Some(cluster) = self.clusters.get_mut(number) else {
            return;
        };
        if let Some(what) = cluster.miss(self.seed.store(), pod, now) {
            let next = cluster.next();
            self.wakes.push(Reverse((next, Actor::Cluster(number))));
            self.last_trouble = now;
            self.tell(now, what);
        }
    }

    /// Lets everybody act whose time has come; gives the next time.
    pub(super) fn step(&mut self, now: Time) -> Time {
        while let Some(Reverse((at, actor))) = self.wakes.peek().copied() {
            if at > now {
                return at;
            }
            self.wakes.pop();
            self.lag = self.lag.max(now.since(at));
            match actor {
                Actor::Script => self.step_script(now),
                Actor::Pods => self.step_pods(now),
                Actor::Cluster(number) => self.step_cluster(number, now),
            }
        }
        Time::MAX
    }

    fn wake_script(&mut self) {
        if let Some(at) = self.script.next() {
            self.wakes.push(Reverse((at, Actor::Script)));
        }
    }

    fn step_script(&mut self, now: Time) {
        while let Some(due) = self.script.due(now) {
            self.last_trouble = now;
            match due {
                Due::Begin(number, incident) => {
                    self.disturbed.get_or_insert(now);
                    let fault = incident.to_string();
                    self.tell(now, What::FaultBegan { fault });
                    self.begin(number, &incident, now);
                }
                Due::End(number, incident) => {
                    let fault = incident.to_string();
                    self.tell(now, What::FaultEnded { fault });
                    self.end(number, &incident, now);
                }
            }
        }
        self.wake_script();
    }

    fn begin(&mut self, number: usize, incident: &Incident, now: Time) {
        let fault = &incident.fault;
        match fault {
            Fault::WatchdogClock(by) => self.clock_offset += by,
            Fault::SlowPods(by) => self.deployments.slow_down(number, *by),
            Fault::Crash => self.orders.push(Order::Crash),
            Fault::Pause => self.orders.push(Order::Pause),
            Fault::WatchDrop => self.drop_watches(),
            _ if fault.is_everywhere() => {
                self.weather.begin(number, fault);
                if matches!(fault, Fault::StaleReads(_)) {
                    self.weather.remember(number, self.seed.store().copy());
                }
                self.feel_weather();
            }
            _ => {
                for meant in numbers(&incident.clusters, self.clusters.len()) {
                    self.begin_in(meant, number, fault, now);
                }
            }
        }
    }

    fn begin_in(&mut self, meant: usize, number: usize, fault: &Fault, now: Time) {
        let Some(cluster) = self.clusters.get_mut(meant) else {
            return;
        };
        let seed = self.seed.store();
        match fault {
            Fault::Rotation => cluster.rotate(seed, &self.authority.pem),
            Fault::Scale {
                controller,
                replicas,
            } => {
                let key = (Arc::clone(&cluster.name), controller.as_str().into());
                if self.deployments.count(&key).0 != *replicas {
                    self.scaled_by_others.insert((key, *replicas));
                }
                scale(seed, &cluster.name, controller, *replicas);
            }
            _ => {
                cluster.begin(number, fault, seed, now);
                let next = cluster.next();
                self.wakes.push(Reverse((next, Actor::Cluster(meant))));
            }
        }
    }

    fn end(&mut self, number: usize, incident: &Incident, now: Time) {
        match &incident.fault {
            Fault::WatchdogClock(by) => self.clock_offset -= by,
            Fault::SlowPods(_) => self.deployments.speed_up(number),
            Fault::Crash => self.orders.push(Order::Start),
            Fault::Pause => self.orders.push(Order::Resume),
            fault if fault.is_everywhere() => {
                self.weather.end(number);
                self.feel_weather();
            }
            fault => {
                for meant in numbers(&incident.clusters, self.clusters.len()) {
                    if let Some(cluster) = self.clusters.get_mut(meant) {
                        cluster.end(number, fault, self.seed.store(), now);
                        let next = cluster.next();
                        self.wakes.push(Reverse((next, Actor::Cluster(meant))));
                    }
                }
            }
        }
    }

    fn feel_weather(&mut self) {
        if self.weather.is_down() {
            self.seed.cut_watches(|_| true);
        }
        self.seed.hold_watches(self.weather.hangs());
    }

    fn drop_watches(&mut self) {
        use super::objects::CLUSTERS;
        use crate::actor::MACHINES;
        use crate::resource::{ENDPOINT_SLICES, PODS, SECRETS};

        self.seed.cut_watches(|_| true);
        for resource in [CLUSTERS, MACHINES, SECRETS, ENDPOINT_SLICES, PODS] {
            self.seed.store().compact(&resource);
        }
    }

    fn step_pods(&mut self, now: Time) {
        for ((cluster, controller), count) in self.deployments.step(self.seed.store(), now) {
            self.last_trouble = now;
            if let Some(number) = self.numbers.get(&cluster)
                && let Some(cluster) = self.clusters.get_mut(*number)
            {
                cluster.pods(&controller, count, now);
            }
            let pods = What::Pods {
                cluster,
                controller,
                count,
            };
            self.tell(now, pods);
        }
        if let Some(at) = self.deployments.next() {
            self.wakes.push(Reverse((at, Actor::Pods)));
        }
    }

    fn step_cluster(&mut self, number: usize, now: Time) {
        let Some(cluster) = self.clusters.get_mut(number) else {
            return;
        };
        // A wake that was superseded by an earlier one.
        if cluster.next() > now {
            return;
        }
        let mut happened = Vec::new();
        let mut scene = Scene {
            seed: self.seed.store(),
            now,
            damage: &mut self.damage,
            happened: &mut happened,
        };
        cluster.step(&mut scene);
        let next = cluster.next();
        self.wakes.push(Reverse((next, Actor::Cluster(number))));
        if !happened.is_empty() || !self.is_usual(number) {
            self.last_trouble = now;
        }
        for what in happened {
            self.tell(now, what);
        }
    }

    /// Everything in a cluster is as in the beginning.
    fn is_usual(&self, number: usize) -> bool {
        let Some(cluster) = self.clusters.get(number) else {
            return true;
        };
        let controllers = self.controllers(&cluster.name);
        let usual = |one: Controller| one.wanted == one.usual && one.present == one.usual;
        cluster.is_whole() && controllers.into_iter().all(usual)
    }

    fn controllers(&self, cluster: &Arc<str>) -> [Controller; 3] {
        let one = |index: usize| {
            let key = (Arc::clone(cluster), Plan::CONTROLLERS[index].into());
            let (wanted, present) = self.deployments.count(&key);
            let usual = self.plan.replicas[index];
            Controller {
                wanted,
                present,
                usual,
            }
        };
        [one(0), one(1), one(2)]
    }

    pub(super) fn rows(&self, now: Time) -> Vec<Row> {
        let row = |(number, cluster): (usize, &Cluster)| {
            let whole = cluster.nodes.iter();
            let ready = whole.filter(|node| node.health == crate::actor::Health::Ready);
            let ready = ready.count();
            Row {
                cluster: cluster.name.to_string(),
                ready,
                unknown: cluster.nodes.len() - ready,
                cut_off: cluster.cut_off(),
                is_down: cluster.is_down(),
                controllers: self.controllers(&cluster.name).to_vec(),
                faults: self.script.active_in(number, self.clusters.len()),
                deadline: cluster
                    .deadline(self.plan.grace)
                    .map(|deadline| signed(deadline, now)),
                is_fenced: cluster.is_fenced,
                margin: cluster.margin,
            }
        };
        self.clusters.iter().enumerate().map(row).collect()
    }

    pub(super) fn damage(&self, now: Time) -> Damage {
        let is_normal =
            self.script.is_quiet() && (0..self.clusters.len()).all(|n| self.is_usual(n));
        let lasted = self.disturbed.map(|since| self.last_trouble.since(since));
        let down = self.clusters.iter().map(|cluster| cluster.down(now));
        Damage {
            api_seconds_lost: down.sum::<Duration>().as_secs_f64(),
            seconds_to_normal: lasted
                .filter(|_| is_normal)
                .map(|lasted| lasted.as_secs_f64()),
            ..self.damage.clone()
        }
    }
}

/// As somebody else would.
fn scale(seed: &Store, cluster: &str, controller: &str, replicas: u32) {
    // Somebody who errs in the name does nothing.
    let _ = seed.modify(&DEPLOYMENTS, cluster, controller, Part::Object, |object| {
        field::set(object, "/spec/replicas", replicas);
    });
}

/// Seconds from `now` to `then`; below zero if that is past.
fn signed(then: Time, now: Time) -> f64 {
    then.since(now).as_secs_f64() - now.since(then).as_secs_f64()
}
