//! Watches on the targets of all clusters: one for each name.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::BoxStream;
use kelpie_core::prober::Target;
use kelpie_core::prober::fence::{KeptRecord, Observed, TargetId, TargetObject};
use kelpie_kube::actuator::{Actuators, TargetScope, WatchedTarget};
use kelpie_kube::lease_records::{RecordKey, RecordSet};
use kelpie_kube::watch::WatchEvent;
use kelpie_runtime::LastErrors;
use parking_lot::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::time::sleep;
use tracing::{info, warn};

/// A watch that failed is started anew after this time, which doubles up to the longest.
const FIRST_RESTART: Duration = Duration::from_secs(1);
const LONGEST_RESTART: Duration = Duration::from_secs(30);

/// The targets that watches show, by name and place. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct WatchedTargets(Arc<Mutex<WatchedState>>);

#[derive(Debug, Default)]
struct WatchedState {
    /// One for each target of the configuration.
    targets: BTreeMap<usize, TargetObjects>,
    /// The records that are kept on the leader Lease.
    records: Arc<RecordSet>,
    executors: Executors,
}

/// The executor of each cluster, by the place of its targets.
#[derive(Debug, Default)]
struct Executors(BTreeMap<TargetScope, UnboundedSender<TargetUpdate>>);

#[derive(Debug, Default)]
struct TargetObjects {
    /// The watch shows every change.
    is_synced: bool,
    /// The objects by place.
    objects: BTreeMap<TargetScope, TargetObject>,
    /// The objects of a list that is not complete yet.
    listed: BTreeMap<TargetScope, TargetObject>,
}

/// A message of a watch to the executor of a cluster.
#[derive(Debug)]
pub(super) enum TargetUpdate {
    /// The watch on a target works from now on, or has failed.
    Watched(TargetId, bool),
    /// The target as the watch shows it. Boxed, because a channel reserves space for many.
    Observed(TargetId, Box<Observed>),
    /// The record of a target on the leader Lease.
    Kept(TargetId, Option<Box<KeptRecord>>),
}

impl WatchedTargets {
    /// Watches these targets, in one namespace or in all. The future never ends.
    pub(crate) async fn run(
        self,
        actuators: Actuators,
        targets: Arc<[Target]>,
        namespace: Option<String>,
    ) {
        let watches = targets.iter().enumerate().map(|(index, target)| {
            let watch = || actuators.watch(target, namespace.as_deref());
            self.follow(index, target, watch)
        });
        join_all(watches).await;
    }

