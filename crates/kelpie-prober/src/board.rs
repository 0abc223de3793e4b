//! What the prober knows of its clusters, for people: `/debug/state`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kelpie_core::fence::{FlowReport, Sight};
use kelpie_core::{Decision, Fence, ResourceRef, Time};
use serde::Serialize;

/// The clusters that are probed, by name. Clones are the same board.
#[derive(Clone, Debug, Default)]
pub(crate) struct Board {
    clusters: Arc<Mutex<BTreeMap<Arc<str>, Slot>>>,
    /// Why others have no probe.
    absent: Arc<Mutex<BTreeMap<String, String>>>,
}

/// The place of one cluster on the board; it is wiped when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    name: Arc<str>,
    slot: Slot,
    board: Board,
}

type Slot = Arc<Mutex<ClusterState>>;

/// What is known of one cluster.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterState {
    /// The last decision; `None` before the first round.
    pub decision: Option<Decision>,
    /// What the targets look like, taken together.
    pub fence: Option<Fence>,
    /// Since when the cluster is known to be fenced.
    pub fenced_since: Option<Time>,
    /// Each target, as last read.
    pub targets: Vec<TargetState>,
    /// How the last flow ended.
    pub last_flow: Option<LastFlow>,
    /// What stands in the way of a round or a write, now.
    pub troubles: Vec<String>,
}

/// One target, as last read.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetState {
    /// Which.
    pub resource: ResourceRef,
    /// What was seen; `None`: not read yet.
    pub sight: Option<Sight>,
}

/// How the last flow ended.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LastFlow {
    /// When.
    pub at: Time,
    /// How.
    pub report: FlowReport,
}

/// The whole board at one instant, as `/debug/state` shows it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// The instant.
    pub at: Time,
    /// This replica acts.
    pub leads: bool,
    /// Nothing is written.
    pub dry_run: bool,
    /// The clusters by name.
    pub clusters: BTreeMap<String, Shown>,
}

/// One cluster, as it is shown.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Shown {
    /// The last decision in plain words. Made when asked for: nobody reads most of them.
    pub in_words: String,
    /// The same word by word, for who lays them out; `None` before the first round.
    pub words: Option<Words>,
    /// The rest.
    #[serde(flatten)]
    pub state: ClusterState,
}

/// The parts of a decision that have words of their own.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Words {
    /// The rule that applied.
    pub rule: String,
    /// Nodes that do not count, by cause, each with its number.
    pub excluded: Vec<String>,
    /// What the next look is for.
    pub next_look: String,
}

/// The answer about a cluster that has no probe.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Unprobed {
    /// What is wrong.
    pub error: String,
    /// Why there is no probe, if there is such a Cluster.
    pub reason: Option<String>,
    /// Clusters with names like it, if there is none.
    pub near: Vec<String>,
}

/// Names that are offered instead.
const MOST_NEAR: usize = 5;
/// Names with this many wrong letters are still near.
const NEAR: usize = 3;

impl Board {
    /// A cluster takes its place.
    pub(crate) fn place(&self, cluster: &Arc<str>) -> Place {
        let slot = Slot::default();
        lock(&self.clusters).insert(Arc::clone(cluster), Arc::clone(&slot));
        Place {
            name: Arc::clone(cluster),
            slot,
            board: self.clone(),
        }
    }

    /// All clusters, or those of one name.
    pub(crate) fn clusters(&self, only: Option<&str>) -> BTreeMap<String, Shown> {
        let slots: Vec<(Arc<str>, Slot)> = lock(&self.clusters)
            .iter()
            .filter(|(name, _)| only.is_none_or(|only| ***name == *only))
            .map(|(name, slot)| (Arc::clone(name), Arc::clone(slot)))
            .collect();
        let show = |(name, slot): (Arc<str>, Slot)| (name.to_string(), Shown::new(&slot));
        slots.into_iter().map(show).collect()
    }

    /// Why a cluster has no probe; `None`: it has one, or there is no such cluster.
    pub(crate) fn explain_absence(&self, cluster: String, why: Option<String>) {
        let mut absent = lock(&self.absent);
        match why {
            Some(why) => absent.insert(cluster, why),
            None => absent.remove(&cluster),
        };
    }

    /// Forgets the absent clusters that are not there any more.
    pub(crate) fn keep_absent(&self, is_there: impl Fn(&str) -> bool) {
        lock(&self.absent).retain(|cluster, _| is_there(cluster));
    }

