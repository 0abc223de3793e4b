//! Holds the watchdogs to what they promise, by what the seed's API server has and by how the nodes
//! really are; never by what the watchdogs say.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use kelpie_core::{Fraction, Time};
use kelpie_sim::chaos::{self, Case};
use kelpie_sim::resource::DEPLOYMENTS;
use kelpie_sim::scenario::{Fault, Incident, Nodes};
use kelpie_sim::{Event, Happening, Plan, Selection, Watch, What};
use serde_json::Value;

pub(crate) const MARKER: &str = "dependency-watchdog.gardener.cloud/meltdown-protection-active";
pub(crate) const RECORD: &str = "dependency-watchdog.gardener.cloud/replicas";

/// f, as it is by default.
const FAILURE: f64 = 0.6;

/// A node that has not renewed for so long is silent: half the grace period, twice the renewal.
const SILENT: Duration = Duration::from_secs(20);

/// A node that has not renewed for so long is lost to everybody who looks, also in the midst of a release.
const LOST: Duration = Duration::from_secs(50);

/// Where clocks are wrong, nobody knows when a node renewed but by the lists before and after. That its
/// lease stood for a renewal and a quarter is sure.
const STANDING: Duration = Duration::from_millis(12_500);

/// A decision that was right so long ago may still be carried out.
const SLACK: Duration = Duration::from_secs(10);

/// What is fenced stays so until a list of leases proves something else: if somebody scales it up meanwhile, what
/// is done about it rests on a list that is up to a round old, and that on the renewals before.
const STANDING_FENCE: Duration = Duration::from_secs(25);

/// A cluster in which nothing else has gone wrong for so long is held against its deadlines.
const CALM: Duration = Duration::from_mins(4);

/// What stands in a Deployment.
#[derive(Clone, Debug, Default, PartialEq)]
struct Stand {
    replicas: u64,
    is_marked: bool,
    record: Option<String>,
}

/// How much there was to look at.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    pub(crate) fences: usize,
    /// Of them those of kube-controller-manager.
    pub(crate) stops: usize,
    pub(crate) releases: usize,
    /// Partitions that were held against their deadline.
    pub(crate) held: usize,
    /// Writes of somebody who was stopped in their midst, and those of them that changed something.
    pub(crate) late: usize,
    pub(crate) late_done: usize,
}

/// A watchdog that has changed something.
#[derive(Clone, Copy, Debug)]
struct Hand<'a> {
    who: &'a str,
    /// When the request arrived, and when it was done.
    came: Time,
    at: Time,
}

impl Hand<'_> {
    fn is_late(self) -> bool {
        self.at.since(self.came) > SLACK
    }
}

impl fmt::Display for Hand<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.who)
    }
}

pub(crate) struct Auditor {
    case: Case,
    changes: Watch,
    stands: BTreeMap<(String, String), Stand>,
    /// When each was last changed.
    changed: BTreeMap<(String, String), Time>,
    /// When watchdogs last marked a Deployment or scaled it down.
    fenced: BTreeMap<(String, String), Time>,
    /// How many replicas somebody else wants since; at first those of the plan.
    wanted: BTreeMap<(String, String), u64>,
    figures: Figures,
}

impl chaos::Auditor for Auditor {
    type Figures = Figures;

    fn new(case: Case) -> Self {
        let seed = case.landscape.seed();
        let changes = seed.store().watch(&DEPLOYMENTS, Selection::all(), None);
        let start = case.start;
        let mut auditor = Self {
            case,
            changes: changes.unwrap(),
            stands: BTreeMap::new(),
            changed: BTreeMap::new(),
            fenced: BTreeMap::new(),
            wanted: BTreeMap::new(),
            figures: Figures::default(),
        };
        auditor.take_changes(None, start);
        auditor
    }

    fn case(&mut self) -> &mut Case {
        &mut self.case
    }

    fn figures(&self) -> Figures {
        self.figures
    }

