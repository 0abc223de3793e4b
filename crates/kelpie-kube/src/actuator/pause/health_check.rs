//! The MachineHealthCheck of Cluster API, and the objects of each cluster as one target.

use std::collections::BTreeMap;

use kelpie_core::prober::fence::{Observed, PausableObject, PauseState, TargetObject};
use serde_json::Value;

use crate::actuator::annotations::{IGNORE_ANNOTATION, is_true_in_go};
use crate::actuator::{TargetScope, WatchedTarget};
use crate::objects::ObjectKind;
use crate::projection::FieldPath;
use crate::watch::{WatchEvent, WatchedResource};

/// Pauses the controllers of an object by its presence, whatever its value.
pub(super) const PAUSED_ANNOTATION: &str = "cluster.x-k8s.io/paused";
/// The beginning of the value of our pauses.
pub(super) const OUR_PAUSE: &str = "kelpie/";
/// The label with the name of the cluster.
const CLUSTER_LABEL: &str = "cluster.x-k8s.io/cluster-name";

/// A MachineHealthCheck, reduced to its pause.
#[derive(Debug, Clone)]
pub(super) struct HealthCheck {
    /// The cluster, by the field that Cluster API goes by. The label follows it.
    pub(super) scope: TargetScope,
    pub(super) object: PausableObject,
}

const fn version(version: &'static str) -> ObjectKind {
    let kind = "MachineHealthCheck";
    ObjectKind::new("cluster.x-k8s.io", version, kind, "machinehealthchecks")
}

impl WatchedResource for HealthCheck {
    const KIND: ObjectKind = version("v1beta2");
    const OLDER: &'static [ObjectKind] = &[version("v1beta1")];
    const FIELDS: &'static [FieldPath] = &[
        &["metadata", "labels", CLUSTER_LABEL],
        &["metadata", "annotations", PAUSED_ANNOTATION],
        &["metadata", "annotations", IGNORE_ANNOTATION],
        &["spec", "clusterName"],
    ];

    fn read(namespace: &str, name: &str, object: &Value) -> Self {
        let metadata = &object["metadata"];
        let label = metadata["labels"][CLUSTER_LABEL].as_str();
        let cluster = object["spec"]["clusterName"].as_str().or(label);
        let annotation = |name: &str| metadata["annotations"][name].as_str();
        let version = metadata["resourceVersion"].as_str();
        Self {
            scope: TargetScope::of_cluster(namespace, cluster.unwrap_or_default()),
            object: PausableObject {
                name: name.to_owned(),
                version: version.unwrap_or_default().to_owned(),
                state: match annotation(PAUSED_ANNOTATION) {
                    Some(pause) if pause.starts_with(OUR_PAUSE) => PauseState::Ours,
                    Some(_) => PauseState::LeftAlone,
                    None if annotation(IGNORE_ANNOTATION).is_some_and(is_true_in_go) => {
                        PauseState::LeftAlone
                    }
                    None => PauseState::Runs,
                },
            },
        }
    }
}

/// The MachineHealthChecks of all clusters, from which a watch on the clusters' targets is made.
#[derive(Debug, Default)]
pub(super) struct HealthChecks {
    by_cluster: BTreeMap<TargetScope, BTreeMap<String, PausableObject>>,
    /// The cluster of each object, by namespace and name.
    clusters: BTreeMap<(String, String), TargetScope>,
    is_listing: bool,
}

impl HealthChecks {
    /// Takes in an event, and returns the events about the clusters that it is about.
    pub(super) fn take_in(
        &mut self,
        event: WatchEvent<HealthCheck>,
    ) -> Vec<WatchEvent<WatchedTarget>> {
        match event {
            WatchEvent::Init => {
                *self = Self {
                    is_listing: true,
                    ..Self::default()
                };
                vec![WatchEvent::Init]
            }
            WatchEvent::Apply(check) => {
                let key = (check.scope.namespace.to_string(), check.object.name.clone());
                let known = self.clusters.insert(key, check.scope.clone());
                let moved = known.filter(|scope| *scope != check.scope);
                let left = moved.map(|scope| self.removed(&scope, &check.object.name));
                let objects = self.by_cluster.entry(check.scope.clone()).or_default();
                objects.insert(check.object.name.clone(), check.object);
                if self.is_listing {
                    return Vec::new();
                }
                let shown = self.shown(&check.scope);
                left.into_iter().chain([shown]).collect()
            }
            WatchEvent::Delete { namespace, name } => {
                let key = (namespace, name);
                let scope = self.clusters.remove(&key);
                let removed = scope.map(|scope| self.removed(&scope, &key.1));
                removed.into_iter().collect()
            }
            WatchEvent::InitDone => {
                self.is_listing = false;
                let clusters = self.by_cluster.keys().map(|scope| self.shown(scope));
                clusters.chain([WatchEvent::InitDone]).collect()
            }
            WatchEvent::Error(error) => vec![WatchEvent::Error(error)],
        }
    }

