//! Holds the watchdogs to what they promise, by what the seed's API server has and by how the nodes
//! really are; never by what the watchdogs say.

use std::collections::BTreeMap;
use std::time::Duration;

use kelpie_core::{Fraction, Time};
use kelpie_sim::resource::DEPLOYMENTS;
use kelpie_sim::scenario::{Clusters, Fault, Incident, Nodes};
use kelpie_sim::{Event, Happening, Landscape, Plan, Selection, Watch, What};
use serde_json::Value;

use crate::chaos::Chaos;
use crate::run::holder;

const MARKER: &str = "dependency-watchdog.gardener.cloud/meltdown-protection-active";
const RECORD: &str = "dependency-watchdog.gardener.cloud/replicas";

/// f, as it is by default.
const FAILURE: f64 = 0.6;

/// A node that has not renewed for so long is silent: half the grace period, twice the renewal.
const SILENT: Duration = Duration::from_secs(20);

/// A decision that was right so long ago may still be carried out.
const SLACK: Duration = Duration::from_secs(10);

/// A cluster in which nothing else has gone wrong for so long is held against its deadlines.
const CALM: Duration = Duration::from_mins(4);

/// What stands in a Deployment.
#[derive(Clone, Debug, Default, PartialEq)]
struct Stand {
    replicas: u64,
    is_marked: bool,
    record: Option<String>,
}

pub(crate) struct Auditor {
    landscape: Landscape,
    plan: Plan,
    incidents: Vec<Incident>,
    elected: bool,
    start: Time,
    changes: Watch,
    stands: BTreeMap<(String, String), Stand>,
    /// Deployments that somebody else has scaled.
    meddled: Vec<(String, String)>,
    pub(crate) wrong: Vec<String>,
    pub(crate) held: usize,
    pub(crate) fences: usize,
    /// Of them those of kube-controller-manager.
    pub(crate) stops: usize,
}

impl Auditor {
    pub(crate) fn new(landscape: &Landscape, chaos: &Chaos) -> Self {
        let seed = landscape.seed();
        let changes = seed.store().watch(&DEPLOYMENTS, Selection::all(), None);
        let mut auditor = Self {
            landscape: landscape.clone(),
            plan: chaos.plan.clone(),
            incidents: chaos.scenario.incidents.clone(),
            elected: chaos.watchdogs > 1,
            start: landscape.now(),
            changes: changes.unwrap(),
            stands: BTreeMap::new(),
            meddled: Vec::new(),
            wrong: Vec::new(),
            held: 0,
            fences: 0,
            stops: 0,
        };
        auditor.take_changes(None, auditor.start);
        auditor
    }

    pub(crate) fn see(&mut self, happening: &Happening) {
        let at = happening.at;
        match &happening.what {
            What::Call {
                server,
                user,
                verb,
                path,
                ..
            } => {
                let is_write = !["get", "list", "watch"].contains(verb);
                if &**server == "seed" && is_write && path.contains("/deployments/") {
                    self.take_changes(Some(user), at);
                }
            }
            What::NodeUnknown { cluster, node } => {
                self.take_changes(None, at);
                if let Some(incident) = self.held_partition(cluster, at) {
                    // The pods of a fence that was in time may still be slow.
                    if self.stand(cluster, 0).replicas > 0 {
                        let text =
                            format!("{cluster}: {node} turned Unknown in spite of {incident}");
                        self.complain(at, &text);
                    }
                }
            }
            What::FaultEnded { .. } => {
                self.take_changes(None, at);
                self.check_ended_partitions(at);
            }
            _ => self.take_changes(None, at),
        }
    }

    /// At the end everything is as before.
    pub(crate) fn close(&mut self) {
        let now = self.landscape.now();
        self.take_changes(None, now);
        for row in self.landscape.fleet() {
            for (index, name) in Plan::CONTROLLERS.into_iter().enumerate() {
                let key = (row.cluster.clone(), name.to_owned());
                if self.meddled.contains(&key) {
                    continue;
                }
                let stand = self.stands.get(&key).cloned().unwrap_or_default();
                let usual = u64::from(self.plan.replicas[index]);
                if stand.replicas != usual || stand.is_marked {
                    let text = format!("{}: {name} is not as it was: {stand:?}", row.cluster);
                    self.complain(now, &text);
                }
            }
        }
    }

