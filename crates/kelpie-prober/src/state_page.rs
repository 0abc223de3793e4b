//! The state of all clusters, served at `/debug/state`.
//!
//! A probe changes the state of its own cluster, and a page copies it. Neither waits for the other
//! longer than for the copy of one cluster.

mod fleet_counts;
mod overview;
mod routes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kelpie_core::prober::fence::{FlowReport, Observed};
use kelpie_core::prober::guard::{GuardState, HeldGroup};
use kelpie_core::prober::overview::{
    ClusterCondition, ClusterDetail, ClusterOrigin, ClusterSummary, FleetDay, FleetSummary,
    Guidance, NodeList, ReplicaInfo, SummaryContext,
};
use kelpie_core::prober::{Decision, FenceState, ResourceRef};
use kelpie_core::{PauseSwitch, Time};
use kelpie_kube::replica::ReplicaState;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::sharding::ShardState;
use fleet_counts::FleetCounts;
use overview::Overview;
pub(crate) use overview::{ProbeTerms, Story, is_notable};
pub(crate) use routes::ReplicaPage;

/// A page waits this long for a list of nodes.
const NODES_PATIENCE: Duration = Duration::from_millis(500);
/// A list of nodes that is not older than this is shown again.
const NODES_FRESH: Duration = Duration::from_secs(1);

/// The probed clusters by name. Clones share the page.
#[derive(Clone, Debug, Default)]
pub(crate) struct StatePage {
    clusters: Arc<Mutex<BTreeMap<Arc<str>, Slot>>>,
    /// The reasons why other clusters have no probe.
    absent: Arc<Mutex<BTreeMap<String, String>>>,
    /// The reason if the clusters are not known yet.
    waiting: Arc<Mutex<Option<String>>>,
    /// The shards, and the part of this one in clusters that it does not watch alone.
    shards: Arc<Mutex<ShardNotes>>,
    fleet: Arc<Mutex<FleetCounts>>,
}

/// The shards; `None` if this prober watches all clusters. And the notes about clusters.
type ShardNotes = (Option<ShardState>, BTreeMap<String, String>);

/// The entry of one cluster. It is removed when the handle is dropped.
#[derive(Debug)]
pub(crate) struct StateHandle {
    name: Arc<str>,
    slot: Slot,
    state_page: StatePage,
}

type Slot = Arc<ClusterSlot>;

/// A cluster that is fenced or should be, and where it runs.
type Affected = (Arc<str>, Option<ClusterOrigin>);

/// The place of one cluster on the page.
#[derive(Debug, Default)]
struct ClusterSlot {
    shown: Mutex<Shown>,
    /// A page wants a list of the nodes.
    nodes_wanted: Notify,
    /// The list was taken.
    nodes_taken: Notify,
}

#[derive(Debug, Default)]
struct Shown {
    state: ClusterState,
    overview: Overview,
    /// The namespace of the control plane; empty if it is the cluster's id.
    namespace: Option<Arc<str>>,
    grace: Option<Duration>,
}

/// The state of one cluster.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterState {
    /// The last decision; `None` before the first round.
    pub decision: Option<Decision>,
    /// The state of the targets, taken together.
    pub fence: Option<FenceState>,
    /// The instant since which the cluster is known to be fenced.
    pub fenced_since: Option<Time>,
    /// The targets as last read.
    pub targets: Vec<TargetState>,
    /// The guard of the cluster; `None` if it is off, or before the first call.
    #[serde(default)]
    pub guard: Option<GuardState>,
    /// The zones and worker pools whose nodes the guard holds back.
    #[serde(default)]
    pub held_groups: Vec<HeldGroup>,
    /// The last flow that ended.
    pub last_flow: Option<LastFlow>,
    /// The seconds between the fence of this trip and its deadline; negative if the fence came too
    /// late. `None` if it was not made by this replica, or if there is no trip.
    #[serde(default)]
    pub margin: Option<f64>,
    /// Current problems with a round or a write.
    pub problems: Vec<String>,
}

/// A target as last read.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetState {
    /// The object in the control plane namespace.
    pub resource: ResourceRef,
    /// The result of the last read; `None` before the first one.
    pub observed: Option<Observed>,
}

/// A flow that ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastFlow {
    /// The instant at which it ended.
    pub at: Time,
    /// The report of the flow.
    pub report: FlowReport,
}

/// The response of `/debug/state`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProberState {
    /// The replica that answers.
    #[serde(flatten)]
    pub replica: ReplicaState,
    /// The pause switch.
    #[serde(default)]
    pub pause: PauseSwitch,
    /// The shards; `None` if this prober watches all clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<ShardState>,
    /// The clusters by name.
    pub clusters: BTreeMap<String, ClusterView>,
}

