//! Encoding Leases and Nodes, with their field numbers.

use serde_json::Value;

use super::message::MessageBuilder;
use crate::kind::ResourceKind;
use crate::resource::LEASES;
use crate::store::StoredObject;
use crate::store::body::{CompactLease, ObjectBody, split_key};

/// Encodes a stored object.
pub(super) fn encode_object(kind: &ResourceKind, stored: &StoredObject) -> MessageBuilder {
    match &stored.revision.body {
        ObjectBody::CompactLease(lease) => encode_lease(stored, lease),
        ObjectBody::Json(_) => encode_json(kind, &stored.to_value(kind)),
    }
}

/// Encodes a compact Lease directly, with the same result as through its JSON. Lists of these are
/// the most frequent requests.
fn encode_lease(stored: &StoredObject, lease: &CompactLease) -> MessageBuilder {
    let (namespace, name) = split_key(&stored.key);
    let mut metadata = MessageBuilder::default();
    metadata.bytes(1, name.as_bytes());
    metadata.bytes(3, namespace.as_bytes());
    metadata.bytes(5, lease.uid.hyphenated().as_bytes());
    metadata.bytes(6, stored.revision.version.to_string().as_bytes());
    metadata.instant(8, lease.created);
    if let Some(uid) = lease.owner {
        let mut owner = MessageBuilder::default();
        owner.bytes(1, b"Node");
        owner.bytes(3, name.as_bytes());
        owner.bytes(4, uid.hyphenated().as_bytes());
        owner.bytes(5, b"v1");
        metadata.message(13, &owner);
    }
    let mut spec = MessageBuilder::default();
    spec.bytes(1, name.as_bytes());
    spec.number(2, &lease.duration_seconds.into());
    if let Some(renewed) = lease.renewed() {
        spec.instant(4, renewed);
    }
    let mut message = MessageBuilder::default();
    message.message(1, &metadata);
    message.message(2, &spec);
    message
}

fn encode_json(kind: &ResourceKind, object: &Value) -> MessageBuilder {
    let mut message = MessageBuilder::default();
    message.message(1, &metadata(&object["metadata"]));
    if kind.storage == LEASES {
        message.message(2, &lease_spec(&object["spec"]));
    } else {
        message.message(2, &node_spec(&object["spec"]));
        message.message(3, &node_status(&object["status"]));
    }
    message
}

fn metadata(metadata: &Value) -> MessageBuilder {
    let mut message = MessageBuilder::default();
    message.text(1, &metadata["name"]);
    message.text(2, &metadata["generateName"]);
    message.text(3, &metadata["namespace"]);
    message.text(5, &metadata["uid"]);
    message.text(6, &metadata["resourceVersion"]);
    message.number(7, &metadata["generation"]);
    message.time(8, &metadata["creationTimestamp"]);
    message.time(9, &metadata["deletionTimestamp"]);
    message.number(10, &metadata["deletionGracePeriodSeconds"]);
    message.map(11, &metadata["labels"]);
    message.map(12, &metadata["annotations"]);
    message.each(13, &metadata["ownerReferences"], |owner| {
        let mut message = MessageBuilder::default();
        message.text(1, &owner["kind"]);
        message.text(3, &owner["name"]);
        message.text(4, &owner["uid"]);
        message.text(5, &owner["apiVersion"]);
        message.number(6, &owner["controller"]);
        message.number(7, &owner["blockOwnerDeletion"]);
        message
    });
    for finalizer in metadata["finalizers"].as_array().into_iter().flatten() {
        message.text(14, finalizer);
    }
    message
}

fn lease_spec(spec: &Value) -> MessageBuilder {
    let mut message = MessageBuilder::default();
    message.text(1, &spec["holderIdentity"]);
    message.number(2, &spec["leaseDurationSeconds"]);
    message.time(3, &spec["acquireTime"]);
    message.time(4, &spec["renewTime"]);
    message.number(5, &spec["leaseTransitions"]);
    message
}