    fn complain(&mut self, at: Time, text: &str) {
        let seconds = at.since(self.start).as_secs_f64();
        self.wrong.push(format!("{seconds:.3}s ({at}) {text}"));
    }

    fn stand(&self, cluster: &str, index: usize) -> Stand {
        let key = (cluster.to_owned(), Plan::CONTROLLERS[index].to_owned());
        self.stands.get(&key).cloned().unwrap_or_default()
    }

    /// Takes in what became of the Deployments, by the hand of `who`; nobody: not by a watchdog.
    fn take_changes(&mut self, who: Option<&str>, at: Time) {
        while let Some(event) = self.changes.try_next() {
            let object = match event {
                Event::Added(object) | Event::Modified(object) => object,
                Event::Deleted(_) | Event::Expired => continue,
            };
            let (key, after) = read(&object);
            let before = self.stands.insert(key.clone(), after.clone());
            let before = before.unwrap_or_else(|| after.clone());
            if before == after {
                continue;
            }
            match who {
                Some(who) => self.judge(who, &key, &before, &after, at),
                None => self.meddled.push(key),
            }
        }
    }

    /// A watchdog has changed a Deployment.
    fn judge(
        &mut self,
        who: &str,
        key: &(String, String),
        before: &Stand,
        after: &Stand,
        at: Time,
    ) {
        let (cluster, name) = key;
        if self.elected && holder(&self.landscape).as_deref() != Some(who) {
            self.complain(
                at,
                &format!("{cluster}: {who} acts on {name} and does not lead"),
            );
        }
        if after.replicas < before.replicas {
            self.fences += 1;
            self.stops += usize::from(name == Plan::CONTROLLERS[0]);
            let true_record = Some(before.replicas.to_string());
            if !before.is_marked || before.record != true_record {
                let text = format!("{cluster}: {name} scaled down without its record: {before:?}");
                self.complain(at, &text);
            }
            if !self.was_partitioned(cluster, at) {
                let text = format!("{cluster}: {name} scaled down though nobody was cut off");
                self.complain(at, &text);
            }
            if !self.is_silent(cluster) {
                let text = format!("{cluster}: {name} scaled down while leases keep changing");
                self.complain(at, &text);
            }
            self.check_margin(cluster, name, at);
        } else if after.replicas > before.replicas {
            if !before.is_marked {
                let text = format!("{cluster}: {name} scaled up without the marker: {before:?}");
                self.complain(at, &text);
            }
            if before.record != Some(after.replicas.to_string()) {
                let text = format!("{cluster}: {name} not restored: {before:?} -> {after:?}");
                self.complain(at, &text);
            }
        } else if before.is_marked && !after.is_marked && after.replicas == 0 {
            let text = format!("{cluster}: {name} stays fenced without its marker");
            self.complain(at, &text);
        }
    }

    /// f of the nodes are silent, or were a moment ago.
    fn is_silent(&self, cluster: &str) -> bool {
        let Some(truth) = self.landscape.truth(cluster) else {
            return false;
        };
        let silent = truth
            .silent
            .iter()
            .filter(|(now, before)| *now >= SILENT || (*now <= SLACK && *before >= SILENT));
        let (silent, all) = (silent.count(), truth.silent.len());
        Fraction::new(FAILURE)
            .unwrap()
            .is_reached(silent.try_into().unwrap(), all.try_into().unwrap())
    }

    /// Some of its nodes are cut off from an API server that is there, or were a moment ago.
    fn was_partitioned(&self, cluster: &str, at: Time) -> bool {
        let number = (0..self.plan.clusters).find(|n| self.plan.cluster_name(*n) == cluster);
        self.incidents.iter().any(|incident| {
            let (begin, end) = self.times(incident);
            let is_partition = matches!(incident.fault, Fault::Partition(_));
            let is_here = number.is_some_and(|number| self.is_meant(incident, number));
            is_partition && is_here && begin <= at && at <= end.after(SLACK)
        })
    }