/// The view of one cluster.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterView {
    /// The last decision as text. It is formatted on request.
    pub in_words: String,
    /// The part of this shard in the cluster, if it is not the only one that watches it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<String>,
    /// The cluster as an operator sees it. Only the response about one cluster has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<ClusterDetail>,
    /// The state in machine-readable form.
    #[serde(flatten)]
    pub state: ClusterState,
}

/// The response about a cluster without a probe.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Unprobed {
    /// The error in one sentence.
    pub error: String,
    /// The reason why the cluster has no probe, if it exists.
    pub reason: Option<String>,
    /// Clusters with similar names, if it does not exist.
    pub near: Vec<String>,
}

/// The number of similar names that are suggested.
const MOST_NEAR: usize = 5;
/// The largest edit distance of a similar name.
const NEAR: usize = 3;

impl StatePage {
    /// Adds a cluster with an empty state.
    pub(crate) fn place(&self, cluster: &Arc<str>) -> StateHandle {
        let slot = Slot::default();
        self.fleet.lock().add(ClusterCondition::Starting);
        let mut clusters = self.clusters.lock();
        clusters.insert(Arc::clone(cluster), Arc::clone(&slot));
        StateHandle {
            name: Arc::clone(cluster),
            slot,
            state_page: self.clone(),
        }
    }

    /// Returns all clusters, or the one of this name. Each is copied first and formatted then, so
    /// that a probe never waits for a page.
    pub(crate) fn clusters(&self, only: Option<&str>) -> BTreeMap<String, ClusterView> {
        let slots = self.slots(only);
        let mut notes = self.shards.lock().1.clone();
        let views = slots.into_iter().map(|(name, slot)| {
            let snapshot = slot.shown.lock().state.clone();
            let view = ClusterView {
                shard: notes.remove(&*name),
                ..ClusterView::from(snapshot)
            };
            (name.to_string(), view)
        });
        views.collect()
    }

    fn slots(&self, only: Option<&str>) -> Vec<(Arc<str>, Slot)> {
        let clusters = self.clusters.lock();
        let clusters = clusters.iter();
        let selected = clusters.filter(|(name, _)| only.is_none_or(|only| ***name == *only));
        let shared = selected.map(|(name, slot)| (Arc::clone(name), Arc::clone(slot)));
        shared.collect()
    }

    /// Returns one line for each cluster, and where the fenced ones run.
    pub(crate) fn summaries(&self) -> (Vec<ClusterSummary>, Vec<Affected>) {
        let mut affected = Vec::new();
        let summaries = self.slots(None).into_iter().map(|(name, slot)| {
            let shown = slot.shown.lock();
            let summary = shown.overview.summary(&name, &shown.state);
            if matches!(
                summary.condition,
                ClusterCondition::Fenced
                    | ClusterCondition::Unfenced
                    | ClusterCondition::WouldFence
            ) {
                let story = shown.overview.story();
                let origin = story.and_then(|story| story.origin.clone());
                affected.push((Arc::clone(&name), origin));
            }
            summary
        });
        (summaries.collect(), affected)
    }

    /// Returns the number of changes of a cluster's condition so far.
    pub(crate) fn changes(&self) -> u64 {
        self.fleet.lock().changes
    }

    /// Returns the counts of all clusters, and the last day up to `now`.
    pub(crate) fn fleet(&self, now: Time) -> (FleetSummary, FleetDay) {
        let (mut summary, day) = {
            let mut fleet = self.fleet.lock();
            (fleet.summary(), fleet.day(now))
        };
        let not_watched = self.absent.lock().len();
        summary.not_watched = u32::try_from(not_watched).unwrap_or(u32::MAX);
        (summary, day)
    }

