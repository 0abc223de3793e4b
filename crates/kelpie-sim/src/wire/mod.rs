//! The protobuf that Kubernetes speaks: written for the objects of which there are many, read for those
//! that kubectl writes so.

mod message;
mod object;
mod reading;
mod schema;

use serde_json::Value;

use crate::kind::Kind;
use crate::resource::{LEASES, NODES};
use crate::store::Kept;
use message::Message;
pub(crate) use reading::read;
pub(crate) use schema::{Fields, fields, review};

pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// How every answer begins.
const MAGIC: &[u8] = b"k8s\0";

/// Whether objects of this kind are written so.
pub(crate) fn is_written(kind: &Kind) -> bool {
    [LEASES, NODES].contains(&kind.shelf)
}

/// One object in its envelope.
pub(crate) fn one(kind: &Kind, kept: &Kept) -> Vec<u8> {
    envelope(kind, &kind.name, &object::write(kind, kept))
}

/// A list in its envelope; `metadata` is the list's own.
pub(crate) fn list(kind: &Kind, metadata: &Value, objects: &[Kept]) -> Vec<u8> {
    let mut list = Message::default();
    let mut own = Message::default();
    own.text(2, &metadata["resourceVersion"]);
    own.text(3, &metadata["continue"]);
    own.number(4, &metadata["remainingItemCount"]);
    list.message(1, &own);
    for kept in objects {
        list.message(2, &object::write(kind, kept));
    }
    envelope(kind, &format!("{}List", kind.name), &list)
}

fn envelope(kind: &Kind, name: &str, content: &Message) -> Vec<u8> {
    let mut meta = Message::default();
    meta.bytes(1, kind.api_version().as_bytes());
    meta.bytes(2, name.as_bytes());
    let mut envelope = Message::default();
    envelope.message(1, &meta);
    envelope.message(2, content);
    envelope.bytes(3, b"");
    envelope.bytes(4, b"");
    [MAGIC, envelope.as_bytes()].concat()
}