    /// What to say about a cluster that is not here.
    pub(crate) fn unprobed(&self, cluster: &str) -> Unprobed {
        let error = format!("cluster {cluster:?} is not probed");
        let (clusters, absent) = (lock(&self.clusters), lock(&self.absent));
        let reason = absent.get(cluster).cloned();
        if reason.is_some() {
            let near = Vec::new();
            return Unprobed {
                error,
                reason,
                near,
            };
        }
        let names = clusters.keys().map(|name| &**name);
        let names = names.chain(absent.keys().map(String::as_str));
        let mut near: Vec<(usize, &str)> = names
            .filter_map(|name| Some((distance(name, cluster)?, name)))
            .collect();
        near.sort_unstable();
        near.dedup();
        near.truncate(MOST_NEAR);
        Unprobed {
            error,
            reason,
            near: near.into_iter().map(|(_, name)| name.to_owned()).collect(),
        }
    }
}

/// How far a name is from what was asked for; `None`: too far. A part of the name is near: people
/// leave out the project.
fn distance(name: &str, asked: &str) -> Option<usize> {
    if !asked.is_empty() && name.contains(asked) {
        return Some(0);
    }
    // Also a bound: the distance of long texts is slow to find.
    if name.len().abs_diff(asked.len()) > NEAR {
        return None;
    }
    let distance = strsim::damerau_levenshtein(name, asked);
    // Of a short name nothing would be left.
    (distance <= NEAR && 3 * distance <= asked.len()).then_some(distance)
}

impl Shown {
    fn new(slot: &Slot) -> Self {
        Self::from(lock(slot).clone())
    }
}

impl From<ClusterState> for Shown {
    fn from(state: ClusterState) -> Self {
        Self {
            in_words: state.decision.map_or_else(
                || "No round has ended yet.".to_owned(),
                |decision| decision.to_string(),
            ),
            words: state.decision.as_ref().map(Words::from),
            state,
        }
    }
}

impl From<&Decision> for Words {
    fn from(decision: &Decision) -> Self {
        let reasons = &decision.reasons;
        let excluded = reasons.leases.iter();
        let excluded = excluded.flat_map(|leases| leases.excluded.iter());
        Self {
            rule: reasons.rule.to_string(),
            excluded: excluded
                .map(|(cause, count)| format!("{count} {cause}"))
                .collect(),
            next_look: decision.next_wake.reason.to_string(),
        }
    }
}

impl Place {
    /// Changes what the board shows.
    pub(crate) fn update(&self, change: impl FnOnce(&mut ClusterState)) {
        change(&mut lock(&self.slot));
    }

    /// The last decision.
    pub(crate) fn decision(&self) -> Option<Decision> {
        lock(&self.slot).decision
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut clusters = lock(&self.board.clusters);
        // A successor may have taken the place.
        if clusters
            .get(&self.name)
            .is_some_and(|slot| Arc::ptr_eq(slot, &self.slot))
        {
            clusters.remove(&self.name);
        }
    }
}

/// A panic elsewhere leaves old values behind, which is better than none.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_wiped_when_dropped_but_not_its_successors() {
        let board = Board::default();
        let name: Arc<str> = "a".into();
        let first = board.place(&name);
        let second = board.place(&name);
        second.update(|state| state.troubles.push("second".into()));
        drop(first);
        assert_eq!(board.clusters(Some("a"))["a"].state.troubles, ["second"]);
        assert!(board.clusters(Some("b")).is_empty());
        drop(second);
        assert!(board.clusters(None).is_empty());
    }

    #[test]
    fn near_names_are_offered_the_nearest_first() {
        let board = Board::default();
        let names = ["shoot--dev--one", "shoot--dev--two", "shoot--ops--one", "x"];
        let places = names.map(|name| board.place(&name.into()));
        board.explain_absence("shoot--ops--asleep".into(), Some("it sleeps".into()));
        for (asked, near) in [
            ("one", &["shoot--dev--one", "shoot--ops--one"][..]),
            ("shoot--dev--onne", &["shoot--dev--one"]),
            ("shoot--dve--two", &["shoot--dev--two"]),
            ("asleep", &["shoot--ops--asleep"]),
            ("shoot--qa--three", &[]),
            ("y", &[]),
            ("", &[]),
        ] {
            assert_eq!(board.unprobed(asked).near, near, "{asked}");
        }
        drop(places);
    }

    #[test]
    fn a_cluster_that_gets_no_probe_has_a_reason_as_long_as_it_is_there() {
        let board = Board::default();
        board.explain_absence("a".into(), Some("it is hibernated".into()));
        let said = board.unprobed("a");
        assert_eq!(said.reason.as_deref(), Some("it is hibernated"));
        assert!(said.near.is_empty());
        board.explain_absence("a".into(), None);
        assert_eq!(board.unprobed("a").reason, None);
        for name in ["a", "b"] {
            board.explain_absence(name.into(), Some("it is hibernated".into()));
        }
        board.keep_absent(|name| name == "b");
        assert_eq!(board.unprobed("a").reason, None);
        assert!(board.unprobed("b").reason.is_some());
    }
}
