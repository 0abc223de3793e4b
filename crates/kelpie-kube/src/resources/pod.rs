//! Pods, reduced to their controller and to containers in CrashLoopBackOff.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use kelpie_core::truncated;
use kelpie_core::weeder::{Crash, Owner, Pod};
use kube::Api;
use kube::api::{DeleteParams, Preconditions};
use serde_json::Value;

use super::text;
use crate::client::{ApiError, ClusterClient, call_within};
use crate::objects::ObjectKind;
use crate::projection::FieldPath;
use crate::watch::{Projected, WatchedResource};

/// The timeout of a deletion. The caller tries again.
const DELETE_TIMEOUT: Duration = Duration::from_secs(10);
/// Termination messages are cut to this length; the kubelet keeps up to 4096 bytes.
const MAX_MESSAGE_CHARS: usize = 300;

/// The fields of a pod that are used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodFacts {
    /// The namespace of the pod.
    pub namespace: String,
    /// The labels, which selectors are evaluated on.
    pub labels: BTreeMap<String, String>,
    /// All other fields that are used.
    pub pod: Pod,
}

/// The reason why a pod was not deleted. After a conflict, the caller has to judge the pod again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeleteError(pub ApiError);

impl fmt::Display for DeleteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            ApiError::Conflict => f.write_str("the pod has changed in the meantime"),
            ApiError::NotFound => f.write_str("the pod is already gone"),
            ApiError::Unauthorized(reason) | ApiError::Forbidden(reason) => write!(
                f,
                "may not delete pods: {reason}; check the credentials and grant delete on pods"
            ),
            cause => write!(f, "the seed's API server did not delete the pod: {cause}"),
        }
    }
}

impl WatchedResource for PodFacts {
    const KIND: ObjectKind = ObjectKind::new("", "v1", "Pod", "pods");
    const FIELDS: &'static [FieldPath] = &[
        &["metadata", "uid"],
        &["metadata", "labels"],
        &["metadata", "deletionTimestamp"],
        &["metadata", "ownerReferences"],
        &["status", "containerStatuses", "name"],
        &["status", "containerStatuses", "restartCount"],
        &["status", "containerStatuses", "state", "waiting", "reason"],
        &["status", "containerStatuses", "lastState", "terminated"],
        &["status", "initContainerStatuses", "name"],
        &["status", "initContainerStatuses", "restartCount"],
        &[
            "status",
            "initContainerStatuses",
            "state",
            "waiting",
            "reason",
        ],
        &["status", "initContainerStatuses", "lastState", "terminated"],
    ];

    fn read(namespace: &str, name: &str, object: &Value) -> Self {
        let (metadata, status) = (&object["metadata"], &object["status"]);
        let init = crash(&status["initContainerStatuses"], true);
        let crash = init.or_else(|| crash(&status["containerStatuses"], false));
        Self {
            namespace: namespace.to_owned(),
            labels: labels(&metadata["labels"]),
            pod: Pod {
                name: name.to_owned(),
                uid: text(&metadata["uid"]),
                version: text(&metadata["resourceVersion"]),
                owner: owner(&metadata["ownerReferences"]),
                is_terminating: !metadata["deletionTimestamp"].is_null(),
                crash: crash.map(Box::new),
            },
        }
    }
}

fn labels(labels: &Value) -> BTreeMap<String, String> {
    let labels = labels.as_object().into_iter().flatten();
    let labels = labels.map(|(key, value)| (key.clone(), text(value)));
    labels.collect()
}

/// Returns the controller among the owners. A Node does not count: it owns the mirror pods of
/// static pods, whose containers are not restarted when the mirror pod is deleted.
fn owner(owners: &Value) -> Option<Owner> {
    let mut owners = owners.as_array()?.iter();
    let owner = owners.find(|owner| owner["controller"] == true && owner["kind"] != "Node")?;
    Some(Owner {
        api_version: text(&owner["apiVersion"]),
        kind: text(&owner["kind"]),
        name: text(&owner["name"]),
        uid: text(&owner["uid"]),
    })
}

/// Returns the first container in CrashLoopBackOff.
fn crash(containers: &Value, is_init: bool) -> Option<Crash> {
    let mut containers = containers.as_array()?.iter();
    let container = containers
        .find(|container| container["state"]["waiting"]["reason"] == "CrashLoopBackOff")?;
    let last = &container["lastState"]["terminated"];
    let non_empty = |value: &Value| {
        let text = value.as_str().filter(|text| !text.is_empty())?;
        Some(truncated(text.trim(), MAX_MESSAGE_CHARS))
    };
    let restarts = container["restartCount"].as_u64().unwrap_or_default();
    Some(Crash {
        container: text(&container["name"]),
        is_init,
        restarts: u32::try_from(restarts).unwrap_or(u32::MAX),
        exit_code: last["exitCode"].as_i64(),
        reason: non_empty(&last["reason"]),
        message: non_empty(&last["message"]),
    })
}