    /// Returns one cluster as an operator sees it. Its probe is asked for the nodes.
    pub(crate) async fn detail(
        &self,
        name: &str,
        replica: impl Fn() -> ReplicaInfo,
    ) -> Option<ClusterDetail> {
        let (_, slot) = self.slots(Some(name)).pop()?;
        let is_fresh = {
            let now = replica().at;
            let nodes = slot.shown.lock().overview.nodes.clone();
            nodes.is_some_and(|nodes| now.since(nodes.at) < NODES_FRESH)
        };
        if !is_fresh {
            let taken = slot.nodes_taken.notified();
            slot.nodes_wanted.notify_one();
            // A probe that is busy with a fence answers later. Then the last list is shown.
            let _ = timeout(NODES_PATIENCE, taken).await;
        }
        let replica = replica();
        let shown = slot.shown.lock();
        let (overview, state) = (&shown.overview, &shown.state);
        let namespace = shown.namespace.as_deref().unwrap_or(name);
        let guidance = |context: &SummaryContext<'_>| Guidance::new(context, namespace, replica.at);
        let story = overview.story();
        Some(ClusterDetail {
            summary: overview.summary(name, state),
            guidance: overview.describe(name, state, guidance),
            grace_seconds: shown.grace.map(|grace| grace.as_secs_f64()),
            last_fence: story.and_then(|story| story.last_fence),
            nodes: overview.nodes.as_deref().cloned(),
            history: story.map_or_else(Vec::new, |story| story.history.transitions()),
            replica,
        })
    }

    /// Returns the shards; `None` if this prober watches all clusters.
    pub(crate) fn shard(&self) -> Option<ShardState> {
        self.shards.lock().0.clone()
    }

    /// Sets the shards, and the part of this one in clusters that it does not watch alone.
    pub(crate) fn set_shards(&self, state: ShardState, notes: BTreeMap<String, String>) {
        *self.shards.lock() = (Some(state), notes);
    }

    /// Sets the reason why a cluster has no probe; `None` if it has one or does not exist.
    pub(crate) fn explain_absence(&self, cluster: String, why: Option<String>) {
        let mut absent = self.absent.lock();
        match why {
            Some(why) => absent.insert(cluster, why),
            None => absent.remove(&cluster),
        };
    }

    /// Returns the reason why the clusters are not known yet; `None` once they are.
    pub(crate) fn waiting(&self) -> Option<String> {
        self.waiting.lock().clone()
    }

    /// Sets the reason why the clusters are not known yet; `None` once they are.
    pub(crate) fn set_waiting(&self, why: Option<String>) {
        *self.waiting.lock() = why;
    }

    /// Removes the reasons of clusters that no longer exist.
    pub(crate) fn keep_absent(&self, is_there: impl Fn(&str) -> bool) {
        let mut absent = self.absent.lock();
        absent.retain(|cluster, _| is_there(cluster));
    }

    /// Returns the response about a cluster without a probe.
    pub(crate) fn unprobed(&self, cluster: &str) -> Unprobed {
        let error = format!("cluster {cluster:?} is not probed");
        let reason = self.absent.lock().get(cluster).cloned();
        let reason = reason.or_else(|| self.waiting.lock().clone());
        let mut near = BTreeSet::new();
        if reason.is_none() {
            let mut names: Vec<_> = self.clusters.lock().keys().cloned().collect();
            names.extend(self.absent.lock().keys().map(|name| Arc::from(&**name)));
            let ranked = |name: Arc<str>| Some((distance(&name, cluster)?, name));
            near.extend(names.into_iter().filter_map(ranked));
        }
        let near = near.into_iter().take(MOST_NEAR);
        Unprobed {
            error,
            reason,
            near: near.map(|(_, name)| name.to_string()).collect(),
        }
    }
}

/// Returns the distance of a name from the requested one; `None` if they are not similar. A part of
/// the name is similar: users leave out the project.
fn distance(name: &str, asked: &str) -> Option<usize> {
    if !asked.is_empty() && name.contains(asked) {
        return Some(0);
    }
    // It also bounds the cost: the distance of long texts is slow to compute.
    if name.len().abs_diff(asked.len()) > NEAR {
        return None;
    }
    let distance = strsim::damerau_levenshtein(name, asked);
    // Three edits would leave nothing of a short name.
    (distance <= NEAR && 3 * distance <= asked.len()).then_some(distance)
}

impl From<ClusterState> for ClusterView {
    fn from(state: ClusterState) -> Self {
        let in_words = match &state.decision {
            Some(decision) => decision.to_string(),
            None => "No round has ended yet.".to_owned(),
        };
        Self {
            in_words,
            shard: None,
            detail: None,
            state,
        }
    }
}

impl StateHandle {
    /// Sets what does not change while the cluster is watched.
    pub(crate) fn with_namespace(self, namespace: &Arc<str>) -> Self {
        if **namespace != *self.name {
            self.slot.shown.lock().namespace = Some(Arc::clone(namespace));
        }
        self
    }

    pub(crate) fn update(&self, change: impl FnOnce(&mut ClusterState)) {
        change(&mut self.slot.shown.lock().state);
    }

    pub(crate) fn decision(&self) -> Option<Decision> {
        self.slot.shown.lock().state.decision
    }

