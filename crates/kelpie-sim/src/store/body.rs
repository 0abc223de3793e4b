//! How objects are kept: small, and ready to be sent.

use std::fmt::Write;
use std::sync::Arc;

use kelpie_core::Time;
use serde_json::{Map, Value, json};

use crate::clock::{self, seconds};
use crate::dice::Uid;
use crate::kind::Kind;
use crate::resource::LEASES;

/// Where an object is filed: `namespace/name`, or `name` of one of the whole cluster.
pub(crate) type Key = Arc<str>;

/// How every kept text begins; the version is written in behind it.
const BEGIN: &str = "{\"metadata\":{";

/// An object at one version.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stored {
    pub(crate) version: u64,
    pub(crate) body: Body,
}

/// An object without its kind and version, which are told where it is kept.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Body {
    /// JSON, the metadata first.
    Json(Arc<str>),
    /// A lease as kubelets write it; there are as many as nodes.
    Lease(ThinLease),
}

/// A lease that says no more than whose it is and when it was renewed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ThinLease {
    uid: Uid,
    created: Time,
    /// The uid of the node it belongs to.
    owner: Option<Uid>,
    duration: i32,
    /// [`Time::MIN`]: never.
    renewed: Time,
}

pub(crate) fn key(namespace: &str, name: &str) -> Key {
    match namespace {
        "" => name.into(),
        _ => format!("{namespace}/{name}").into(),
    }
}

/// The namespace and the name of a key.
pub(crate) fn parts(key: &str) -> (&str, &str) {
    key.split_once('/').unwrap_or(("", key))
}

impl Body {
    /// Keeps an object as small as it can be.
    pub(crate) fn of(kind: &Kind, mut object: Map<String, Value>) -> Self {
        object.remove("apiVersion");
        object.remove("kind");
        let mut metadata = object.remove("metadata").unwrap_or_default();
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.remove("resourceVersion");
        }
        if kind.shelf == LEASES
            && let Some(thin) = ThinLease::of(&metadata, &object)
        {
            return Self::Lease(thin);
        }
        let mut text = format!("{{\"metadata\":{metadata}");
        for (field, value) in &object {
            // Writing to a string does not fail.
            let _ = write!(text, ",{}:{value}", Value::from(field.as_str()));
        }
        text.push('}');
        Self::Json(text.into())
    }

    /// JSON with the metadata first and no version.
    fn text(&self, key: &str) -> Arc<str> {
        match self {
            Self::Json(text) => Arc::clone(text),
            Self::Lease(thin) => {
                let (metadata, spec) = thin.written(key);
                format!("{{\"metadata\":{metadata},\"spec\":{spec}}}").into()
            }
        }
    }
}

impl Stored {
    /// The object as JSON text; with its kind if `kind` is given.
    pub(crate) fn write(&self, key: &str, kind: Option<&Kind>, out: &mut String) {
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
        out.push_str(text.get(BEGIN.len()..).unwrap_or("}}"));
    }

    /// The object with its kind and version.
    pub(crate) fn value(&self, key: &str, kind: &Kind) -> Value {
        let mut value: Value = match &self.body {
            // What is kept was written by us.
            Body::Json(text) => serde_json::from_str(text).unwrap_or_default(),
            Body::Lease(thin) => {
                let (metadata, spec) = thin.written(key);
                json!({ "metadata": metadata, "spec": spec })
            }
        };
        value["apiVersion"] = kind.api_version().into();
        value["kind"] = kind.name.clone().into();
        value["metadata"]["resourceVersion"] = self.version.to_string().into();
        value
    }
}

impl ThinLease {
    /// When it was renewed last.
    pub(crate) fn renewed(&self) -> Option<Time> {
        Some(self.renewed).filter(|renewed| *renewed != Time::MIN)
    }

    pub(crate) fn renew(&mut self, at: Time) {
        self.renewed = at;
    }

    /// Nothing if the lease says more than such a one can keep.
    fn of(metadata: &Value, rest: &Map<String, Value>) -> Option<Self> {
        let spec = rest.get("spec")?;
        let time = |value: &Value| clock::parse(value.as_str()?);
        let uid = |value: &Value| Uid::parse(value.as_str()?);
        let thin = Self {
            uid: uid(&metadata["uid"])?,
            created: time(&metadata["creationTimestamp"])?,
            owner: uid(&metadata["ownerReferences"][0]["uid"]),
            duration: i32::try_from(spec["leaseDurationSeconds"].as_i64()?).ok()?,
            renewed: time(&spec["renewTime"]).unwrap_or(Time::MIN),
        };
        let namespace = metadata["namespace"].as_str()?;
        let key = key(namespace, metadata["name"].as_str()?);
        let same = thin.written(&key) == (metadata.clone(), spec.clone()) && rest.len() == 1;
        same.then_some(thin)
    }

    fn written(&self, key: &str) -> (Value, Value) {
        let (namespace, name) = parts(key);
        let mut metadata = json!({
            "name": name,
            "namespace": namespace,
            "uid": self.uid.written(),
            "creationTimestamp": seconds(self.created),
        });
        if let Some(owner) = self.owner {
            metadata["ownerReferences"] = json!([{
                "apiVersion": "v1",
                "kind": "Node",
                "name": name,
                "uid": owner.written(),
            }]);
        }
        let mut spec = json!({ "holderIdentity": name, "leaseDurationSeconds": self.duration });
        if let Some(renewed) = self.renewed() {
            spec["renewTime"] = renewed.to_string().into();
        }
        (metadata, spec)
    }
}