impl ClusterClient {
    /// Deletes a pod if it still has this uid and resource version, with the fencing client.
    pub async fn delete_pod(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
        version: &str,
    ) -> Result<(), DeleteError> {
        let pods: Api<Projected<PodFacts>> =
            Api::namespaced_with(self.urgent(), namespace, &PodFacts::KIND);
        let params = DeleteParams::default().preconditions(Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: Some(version.to_owned()),
        });
        let deleted = call_within(DELETE_TIMEOUT, pods.delete(name, &params)).await;
        deleted.map(|_| ()).map_err(DeleteError)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(owners: &Value, status: &Value) -> Pod {
        let fields: Vec<Value> = (0..60)
            .map(|number| json!({ "fieldsV1": { format!("f:{number}"): {} } }))
            .collect();
        let pod = json!({
            "metadata": {
                "name": "api-0", "namespace": "shoot", "uid": "u", "resourceVersion": "7",
                "labels": { "a": "b" }, "managedFields": fields, "ownerReferences": owners,
            },
            "spec": { "containers": [{ "name": "api", "env": [] }] },
            "status": status,
        });
        let projected: Projected<PodFacts> = serde_json::from_str(&pod.to_string()).unwrap();
        let facts = projected.facts;
        assert_eq!(facts.namespace, "shoot");
        assert_eq!(facts.labels, BTreeMap::from([("a".into(), "b".into())]));
        facts.pod
    }

    fn waiting(name: &str, reason: &str) -> Value {
        json!({
            "name": name, "restartCount": 7, "ready": false,
            "state": { "waiting": { "reason": reason, "message": "back-off 5m0s" } },
            "lastState": { "terminated": {
                "exitCode": 137, "reason": "OOMKilled", "message": " no etcd\n",
            } },
        })
    }

    fn running() -> Value {
        json!({ "name": "side", "restartCount": 0, "state": { "running": {} }, "lastState": {} })
    }

    #[test]
    fn crash_loop_of_any_container_is_found() {
        let status =
            json!({ "containerStatuses": [running(), waiting("api", "CrashLoopBackOff")] });
        let crash = read(&json!([]), &status).crash.unwrap();
        let expected = Crash {
            container: "api".into(),
            is_init: false,
            restarts: 7,
            exit_code: Some(137),
            reason: Some("OOMKilled".into()),
            message: Some("no etcd".into()),
        };
        assert_eq!(*crash, expected);
        let status = json!({
            "initContainerStatuses": [waiting("wait", "CrashLoopBackOff")],
            "containerStatuses": [waiting("api", "PodInitializing")],
        });
        let crash = read(&json!([]), &status).crash.unwrap();
        assert!(crash.is_init && crash.container == "wait");
    }

    #[test]
    fn other_waiting_reasons_are_ignored() {
        for status in [
            json!(null),
            json!({ "containerStatuses": "x" }),
            json!({ "containerStatuses": [running()] }),
            json!({ "containerStatuses": [waiting("api", "ImagePullBackOff")] }),
            json!({ "containerStatuses": [waiting("api", "ContainerCreating")] }),
        ] {
            assert_eq!(read(&json!([]), &status).crash, None, "{status}");
        }
    }

    #[test]
    fn owner_is_controller_except_node() {
        let reference = |kind: &str, controller: Value| {
            json!({
                "apiVersion": "apps/v1", "kind": kind, "name": "api", "uid": "o",
                "controller": controller,
            })
        };
        let owner = |owners: Value| read(&owners, &json!({})).owner.map(|owner| owner.kind);
        let both = json!([
            reference("Etcd", json!(null)),
            reference("ReplicaSet", json!(true))
        ]);
        assert_eq!(owner(both).as_deref(), Some("ReplicaSet"));
        assert_eq!(owner(json!([reference("Etcd", json!(false))])), None);
        assert_eq!(owner(json!([reference("Node", json!(true))])), None);
        assert_eq!(owner(json!(null)), None);
    }

    #[test]
    fn pod_size_is_bounded() {
        let mut container = waiting("api", "CrashLoopBackOff");
        container["lastState"]["terminated"]["message"] = json!("ä".repeat(4_096));
        let pod = read(&json!([]), &json!({ "containerStatuses": [container] }));
        let message = pod.crash.unwrap().message.unwrap();
        assert_eq!(message.chars().count(), MAX_MESSAGE_CHARS + 1);
        assert!(size_of::<Pod>() + size_of::<Crash>() < 512);
    }
}