    fn see(&mut self, happening: &Happening) {
        let at = happening.at;
        match &happening.what {
            What::Call {
                server,
                came,
                user,
                verb,
                path,
                ..
            } => {
                let is_write = !["get", "list", "watch"].contains(verb);
                if &**server == "seed" && is_write && path.contains("/deployments/") {
                    let hand = Hand {
                        who: user,
                        came: *came,
                        at,
                    };
                    self.figures.late += usize::from(hand.is_late());
                    self.take_changes(Some(hand), at);
                }
            }
            What::NodeUnknown { cluster, node } => {
                self.take_changes(None, at);
                if let Some(incident) = self.held_partition(cluster, at) {
                    // The pods of a fence that was in time may still be slow.
                    if self.stand(cluster, 0).replicas > 0 {
                        let text =
                            format!("{cluster}: {node} turned Unknown in spite of {incident}");
                        self.case.complain(at, &text);
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

    /// At the end everything is as before, or as somebody else wanted it since.
    fn close(&mut self) {
        let now = self.case.landscape.now();
        self.take_changes(None, now);
        for row in self.case.landscape.fleet() {
            for (index, name) in Plan::CONTROLLERS.into_iter().enumerate() {
                let key = (row.cluster.clone(), name.to_owned());
                let stand = self.stands.get(&key).cloned().unwrap_or_default();
                let planned = u64::from(self.case.chaos.plan.replicas[index]);
                let wanted = self.wanted.get(&key).copied().unwrap_or(planned);
                if stand.replicas != wanted || stand.is_marked {
                    let text = format!("{}: {name} is not as it was: {stand:?}", row.cluster);
                    self.case.complain(now, &text);
                }
            }
        }
    }
}

impl Auditor {
    fn stand(&self, cluster: &str, index: usize) -> Stand {
        let key = (cluster.to_owned(), Plan::CONTROLLERS[index].to_owned());
        self.stands.get(&key).cloned().unwrap_or_default()
    }

    /// Takes in what became of the Deployments, by this hand; nobody's: not by a watchdog.
    fn take_changes(&mut self, hand: Option<Hand<'_>>, at: Time) {
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
            let changed = self.changed.insert(key.clone(), at);
            match hand {
                Some(hand) => {
                    if hand.is_late() && changed > Some(hand.came) {
                        let text = format!("{}: {hand} undoes what is newer: {before:?}", key.0);
                        self.case.complain(at, &text);
                    }
                    self.judge(hand, &key, &before, &after);
                }
                // What carries the marker and has none comes back by its record, whoever stopped it.
                None if after.is_marked && after.replicas == 0 => {}
                None => {
                    self.wanted.insert(key, after.replicas);
                }
            }
        }
    }

    /// A watchdog has changed a Deployment.
    fn judge(&mut self, hand: Hand<'_>, key: &(String, String), before: &Stand, after: &Stand) {
        let (at, (cluster, name)) = (hand.at, key);
        // Who was stopped in the midst of a write may have been right when it began. That nothing newer is
        // undone is all that can be asked for; others mend the rest.
        let is_late = hand.is_late();
        self.figures.late_done += usize::from(is_late);
        if !is_late && !self.case.may_act(hand.who) {
            let text = format!("{cluster}: {hand} acts on {name} and does not lead");
            self.case.complain(at, &text);
        }
        let fenced = self.fenced.get(key);
        let stood = before.is_marked && fenced.is_some_and(|fenced| at.since(*fenced) > SLACK);
        let slack = if stood { STANDING_FENCE } else { SLACK };
        let is_marked = after.is_marked && !before.is_marked;
        if is_marked || after.replicas < before.replicas {
            self.fenced.insert(key.clone(), at);
        }
        if after.replicas < before.replicas {
            self.figures.fences += 1;
            self.figures.stops += usize::from(name == Plan::CONTROLLERS[0]);
            let true_record = Some(before.replicas.to_string());
            if !before.is_marked || before.record != true_record {
                let text = format!("{cluster}: {name} scaled down without its record: {before:?}");
                self.case.complain(at, &text);
            }
            if !is_late && !self.was_partitioned(cluster, at, slack) {
                let text = format!("{cluster}: {name} scaled down though nobody was cut off");
                self.case.complain(at, &text);
            }
            if !is_late && !self.is_silent(cluster, at, slack) {
                let text = format!("{cluster}: {name} scaled down while leases keep changing");
                self.case.complain(at, &text);
            }
            self.check_margin(cluster, name, at);
        } else if after.replicas > before.replicas {
            if !before.is_marked {
                let text = format!("{cluster}: {name} scaled up without the marker: {before:?}");
                self.case.complain(at, &text);
            }
            if before.record != Some(after.replicas.to_string()) {
                let text = format!("{cluster}: {name} not restored: {before:?} -> {after:?}");
                self.case.complain(at, &text);
            }
            self.figures.releases += 1;
            if !is_late && self.is_still_silent(key, at) {
                let text = format!("{cluster}: {name} scaled up while its nodes are still silent");
                self.case.complain(at, &text);
            }
        } else if before.is_marked && !after.is_marked && after.replicas == 0 {
            let text = format!("{cluster}: {name} stays fenced without its marker");
            self.case.complain(at, &text);
        }
    }

    /// f of the nodes are silent, or were so long ago.
    fn is_silent(&self, cluster: &str, at: Time, slack: Duration) -> bool {
        let patience = if self.had_wrong_clocks(cluster, at) {
            STANDING
        } else {
            SILENT
        };
        self.are_enough(cluster, |now, before| {
            now >= patience || (now <= slack && before >= patience)
        })
    }

    /// f of the nodes have not renewed since a Deployment was fenced, or for so long that whoever looks
    /// at all knows of it. A decision to fence may have been under way while they were back.
    fn is_still_silent(&self, key: &(String, String), at: Time) -> bool {
        let fenced = self
            .fenced
            .get(key)
            .map_or(at, |fenced| fenced.before(SLACK));
        self.are_enough(&key.0, |now, _| {
            now >= LOST || (now >= SILENT && at.before(now) < fenced)
        })
    }

    /// Whether f of the nodes are such, by how long ago they renewed and how long they had not done so
    /// before that.
    fn are_enough(&self, cluster: &str, is_such: impl Fn(Duration, Duration) -> bool) -> bool {
        let Some(truth) = self.case.landscape.truth(cluster) else {
            return false;
        };
        let such = truth
            .silent
            .iter()
            .filter(|(now, before)| is_such(*now, *before));
        let (such, all) = (such.count(), truth.silent.len());
        Fraction::new(FAILURE)
            .unwrap()
            .is_reached(such.try_into().unwrap(), all.try_into().unwrap())
    }

    /// Clocks of its nodes are wrong, or were until so lately that renewals are still dated by them.
    fn had_wrong_clocks(&self, cluster: &str, at: Time) -> bool {
        self.was_struck(cluster, at, CALM, |fault| {
            matches!(fault, Fault::NodeClock(..))
        })
    }

    /// Some of its nodes are cut off from an API server that is there, or were so long ago.
    fn was_partitioned(&self, cluster: &str, at: Time, slack: Duration) -> bool {
        self.was_struck(cluster, at, slack, |fault| {
            matches!(fault, Fault::Partition(_))
        })
    }

    /// Such a fault strikes the cluster, or did until so long ago.
    fn was_struck(
        &self,
        cluster: &str,
        at: Time,
        lately: Duration,
        is_such: impl Fn(&Fault) -> bool,
    ) -> bool {
        self.case.chaos.scenario.incidents.iter().any(|incident| {
            let (begin, end) = self.case.times(incident);
            is_such(&incident.fault)
                && self.case.is_in(incident, cluster)
                && begin <= at
                && at <= end.after(lately)
        })
    }

    fn check_margin(&mut self, cluster: &str, name: &str, at: Time) {
        if name != Plan::CONTROLLERS[0] || self.held_partition(cluster, at).is_none() {
            return;
        }
        self.figures.held += 1;
        let deadline = self
            .case
            .landscape
            .truth(cluster)
            .and_then(|truth| truth.deadline);
        if let Some(deadline) = deadline
            && at > deadline
        {
            let late = at.since(deadline);
            self.case
                .complain(at, &format!("{cluster}: fenced {late:?} too late"));
        }
    }

    /// A partition that lasted for long has been fenced.
    fn check_ended_partitions(&mut self, at: Time) {
        for row in self.case.landscape.fleet() {
            let cluster = &row.cluster;
            let ended = |incident: &Incident| {
                let (_, end) = self.case.times(incident);
                let long = incident.lasts > Some(Duration::from_secs(50));
                at >= end && at.since(end) < Duration::from_millis(100) && long
            };
            let Some(incident) = self.held_partition(cluster, at).filter(ended) else {
                continue;
            };
            if self.stand(cluster, 0).replicas > 0 {
                self.case
                    .complain(at, &format!("{cluster}: not fenced during {incident}"));
            }
        }
    }

    /// The partition of enough of a cluster's nodes that is all that goes wrong there.
    fn held_partition(&self, cluster: &str, at: Time) -> Option<Incident> {
        let mut found = None;
        for incident in &self.case.chaos.scenario.incidents {
            let (begin, end) = self.case.times(incident);
            let is_here = incident.fault.is_everywhere() || self.case.is_in(incident, cluster);
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
        found
    }

    /// Whether these nodes are f of a cluster's, and two at least.
    fn is_enough(&self, nodes: Nodes) -> bool {
        let (meant, all) = (self.case.nodes_in(nodes), self.case.chaos.plan.nodes);
        let f = Fraction::new(FAILURE).unwrap();
        f.is_reached(meant.try_into().unwrap(), all.try_into().unwrap())
    }
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
