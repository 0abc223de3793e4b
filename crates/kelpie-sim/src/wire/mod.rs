//! The Kubernetes API's protobuf encoding: written for the most numerous objects, and read for the
//! objects that kubectl sends in it.

mod decode;
mod encode;
mod message;
mod schema;

use serde_json::Value;

use crate::kind::ResourceKind;
use crate::resource::{LEASES, NODES};
use crate::store::StoredObject;
pub(crate) use decode::decode;
use message::MessageBuilder;
pub(crate) use schema::{Fields, kind_fields, review_fields};

pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The prefix of every protobuf body.
const MAGIC: &[u8] = b"k8s\0";

/// Returns whether objects of this kind can be encoded as protobuf.
pub(crate) fn has_encoding(kind: &ResourceKind) -> bool {
    [LEASES, NODES].contains(&kind.storage)
}

/// Encodes one object with its envelope.
pub(crate) fn encode(kind: &ResourceKind, stored: &StoredObject) -> Vec<u8> {
    envelope(kind, &kind.name, &encode::encode_object(kind, stored))
}

/// Encodes a list with its envelope; `metadata` is that of the list.
pub(crate) fn encode_list(
    kind: &ResourceKind,
    metadata: &Value,
    objects: &[StoredObject],
) -> Vec<u8> {
    let mut list = MessageBuilder::default();
    let mut list_meta = MessageBuilder::default();
    list_meta.text(2, &metadata["resourceVersion"]);
    list_meta.text(3, &metadata["continue"]);
    list_meta.number(4, &metadata["remainingItemCount"]);
    list.message(1, &list_meta);
    for stored in objects {
        list.message(2, &encode::encode_object(kind, stored));
    }
    envelope(kind, &format!("{}List", kind.name), &list)
}

fn envelope(kind: &ResourceKind, name: &str, content: &MessageBuilder) -> Vec<u8> {
    let mut meta = MessageBuilder::default();
    meta.bytes(1, kind.api_version().as_bytes());
    meta.bytes(2, name.as_bytes());
    let mut envelope = MessageBuilder::default();
    envelope.message(1, &meta);
    envelope.message(2, content);
    envelope.bytes(3, b"");
    envelope.bytes(4, b"");
    [MAGIC, envelope.as_bytes()].concat()
}