    fn check_margin(&mut self, cluster: &str, name: &str, at: Time) {
        if name != Plan::CONTROLLERS[0] || self.held_partition(cluster, at).is_none() {
            return;
        }
        self.held += 1;
        let deadline = self
            .landscape
            .truth(cluster)
            .and_then(|truth| truth.deadline);
        if let Some(deadline) = deadline
            && at > deadline
        {
            let late = at.since(deadline);
            self.complain(at, &format!("{cluster}: fenced {late:?} too late"));
        }
    }

    /// A partition that lasted for long has been fenced.
    fn check_ended_partitions(&mut self, at: Time) {
        for row in self.landscape.fleet() {
            let cluster = &row.cluster;
            let ended = |incident: &Incident| {
                let (_, end) = self.times(incident);
                let long = incident.lasts > Some(Duration::from_secs(50));
                at >= end && at.since(end) < Duration::from_millis(100) && long
            };
            let Some(incident) = self.held_partition(cluster, at).filter(ended) else {
                continue;
            };
            if self.stand(cluster, 0).replicas > 0 {
                self.complain(at, &format!("{cluster}: not fenced during {incident}"));
            }
        }
    }

    fn times(&self, incident: &Incident) -> (Time, Time) {
        let begin = self.start.after(incident.at);
        (begin, begin.after(incident.lasts.unwrap_or_default()))
    }

    /// The partition of enough of a cluster's nodes that is all that goes wrong there.
    fn held_partition(&self, cluster: &str, at: Time) -> Option<Incident> {
        let number = (0..self.plan.clusters).find(|n| self.plan.cluster_name(*n) == cluster)?;
        let mut found = None;
        for incident in &self.incidents {
            let (begin, end) = self.times(incident);
            let is_here = incident.fault.is_everywhere() || self.is_meant(incident, number);
            let is_near = begin <= at && at <= end.after(CALM);
            if !is_here || !is_near {
                continue;
            }
            match &incident.fault {
                Fault::Partition(nodes) if at <= end && found.is_none() => {
                    if !self.is_enough(*nodes) {
                        return None;
                    }
                    found = Some(incident.clone());
                }
                Fault::NodeClock(..)
                | Fault::WatchdogClock(_)
                | Fault::Rotation
                | Fault::SlowPods(_)
                | Fault::WatchDrop => {}
                _ => return None,
            }
        }
        let key = (cluster.to_owned(), Plan::CONTROLLERS[0].to_owned());
        found.filter(|_| !self.meddled.contains(&key))
    }

    /// Whether these nodes are f of a cluster's, and two at least.
    fn is_enough(&self, nodes: Nodes) -> bool {
        let all = self.plan.nodes;
        let meant = match nodes {
            Nodes::All => all,
            Nodes::Share(share) => part(share, all),
            Nodes::Zone(zone) => (0..all).filter(|n| n % self.plan.zones == zone).count(),
        };
        let f = Fraction::new(FAILURE).unwrap();
        f.is_reached(meant.try_into().unwrap(), all.try_into().unwrap())
    }

    fn is_meant(&self, incident: &Incident, number: usize) -> bool {
        match &incident.clusters {
            Clusters::All => true,
            Clusters::Share(share) => number < part(*share, self.plan.clusters),
            Clusters::Numbers(numbers) => numbers.contains(&number),
        }
    }
}

/// A share of `count`, rounded up.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a few nodes or clusters"
)]
fn part(share: f64, count: usize) -> usize {
    (share * count as f64 - 1e-9).ceil() as usize
}

fn read(object: &Value) -> ((String, String), Stand) {
    let metadata = &object["metadata"];
    let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
    let annotations = &metadata["annotations"];
    let stand = Stand {
        replicas: object["spec"]["replicas"].as_u64().unwrap_or(1),
        is_marked: annotations.get(MARKER).is_some(),
        record: annotations[RECORD].as_str().map(str::to_owned),
    };
    ((text("namespace"), text("name")), stand)
}
