//! Encoding Leases and Nodes.

use serde_json::Value;

use super::message::MessageBuilder;
use super::schema::{Fields, LEASE, NODE, ProtoType};
use crate::kind::ResourceKind;
use crate::resource::LEASES;
use crate::store::StoredObject;
use crate::store::body::{CompactLease, ObjectBody, split_key};

/// Encodes a stored object.
pub(super) fn encode_object(kind: &ResourceKind, stored: &StoredObject) -> MessageBuilder {
    match &stored.revision.body {
        ObjectBody::CompactLease(lease) => encode_lease(stored, lease),
        ObjectBody::Json(_) => {
            let fields = if kind.storage == LEASES { LEASE } else { NODE };
            encode_message(fields, &stored.to_value(kind))
        }
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

/// Encodes the fields of a JSON object. A field that is absent or has another type is left out;
/// a message is empty instead.
fn encode_message(fields: Fields, object: &Value) -> MessageBuilder {
    let mut message = MessageBuilder::default();
    for (number, name, proto_type) in fields {
        let (number, value) = (*number, &object[*name]);
        let items = value.as_array().into_iter().flatten();
        match proto_type {
            ProtoType::String => message.text(number, value),
            ProtoType::Bool
            | ProtoType::Flag
            | ProtoType::Int
            | ProtoType::NonZeroInt
            | ProtoType::ServerInt => {
                message.number(number, value);
            }
            ProtoType::Time => message.time(number, value),
            ProtoType::Message(fields) => message.message(number, &encode_message(fields, value)),
            ProtoType::Strings => items.for_each(|item| message.text(number, item)),
            ProtoType::Messages(fields) => {
                items.for_each(|item| message.message(number, &encode_message(fields, item)));
            }
            ProtoType::StringMap => message.map(number, value),
            ProtoType::Quantities => {
                for (key, amount) in value.as_object().into_iter().flatten() {
                    let mut quantity = MessageBuilder::default();
                    quantity.text(1, amount);
                    let mut entry = MessageBuilder::default();
                    entry.bytes(1, key.as_bytes());
                    entry.message(2, &quantity);
                    message.message(number, &entry);
                }
            }
            // No kind that is sent has such fields.
            ProtoType::BytesMap | ProtoType::IntOrString | ProtoType::ServerOwned => {}
        }
    }
    message
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
                let by_json = encode_message(LEASE, &stored.to_value(kind));
                assert_eq!(direct.as_bytes(), by_json.as_bytes(), "{name} {at}");
            }
        }
    }
}