fn node_spec(spec: &Value) -> MessageBuilder {
    let mut message = MessageBuilder::default();
    message.text(1, &spec["podCIDR"]);
    message.text(3, &spec["providerID"]);
    message.number(4, &spec["unschedulable"]);
    message.each(5, &spec["taints"], |taint| {
        let mut message = MessageBuilder::default();
        message.text(1, &taint["key"]);
        message.text(2, &taint["value"]);
        message.text(3, &taint["effect"]);
        message.time(4, &taint["timeAdded"]);
        message
    });
    message
}

fn node_status(status: &Value) -> MessageBuilder {
    let mut message = MessageBuilder::default();
    quantities(&mut message, 1, &status["capacity"]);
    quantities(&mut message, 2, &status["allocatable"]);
    message.each(4, &status["conditions"], |condition| {
        let mut message = MessageBuilder::default();
        message.text(1, &condition["type"]);
        message.text(2, &condition["status"]);
        message.time(3, &condition["lastHeartbeatTime"]);
        message.time(4, &condition["lastTransitionTime"]);
        message.text(5, &condition["reason"]);
        message.text(6, &condition["message"]);
        message
    });
    message.each(5, &status["addresses"], |address| {
        let mut message = MessageBuilder::default();
        message.text(1, &address["type"]);
        message.text(2, &address["address"]);
        message
    });
    message.message(7, &node_info(&status["nodeInfo"]));
    message
}

fn node_info(info: &Value) -> MessageBuilder {
    const FIELDS: [&str; 10] = [
        "machineID",
        "systemUUID",
        "bootID",
        "kernelVersion",
        "osImage",
        "containerRuntimeVersion",
        "kubeletVersion",
        "kubeProxyVersion",
        "operatingSystem",
        "architecture",
    ];
    let mut message = MessageBuilder::default();
    for (number, field) in (1..).zip(FIELDS) {
        message.text(number, &info[field]);
    }
    message
}

/// Encodes a map of quantities, which are messages with a string.
fn quantities(message: &mut MessageBuilder, field: u32, amounts: &Value) {
    for (name, amount) in amounts.as_object().into_iter().flatten() {
        let mut quantity = MessageBuilder::default();
        quantity.text(1, amount);
        let mut entry = MessageBuilder::default();
        entry.bytes(1, name.as_bytes());
        entry.message(2, &quantity);
        message.message(field, &entry);
    }
}

#[cfg(test)]
mod tests {
    use kelpie_core::Time;
    use serde_json::json;

    use super::*;
    use crate::kind::KINDS;
    use crate::{ObjectStore, SimClock};

    #[test]
    fn compact_lease_encodes_like_its_json() {
        let store = ObjectStore::new(SimClock::new(|| Time::from_unix(1_800_000_000, 0)), 1);
        let owner = json!([{
            "apiVersion": "v1",
            "kind": "Node",
            "name": "b",
            "uid": "6e8c9a4e-7d9b-4c55-9a35-0a1b2c3d4e5f",
        }]);
        let kind = &KINDS[&LEASES];
        for (name, owners) in [("a", json!([])), ("b", owner)] {
            let lease = json!({
                "metadata": { "name": name, "ownerReferences": owners },
                "spec": { "holderIdentity": name, "leaseDurationSeconds": 40 },
            });
            store.create(&LEASES, "default", lease).unwrap();
            for at in [0, 1_800_000_010] {
                if at > 0 {
                    store
                        .renew("default", name, Time::from_unix(at, 5_000))
                        .unwrap();
                }
                let stored = store.lock().get(kind, "default", name).unwrap();
                assert!(matches!(stored.revision.body, ObjectBody::CompactLease(_)));
                let direct = encode_object(kind, &stored);
                let by_json = encode_json(kind, &stored.to_value(kind));
                assert_eq!(direct.as_bytes(), by_json.as_bytes(), "{name} {at}");
            }
        }
    }
}