    /// Judges the condition of the cluster again.
    pub(crate) fn judge(&self, terms: ProbeTerms, grace: Duration, now: Time) {
        let mut shown = self.slot.shown.lock();
        let Shown {
            state, overview, ..
        } = &mut *shown;
        if let Some(before) = overview.judge(state, terms, now) {
            let condition = overview.condition;
            self.state_page.fleet.lock().change(before, condition, now);
        }
        shown.grace = Some(grace);
    }

    /// Adds to what happened to the cluster.
    pub(crate) fn tell(&self, add: impl FnOnce(&mut Story)) {
        add(self.slot.shown.lock().overview.story_mut());
    }

    /// Adds to what happened to the cluster, if anything has.
    pub(crate) fn tell_more(&self, add: impl FnOnce(&mut Story)) {
        let mut shown = self.slot.shown.lock();
        if shown.overview.story().is_some() {
            add(shown.overview.story_mut());
        }
    }

    /// Notes a trip, in the story of the cluster and in the counts of the fleet.
    pub(crate) fn tripped(&self, since: Time, deadline: Option<Time>, now: Time) {
        self.tell(|story| story.tripped(since, deadline));
        self.state_page.fleet.lock().fence_began(now);
    }

    /// Returns whether it is not known yet where a fenced cluster runs.
    pub(crate) fn lacks_origin(&self) -> bool {
        let shown = self.slot.shown.lock();
        let story = shown.overview.story();
        story.is_some_and(|story| story.origin.is_none())
    }

    /// Returns a future that ends when a page wants a list of the nodes.
    pub(crate) fn nodes_wanted(&self) -> impl Future<Output = ()> + Send + use<> {
        let slot = Arc::clone(&self.slot);
        async move { slot.nodes_wanted.notified().await }
    }

    pub(crate) fn show_nodes(&self, nodes: NodeList) {
        self.slot.shown.lock().overview.nodes = Some(Arc::new(nodes));
        self.slot.nodes_taken.notify_waiters();
    }
}

impl Drop for StateHandle {
    fn drop(&mut self) {
        let condition = self.slot.shown.lock().overview.condition;
        self.state_page.fleet.lock().remove(condition);
        let mut clusters = self.state_page.clusters.lock();
        // A successor may have replaced the entry.
        let shown = clusters.get(&self.name);
        if shown.is_some_and(|slot| Arc::ptr_eq(slot, &self.slot)) {
            clusters.remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drop_removes_only_its_own_entry() {
        let state_page = StatePage::default();
        let name: Arc<str> = "a".into();
        let first = state_page.place(&name);
        let second = state_page.place(&name);
        second.update(|state| state.problems.push("second".into()));
        drop(first);
        assert_eq!(
            state_page.clusters(Some("a"))["a"].state.problems,
            ["second"]
        );
        assert!(state_page.clusters(Some("b")).is_empty());
        drop(second);
        assert!(state_page.clusters(None).is_empty());
    }

    #[test]
    fn similar_names_are_sorted_by_distance() {
        let state_page = StatePage::default();
        let names = ["shoot--dev--one", "shoot--dev--two", "shoot--ops--one", "x"];
        let places = names.map(|name| state_page.place(&name.into()));
        state_page.explain_absence("shoot--ops--asleep".into(), Some("it sleeps".into()));
        for (asked, near) in [
            ("one", &["shoot--dev--one", "shoot--ops--one"][..]),
            ("shoot--dev--onne", &["shoot--dev--one"]),
            ("shoot--dve--two", &["shoot--dev--two"]),
            ("asleep", &["shoot--ops--asleep"]),
            ("shoot--qa--three", &[]),
            ("y", &[]),
            ("", &[]),
        ] {
            assert_eq!(state_page.unprobed(asked).near, near, "{asked}");
        }
        drop(places);
    }

    #[test]
    fn unprobed_cluster_has_a_reason() {
        let state_page = StatePage::default();
        state_page.explain_absence("a".into(), Some("it is hibernated".into()));
        let said = state_page.unprobed("a");
        assert_eq!(said.reason.as_deref(), Some("it is hibernated"));
        assert!(said.near.is_empty());
        state_page.explain_absence("a".into(), None);
        assert_eq!(state_page.unprobed("a").reason, None);
        for name in ["a", "b"] {
            state_page.explain_absence(name.into(), Some("it is hibernated".into()));
        }
        state_page.keep_absent(|name| name == "b");
        assert_eq!(state_page.unprobed("a").reason, None);
        assert!(state_page.unprobed("b").reason.is_some());
    }
}