    /// Follows the watch on one target. A watch that fails is started anew, because only a list
    /// proves that it shows every change.
    async fn follow(
        &self,
        index: usize,
        target: &Target,
        watch: impl Fn() -> Option<BoxStream<'static, WatchEvent<WatchedTarget>>>,
    ) {
        let mut errors = LastErrors::default();
        let mut pause = FIRST_RESTART;
        while let Some(mut events) = watch() {
            while let Some(event) = events.next().await {
                if let WatchEvent::Error(error) = &event {
                    let text = error.to_string();
                    if errors.fail(index, &text) {
                        let target = &target.resource;
                        warn!(%target, "watch failed; reading instead until it works: {text}");
                    }
                    self.lost(index);
                    break;
                }
                if matches!(event, WatchEvent::InitDone) {
                    pause = FIRST_RESTART;
                    if errors.recover(&index).is_some() {
                        info!(target = %target.resource, "watch recovered");
                    }
                }
                self.take_in(index, target, event);
            }
            drop(events);
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_RESTART);
        }
    }

    /// Passes the records on the leader Lease to the executors, and their number to `count`. The
    /// future ends with the sender.
    pub(crate) async fn follow_records(
        self,
        targets: Arc<[Target]>,
        mut records: watch::Receiver<Arc<RecordSet>>,
        count: impl Fn(usize),
    ) {
        while records.changed().await.is_ok() {
            let new = Arc::clone(&records.borrow_and_update());
            count(new.len());
            self.set_records(&targets, &new);
        }
    }

    fn set_records(&self, targets: &[Target], new: &Arc<RecordSet>) {
        let state = &mut *self.0.lock();
        let old = mem::replace(&mut state.records, Arc::clone(new));
        let keys: BTreeSet<&RecordKey> = old.keys().chain(new.keys()).collect();
        for key in keys {
            let kept = new.get(key);
            let index = targets.iter().position(|it| it.resource == key.target);
            if let Some(index) = index.filter(|_| kept != old.get(key)) {
                let kept = kept.cloned().map(Box::new);
                let update = TargetUpdate::Kept(TargetId(index), kept);
                let scope = TargetScope::of_namespace(&key.namespace);
                state.executors.send(&scope, update);
            }
        }
    }

    fn take_in(&self, index: usize, target: &Target, event: WatchEvent<WatchedTarget>) {
        let state = &mut *self.0.lock();
        let objects = state.targets.entry(index).or_default();
        let id = TargetId(index);
        match event {
            WatchEvent::Init => objects.listed.clear(),
            WatchEvent::Apply(WatchedTarget { scope, object }) => {
                if objects.is_synced {
                    let observed = Observed::Present(object.clone());
                    let update = TargetUpdate::Observed(id, Box::new(observed));
                    state.executors.send(&scope, update);
                    objects.objects.insert(scope, object);
                } else {
                    objects.listed.insert(scope, object);
                }
            }
            WatchEvent::Delete { namespace, name } => {
                let scope = TargetScope::of_cluster(&namespace, &name).of_target(target);
                objects.objects.remove(&scope);
                let update = TargetUpdate::Observed(id, Box::new(Observed::Missing));
                state.executors.send(&scope, update);
            }
            WatchEvent::InitDone => {
                objects.objects = mem::take(&mut objects.listed);
                objects.is_synced = true;
                for (scope, executor) in &state.executors.0 {
                    objects.show(id, &scope.of_target(target), executor);
                }
            }
            WatchEvent::Error(_) => {}
        }
    }

    fn lost(&self, index: usize) {
        let state = &mut *self.0.lock();
        let target = state.targets.entry(index).or_default();
        target.listed.clear();
        if mem::take(&mut target.is_synced) {
            target.objects.clear();
            for executor in state.executors.0.values() {
                let _ = executor.send(TargetUpdate::Watched(TargetId(index), false));
            }
        }
    }

    /// Returns the updates for the executor of a cluster, beginning with the present state. It
    /// replaces an earlier executor of the cluster.
    pub(super) fn subscribe(
        &self,
        scope: &TargetScope,
        targets: &[Target],
    ) -> UnboundedReceiver<TargetUpdate> {
        let (executor, updates) = unbounded_channel();
        let state = &mut *self.0.lock();
        for (index, target) in targets.iter().enumerate() {
            let key = RecordKey {
                namespace: scope.namespace.to_string(),
                target: target.resource.clone(),
            };
            if let Some(kept) = state.records.get(&key) {
                let kept = Some(Box::new(kept.clone()));
                let _ = executor.send(TargetUpdate::Kept(TargetId(index), kept));
            }
        }
        for (index, objects) in state.targets.iter().filter(|(_, it)| it.is_synced) {
            if let Some(target) = targets.get(*index) {
                objects.show(TargetId(*index), &scope.of_target(target), &executor);
            }
        }
        let executors = &mut state.executors.0;
        executors.retain(|_, executor| !executor.is_closed());
        executors.insert(scope.clone(), executor);
        updates
    }
}

impl TargetObjects {
    /// Sends the present state to an executor.
    fn show(&self, id: TargetId, scope: &TargetScope, executor: &UnboundedSender<TargetUpdate>) {
        let object = self.objects.get(scope).cloned();
        let observed = object.map_or(Observed::Missing, Observed::Present);
        // An executor that has ended needs no update.
        let _ = executor.send(TargetUpdate::Watched(id, true));
        let _ = executor.send(TargetUpdate::Observed(id, Box::new(observed)));
    }
}

impl Executors {
    /// Sends an update about the target at this place, which belongs to one cluster.
    fn send(&self, scope: &TargetScope, update: TargetUpdate) {
        let mut others = self.0.range(scope..);
        let found = others.next().filter(|(other, _)| {
            let is_by_namespace = scope.cluster.is_empty() && other.namespace == scope.namespace;
            is_by_namespace || *other == scope
        });
        if let Some((_, executor)) = found {
            let _ = executor.send(update);
        }
    }
}

#[cfg(test)]
mod tests {
    use kelpie_core::prober::fence::ResourceVersion;
    use kelpie_core::prober::{ActuatorKind, ResourceRef, Setting};

