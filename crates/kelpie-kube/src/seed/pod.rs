//! Pods: who brings them back, and whether they wait in CrashLoopBackOff.

use std::time::Duration;

use kelpie_core::weeder::{Crash, Owner, Pod};
use kube::api::{DeleteParams, Preconditions};
use kube::{Api, Client};
use serde_json::Value;
use thiserror::Error;
use tokio::time::timeout;

use super::fault::Fault;
use super::quiet;
use super::sieve::Keep;
use super::watch::{Thin, Watched};

pub(super) const PAGE: u32 = 500;
/// For a deletion, which is tried again.
const PATIENCE: Duration = Duration::from_secs(10);
/// Characters of a termination message that are kept; the kubelet keeps up to 4096 bytes.
const LONGEST_MESSAGE: usize = 300;

/// What is used of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodFacts {
    /// Its namespace.
    pub namespace: String,
    /// The rest.
    pub pod: Pod,
}

/// Why a pod was not deleted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DeleteError {
    /// It is another one by now, or has changed: judge it again.
    #[error("it has changed meanwhile")]
    Changed,
    /// There is nothing left to do.
    #[error("it is gone already")]
    Gone,
    /// Somebody has to grant the permission.
    #[error("may not delete pods: {reason}; grant delete on pods")]
    Denied {
        /// What the API server said.
        reason: String,
    },
    /// Try again later. It may have been deleted all the same.
    #[error("the seed's API server did not delete it: {reason}")]
    Unavailable {
        /// What went wrong.
        reason: String,
    },
}

const CONTAINER: Keep = Keep::Fields(&[
    ("name", Keep::All),
    ("restartCount", Keep::All),
    (
        "state",
        Keep::Fields(&[("waiting", Keep::Fields(&[("reason", Keep::All)]))]),
    ),
    (
        "lastState",
        Keep::Fields(&[(
            "terminated",
            Keep::Fields(&[
                ("exitCode", Keep::All),
                ("reason", Keep::All),
                ("message", Keep::All),
            ]),
        )]),
    ),
]);

impl Watched for PodFacts {
    const GROUP: &'static str = "";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Pod";
    const PLURAL: &'static str = "pods";
    const KEEP: Keep = Keep::Fields(&[
        (
            "metadata",
            Keep::Fields(&[
                ("name", Keep::All),
                ("namespace", Keep::All),
                ("resourceVersion", Keep::All),
                ("uid", Keep::All),
                ("deletionTimestamp", Keep::All),
                (
                    "ownerReferences",
                    Keep::Fields(&[
                        ("apiVersion", Keep::All),
                        ("kind", Keep::All),
                        ("name", Keep::All),
                        ("uid", Keep::All),
                        ("controller", Keep::All),
                    ]),
                ),
            ]),
        ),
        (
            "status",
            Keep::Fields(&[
                ("containerStatuses", CONTAINER),
                ("initContainerStatuses", CONTAINER),
            ]),
        ),
    ]);

    fn read(namespace: &str, name: &str, object: &Value) -> Self {
        let (metadata, status) = (&object["metadata"], &object["status"]);
        let init = crash(&status["initContainerStatuses"], true);
        let crash = init.or_else(|| crash(&status["containerStatuses"], false));
        Self {
            namespace: namespace.to_owned(),
            pod: Pod {
                name: name.to_owned(),
                uid: text(&metadata["uid"]),
                version: text(&metadata["resourceVersion"]),
                owner: owner(&metadata["ownerReferences"]),
                is_leaving: !metadata["deletionTimestamp"].is_null(),
                crash: crash.map(Box::new),
            },
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The controller among the owners. A Node is none: it owns the mirrors of static pods, whose
/// containers do not start anew when the mirror is deleted.
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

/// The first container that waits in CrashLoopBackOff.
fn crash(containers: &Value, is_init: bool) -> Option<Crash> {
    let mut containers = containers.as_array()?.iter();
    let container = containers
        .find(|container| container["state"]["waiting"]["reason"] == "CrashLoopBackOff")?;
    let last = &container["lastState"]["terminated"];
    let some = |value: &Value| {
        value
            .as_str()
            .filter(|text| !text.is_empty())
            .map(shortened)
    };
    let restarts = container["restartCount"].as_u64().unwrap_or_default();
    Some(Crash {
        container: text(&container["name"]),
        is_init,
        restarts: u32::try_from(restarts).unwrap_or(u32::MAX),
        exit_code: last["exitCode"].as_i64(),
        reason: some(&last["reason"]),
        message: some(&last["message"]),
    })
}

fn shortened(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(LONGEST_MESSAGE) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

pub(super) async fn delete(
    client: &Client,
    namespace: &str,
    name: &str,
    uid: &str,
    version: &str,
) -> Result<(), DeleteError> {
    let pods: Api<Thin<PodFacts>> = Api::namespaced(client.clone(), namespace);
    let only = DeleteParams::default().preconditions(Preconditions {
        uid: Some(uid.to_owned()),
        resource_version: Some(version.to_owned()),
    });
    let fault = match timeout(PATIENCE, quiet::call(pods.delete(name, &only))).await {
        Ok(Ok(_)) => return Ok(()),
        Ok(Err(error)) => Fault::from(&error),
        Err(_) => Fault::TimedOut,
    };
    Err(match fault {
        Fault::Conflict => DeleteError::Changed,
        Fault::NotFound => DeleteError::Gone,
        Fault::Unknown(reason) | Fault::Denied(reason) => DeleteError::Denied { reason },
        other => DeleteError::Unavailable {
            reason: other.to_string(),
        },
    })
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
        let thin: Thin<PodFacts> = serde_json::from_str(&pod.to_string()).unwrap();
        let facts = thin.into_facts();
        assert_eq!(facts.namespace, "shoot");
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
    fn a_container_or_init_container_in_the_back_off_is_evidence() {
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
    fn other_reasons_to_wait_are_none() {
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
    fn the_owner_is_the_controller_and_a_node_is_none() {
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
    fn a_pod_takes_less_than_a_kilobyte_and_its_message_is_bounded() {
        let mut container = waiting("api", "CrashLoopBackOff");
        container["lastState"]["terminated"]["message"] = json!("ä".repeat(4_096));
        let pod = read(&json!([]), &json!({ "containerStatuses": [container] }));
        let message = pod.crash.unwrap().message.unwrap();
        assert_eq!(message.chars().count(), LONGEST_MESSAGE + 1);
        assert!(size_of::<Pod>() + size_of::<Crash>() < 512);
    }
}