    fn removed(&mut self, scope: &TargetScope, name: &str) -> WatchEvent<WatchedTarget> {
        if let Some(objects) = self.by_cluster.get_mut(scope) {
            objects.remove(name);
        }
        let event = self.shown(scope);
        self.by_cluster.retain(|_, objects| !objects.is_empty());
        event
    }

    /// Returns the event that shows the target of a cluster.
    fn shown(&self, scope: &TargetScope) -> WatchEvent<WatchedTarget> {
        let objects = self.by_cluster.get(scope);
        let objects = objects.into_iter().flat_map(BTreeMap::values);
        match PausableObject::target(objects) {
            Observed::Present(object) => WatchEvent::Apply(WatchedTarget {
                scope: scope.clone(),
                object,
            }),
            Observed::Missing => WatchEvent::Delete {
                namespace: scope.namespace.to_string(),
                name: scope.cluster.to_string(),
            },
        }
    }

    /// Returns the targets of the clusters that these objects belong to.
    pub(super) fn targets(
        checks: impl IntoIterator<Item = HealthCheck>,
    ) -> BTreeMap<TargetScope, TargetObject> {
        let mut by_cluster = BTreeMap::<TargetScope, Vec<PausableObject>>::new();
        for check in checks {
            by_cluster
                .entry(check.scope)
                .or_default()
                .push(check.object);
        }
        let targets = by_cluster.into_iter().filter_map(|(scope, objects)| {
            match PausableObject::target(&objects) {
                Observed::Present(target) => Some((scope, target)),
                Observed::Missing => None,
            }
        });
        targets.collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(name: &str, cluster: &str, version: u32, pause: Option<&str>) -> HealthCheck {
        let object = json!({
            "metadata": {
                "resourceVersion": version.to_string(),
                "annotations": { PAUSED_ANNOTATION: pause },
            },
            "spec": { "clusterName": cluster },
        });
        HealthCheck::read("ns", name, &object)
    }

    fn apply(name: &str, cluster: &str, version: u32) -> WatchEvent<HealthCheck> {
        WatchEvent::Apply(check(name, cluster, version, None))
    }

    fn describe(event: WatchEvent<WatchedTarget>) -> String {
        match event {
            WatchEvent::Init => "init".into(),
            WatchEvent::Apply(WatchedTarget { scope, object }) => {
                format!("{} {}", scope.cluster, object.version.as_str())
            }
            WatchEvent::Delete { name, .. } => format!("{name} has none"),
            WatchEvent::InitDone => "init done".into(),
            WatchEvent::Error(error) => error.to_string(),
        }
    }

    #[test]
    fn pause_is_ours_by_its_value() {
        for (pause, state) in [
            (None, PauseState::Runs),
            (
                Some("kelpie/silent-nodes/2026-11-18T10:00:00Z"),
                PauseState::Ours,
            ),
            (Some(""), PauseState::LeftAlone),
            (Some("true"), PauseState::LeftAlone),
            (Some("kelpies"), PauseState::LeftAlone),
        ] {
            let found = check("a", "one", 7, pause).object.state;
            assert_eq!(found, state, "{pause:?}");
        }
    }

    #[test]
    fn ignored_object_is_left_alone() {
        let ignored = json!({ "metadata": { "annotations": { IGNORE_ANNOTATION: "true" } } });
        let state = HealthCheck::read("ns", "a", &ignored).object.state;
        assert_eq!(state, PauseState::LeftAlone);
    }

    #[test]
    fn cluster_is_that_of_the_field() {
        let label = json!({ CLUSTER_LABEL: "labelled" });
        for (spec, cluster) in [
            (json!({ "clusterName": "one" }), "one"),
            (json!({}), "labelled"),
        ] {
            let object = json!({ "metadata": { "labels": label }, "spec": spec });
            let scope = HealthCheck::read("ns", "a", &object).scope;
            assert_eq!(scope, TargetScope::of_cluster("ns", cluster));
        }
    }

    #[test]
    fn objects_of_a_cluster_are_one_target() {
        let mut checks = HealthChecks::default();
        let delete = |name: &str| WatchEvent::Delete {
            namespace: "ns".into(),
            name: name.into(),
        };
        for (event, expected) in [
            (WatchEvent::Init, vec!["init"]),
            (apply("b", "one", 9), vec![]),
            (apply("a", "one", 7), vec![]),
            (apply("c", "two", 8), vec![]),
            (
                WatchEvent::InitDone,
                vec!["one a=7,b=9", "two c=8", "init done"],
            ),
            (apply("a", "one", 10), vec!["one a=10,b=9"]),
            (
                apply("c", "one", 11),
                vec!["two has none", "one a=10,b=9,c=11"],
            ),
            (delete("b"), vec!["one a=10,c=11"]),
            (delete("b"), vec![]),
            (delete("a"), vec!["one c=11"]),
            (delete("c"), vec!["one has none"]),
            (WatchEvent::Init, vec!["init"]),
            (WatchEvent::InitDone, vec!["init done"]),
        ] {
            let events: Vec<String> = checks.take_in(event).into_iter().map(describe).collect();
            assert_eq!(events, expected);
        }
    }
}
