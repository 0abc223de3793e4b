//! The stored form of objects: compact, and ready to be sent.

use std::fmt::Write;
use std::sync::Arc;

use kelpie_core::Time;
use serde_json::{Map, Value, json};

use crate::clock::{self, rfc3339};
use crate::ids::Uid;
use crate::kind::ResourceKind;
use crate::resource::LEASES;

/// The key of an object: `namespace/name`, or `name` if it is cluster-scoped.
pub(crate) type ObjectKey = Arc<str>;

/// The start of every stored text. The version is inserted after it.
const PREFIX: &str = "{\"metadata\":{";

/// An object at one version.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ObjectRevision {
    pub(crate) version: u64,
    pub(crate) body: ObjectBody,
}

/// An object without its kind and version, which are known from the collection and the revision.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ObjectBody {
    /// JSON with the metadata first.
    Json(Arc<str>),
    /// A Lease as kubelets write it. There is one per node.
    CompactLease(CompactLease),
}

/// A Lease without any fields but those that kubelets set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CompactLease {
    pub(crate) uid: Uid,
    pub(crate) created: Time,
    /// The UID of the Node that owns it.
    pub(crate) owner: Option<Uid>,
    pub(crate) duration_seconds: i32,
    /// [`Time::MIN`] stands for a Lease that was never renewed.
    renewed: Time,
}

pub(crate) fn object_key(namespace: &str, name: &str) -> ObjectKey {
    match namespace {
        "" => name.into(),
        _ => format!("{namespace}/{name}").into(),
    }
}

/// Splits a key into namespace and name.
pub(crate) fn split_key(key: &str) -> (&str, &str) {
    key.split_once('/').unwrap_or(("", key))
}

impl ObjectBody {
    /// Stores an object in the most compact form that keeps all of it.
    pub(crate) fn from_object(kind: &ResourceKind, mut object: Map<String, Value>) -> Self {
        object.remove("apiVersion");
        object.remove("kind");
        let mut metadata = object.remove("metadata").unwrap_or_default();
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.remove("resourceVersion");
        }
        if kind.storage == LEASES
            && let Some(lease) = CompactLease::from_object(&metadata, &object)
        {
            return Self::CompactLease(lease);
        }
        let mut text = format!("{{\"metadata\":{metadata}");
        for (field, value) in &object {
            // Writing to a string does not fail.
            let _ = write!(text, ",{}:{value}", Value::from(field.as_str()));
        }
        text.push('}');
        Self::Json(text.into())
    }

    /// Returns the JSON with the metadata first and without the version.
    fn text(&self, key: &str) -> Arc<str> {
        match self {
            Self::Json(text) => Arc::clone(text),
            Self::CompactLease(lease) => {
                let (metadata, spec) = lease.metadata_and_spec(key);
                format!("{{\"metadata\":{metadata},\"spec\":{spec}}}").into()
            }
        }
    }
}

impl ObjectRevision {
    /// Writes the object as JSON text, with its kind if `kind` is given.
    pub(crate) fn write_json(&self, key: &str, kind: Option<&ResourceKind>, out: &mut String) {
        let text = self.body.text(key);
        out.push('{');
        if let Some(kind) = kind {
            let _ = write!(
                out,
                "\"kind\":\"{}\",\"apiVersion\":\"{}\",",
                kind.name,
                kind.api_version()
            );
        }
        let _ = write!(
            out,
            "\"metadata\":{{\"resourceVersion\":\"{}\",",
            self.version
        );
        out.push_str(text.get(PREFIX.len()..).unwrap_or("}}"));
    }

    /// Returns the object with its kind and version.
    pub(crate) fn to_value(&self, key: &str, kind: &ResourceKind) -> Value {
        let mut value: Value = match &self.body {
            // Stored text is always valid JSON.
            ObjectBody::Json(text) => serde_json::from_str(text).unwrap_or_default(),
            ObjectBody::CompactLease(lease) => {
                let (metadata, spec) = lease.metadata_and_spec(key);
                json!({ "metadata": metadata, "spec": spec })
            }
        };
        value["apiVersion"] = kind.api_version().into();
        value["kind"] = kind.name.clone().into();
        value["metadata"]["resourceVersion"] = self.version.to_string().into();
        value
    }
}

impl CompactLease {
    /// Returns the time of the last renewal.
    pub(crate) fn renewed(&self) -> Option<Time> {
        Some(self.renewed).filter(|renewed| *renewed != Time::MIN)
    }

    pub(crate) fn renew(&mut self, at: Time) {
        self.renewed = at;
    }

    /// Returns `None` if the Lease has fields that the compact form cannot hold.
    fn from_object(metadata: &Value, rest: &Map<String, Value>) -> Option<Self> {
        let spec = rest.get("spec")?;
        let time = |value: &Value| clock::parse(value.as_str()?);
        let uid = |value: &Value| Uid::parse(value.as_str()?);
        let lease = Self {
            uid: uid(&metadata["uid"])?,
            created: time(&metadata["creationTimestamp"])?,
            owner: uid(&metadata["ownerReferences"][0]["uid"]),
            duration_seconds: i32::try_from(spec["leaseDurationSeconds"].as_i64()?).ok()?,
            renewed: time(&spec["renewTime"]).unwrap_or(Time::MIN),
        };
        let namespace = metadata["namespace"].as_str()?;
        let key = object_key(namespace, metadata["name"].as_str()?);
        let is_lossless =
            lease.metadata_and_spec(&key) == (metadata.clone(), spec.clone()) && rest.len() == 1;
        is_lossless.then_some(lease)
    }

    fn metadata_and_spec(&self, key: &str) -> (Value, Value) {
        let (namespace, name) = split_key(key);
        let mut metadata = json!({
            "name": name,
            "namespace": namespace,
            "uid": self.uid.hyphenated(),
            "creationTimestamp": rfc3339(self.created),
        });
        if let Some(owner) = self.owner {
            metadata["ownerReferences"] = json!([{
                "apiVersion": "v1",
                "kind": "Node",
                "name": name,
                "uid": owner.hyphenated(),
            }]);
        }
        let mut spec =
            json!({ "holderIdentity": name, "leaseDurationSeconds": self.duration_seconds });
        if let Some(renewed) = self.renewed() {
            spec["renewTime"] = renewed.to_string().into();
        }
        (metadata, spec)
    }
}