    use super::*;

    fn deployment() -> Target {
        Target::new(ResourceRef {
            api_version: "apps/v1".into(),
            kind: "Deployment".into(),
            name: "kcm".into(),
        })
    }

    fn health_checks() -> Target {
        let mut target = deployment();
        target.actuator = ActuatorKind::Pause;
        target
    }

    fn target(namespace: &str, replicas: u32) -> WatchEvent<WatchedTarget> {
        of_cluster(namespace, "", replicas)
    }

    fn of_cluster(namespace: &str, cluster: &str, replicas: u32) -> WatchEvent<WatchedTarget> {
        WatchEvent::Apply(WatchedTarget {
            scope: TargetScope::of_cluster(namespace, cluster),
            object: TargetObject::running(Setting(replicas), ResourceVersion::new("7")),
        })
    }

    fn next(updates: &mut UnboundedReceiver<TargetUpdate>) -> String {
        match updates.try_recv() {
            Ok(TargetUpdate::Watched(_, is_watched)) => format!("watched: {is_watched}"),
            Ok(TargetUpdate::Observed(_, observed)) => match *observed {
                Observed::Missing => "missing".into(),
                Observed::Present(object) => format!("replicas: {}", object.setting),
            },
            Ok(TargetUpdate::Kept(_, kept)) => format!("kept: {}", kept.is_some()),
            Err(_) => "nothing".into(),
        }
    }

    #[test]
    fn executors_see_their_own_target() {
        let (watched, targets) = (WatchedTargets::default(), [deployment()]);
        let mut updates = watched.subscribe(&TargetScope::of_cluster("a", "a"), &targets);
        for event in [WatchEvent::Init, target("a", 1), target("b", 2)] {
            watched.take_in(0, &targets[0], event);
        }
        assert_eq!(next(&mut updates), "nothing", "the list is not complete");
        watched.take_in(0, &targets[0], WatchEvent::InitDone);
        assert_eq!(next(&mut updates), "watched: true");
        assert_eq!(next(&mut updates), "replicas: 1");
        watched.take_in(0, &targets[0], target("a", 0));
        watched.take_in(0, &targets[0], target("b", 0));
        assert_eq!(next(&mut updates), "replicas: 0");
        assert_eq!(next(&mut updates), "nothing");

        let mut late = watched.subscribe(&TargetScope::of_cluster("b", "b"), &targets);
        assert_eq!(next(&mut late), "watched: true");
        assert_eq!(next(&mut late), "replicas: 0");
        let mut missing = watched.subscribe(&TargetScope::of_cluster("c", "c"), &targets);
        assert_eq!(next(&mut missing), "watched: true");
        assert_eq!(next(&mut missing), "missing");

        watched.lost(0);
        assert_eq!(next(&mut updates), "watched: false");
        assert_eq!(next(&mut late), "watched: false");
        let mut new = watched.subscribe(&TargetScope::of_cluster("a", "a"), &targets);
        assert_eq!(next(&mut new), "nothing");
    }
    #[test]
    fn clusters_of_a_namespace_have_their_own_targets() {
        let (watched, targets) = (WatchedTargets::default(), [health_checks()]);
        let subscribe =
            |name: &str| watched.subscribe(&TargetScope::of_cluster("ns", name), &targets);
        let (mut one, mut two) = (subscribe("one"), subscribe("two"));
        for event in [
            WatchEvent::Init,
            of_cluster("ns", "one", 1),
            WatchEvent::InitDone,
        ] {
            watched.take_in(0, &targets[0], event);
        }
        assert_eq!(
            (next(&mut one), next(&mut one)),
            ("watched: true".into(), "replicas: 1".into())
        );
        assert_eq!(
            (next(&mut two), next(&mut two)),
            ("watched: true".into(), "missing".into())
        );
        watched.take_in(0, &targets[0], of_cluster("ns", "two", 1));
        assert_eq!(
            (next(&mut one), next(&mut two)),
            ("nothing".into(), "replicas: 1".into())
        );
        let deleted = WatchEvent::Delete {
            namespace: "ns".into(),
            name: "one".into(),
        };
        watched.take_in(0, &targets[0], deleted);
        assert_eq!(
            (next(&mut one), next(&mut two)),
            ("missing".into(), "nothing".into())
        );
    }
}
