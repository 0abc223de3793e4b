//! What an object is given by the server: values that nobody has to write, and a beginning for its
//! status. And the namespaces that every cluster has.

use serde_json::{Map, Value, json};

use super::state::State;
use crate::clock::seconds;
use crate::kind::{KINDS, Kind};
use crate::resource::{
    DEFINITIONS, DEPLOYMENTS, EVENTS, NAMESPACES, PODS, REPLICA_SETS, SECRETS, STATEFUL_SETS,
};

const NAMES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Makes the namespaces.
pub(super) fn fill(state: &mut State) {
    let Some(kind) = KINDS.get(&NAMESPACES) else {
        return;
    };
    for name in NAMES {
        let namespace = json!({ "metadata": { "name": name } });
        // Nothing is there yet that could refuse them.
        let _ = state.create(kind, "", namespace, false);
    }
}

/// Completes an object that is being created.
pub(super) fn created(state: &State, kind: &Kind, object: &mut Map<String, Value>) {
    completed(kind, object);
    let shelf = &kind.shelf;
    if *shelf == PODS {
        object.insert(
            "status".into(),
            json!({ "phase": "Pending", "qosClass": "BestEffort" }),
        );
        let defaults = [
            ("restartPolicy", json!("Always")),
            ("terminationGracePeriodSeconds", json!(30)),
            ("dnsPolicy", json!("ClusterFirst")),
            ("schedulerName", json!("default-scheduler")),
        ];
        for (field, value) in defaults {
            default(object, field, value);
        }
    } else if *shelf == NAMESPACES {
        default(object, "finalizers", json!(["kubernetes"]));
        object.insert("status".into(), json!({ "phase": "Active" }));
        label(object);
    } else if *shelf == DEFINITIONS {
        let status = established(&seconds(state.clock.now()), object);
        object.insert("status".into(), status);
    }
}

/// Completes an object that is being written.
pub(super) fn completed(kind: &Kind, object: &mut Map<String, Value>) {
    let shelf = &kind.shelf;
    if [DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS].contains(shelf) {
        default(object, "replicas", json!(1));
    } else if *shelf == SECRETS {
        object.entry("type").or_insert(json!("Opaque"));
        decode(object);
    } else if *shelf == EVENTS {
        object.entry("source").or_insert_with(|| json!({}));
        for time in ["eventTime", "firstTimestamp", "lastTimestamp"] {
            object.entry(time).or_insert(Value::Null);
        }
        let about = object
            .get_mut("involvedObject")
            .and_then(Value::as_object_mut);
        if let Some(about) = about {
            about.retain(|_, value| *value != "");
        }
    }
}

/// What was written in plain text goes where it is kept.
fn decode(secret: &mut Map<String, Value>) {
    use base64::Engine;
    use base64::prelude::BASE64_STANDARD;

    let Some(Value::Object(plain)) = secret.remove("stringData") else {
        return;
    };
    let data = secret.entry("data").or_insert_with(|| json!({}));
    if let Value::Object(data) = data {
        data.extend(plain.into_iter().map(|(field, text)| {
            let text = text.as_str().unwrap_or_default();
            (field, BASE64_STANDARD.encode(text).into())
        }));
    }
}

/// A namespace has its name for a label too.
fn label(namespace: &mut Map<String, Value>) {
    let Some(Value::Object(metadata)) = namespace.get_mut("metadata") else {
        return;
    };
    let name = metadata.get("name").cloned().unwrap_or_default();
    let labels = metadata.entry("labels").or_insert_with(|| json!({}));
    if let Value::Object(labels) = labels {
        labels.insert("kubernetes.io/metadata.name".into(), name);
    }
}

/// A field of the spec that nobody has written.
fn default(object: &mut Map<String, Value>, field: &str, value: Value) {
    let spec = object.entry("spec").or_insert_with(|| json!({}));
    if let Value::Object(spec) = spec {
        spec.entry(field).or_insert(value);
    }
}

/// A definition is served at once.
fn established(now: &str, definition: &Map<String, Value>) -> Value {
    let spec = definition.get("spec").cloned().unwrap_or_default();
    let condition = |kind: &str, reason: &str, message: &str| {
        json!({
            "type": kind,
            "status": "True",
            "reason": reason,
            "message": message,
            "lastTransitionTime": now,
        })
    };
    let versions = spec["versions"].as_array().into_iter().flatten();
    let stored = versions.filter(|version| version["storage"] == true);
    json!({
        "acceptedNames": spec["names"],
        "storedVersions": stored.map(|version| version["name"].clone()).collect::<Vec<_>>(),
        "conditions": [
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ],
    })
}
