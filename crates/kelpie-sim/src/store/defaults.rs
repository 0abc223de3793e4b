//! The API server's defaults: field values, initial status, and the namespaces of every cluster.

use serde_json::{Map, Value, json};

use super::state::StoreState;
use crate::clock::rfc3339;
use crate::kind::{KINDS, ResourceKind};
use crate::resource::{
    CONFIG_MAPS, DEFINITIONS, DEPLOYMENTS, EVENTS, NAMESPACES, PODS, REPLICA_SETS, SECRETS,
    STATEFUL_SETS,
};

const NAMESPACES_OF_EVERY_CLUSTER: [&str; 4] =
    ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Creates the namespaces that every cluster has.
pub(super) fn create_namespaces(state: &mut StoreState) {
    let Some(kind) = KINDS.get(&NAMESPACES) else {
        return;
    };
    for name in NAMESPACES_OF_EVERY_CLUSTER {
        let namespace = json!({ "metadata": { "name": name } });
        // An empty store accepts all of them.
        let _ = state.create(kind, "", namespace, false);
    }
}

/// Adds the defaults to a new object.
pub(super) fn apply_on_create(
    state: &StoreState,
    kind: &ResourceKind,
    object: &mut Map<String, Value>,
) {
    apply_on_write(kind, object);
    let storage = &kind.storage;
    if *storage == PODS {
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
            default_spec_field(object, field, value);
        }
    } else if *storage == NAMESPACES {
        default_spec_field(object, "finalizers", json!(["kubernetes"]));
        object.insert("status".into(), json!({ "phase": "Active" }));
        add_name_label(object);
    } else if *storage == DEFINITIONS {
        let status = established_status(&rfc3339(state.clock.now()), object);
        object.insert("status".into(), status);
    }
}

/// Adds the defaults to an object that is written.
pub(super) fn apply_on_write(kind: &ResourceKind, object: &mut Map<String, Value>) {
    let storage = &kind.storage;
    if [DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS].contains(storage) {
        default_spec_field(object, "replicas", json!(1));
    } else if *storage == SECRETS {
        object.entry("type").or_insert(json!("Opaque"));
        encode_string_data(object);
        omit_empty(object);
    } else if *storage == CONFIG_MAPS {
        omit_empty(object);
    } else if *storage == EVENTS {
        object.entry("source").or_insert_with(|| json!({}));
        for time in ["eventTime", "firstTimestamp", "lastTimestamp"] {
            object.entry(time).or_insert(Value::Null);
        }
        let involved = object
            .get_mut("involvedObject")
            .and_then(Value::as_object_mut);
        if let Some(involved) = involved {
            involved.retain(|_, value| *value != "");
        }
    }
}

fn omit_empty(object: &mut Map<String, Value>) {
    let is_empty = |value: &Value| value.as_object().is_some_and(Map::is_empty);
    object.retain(|field, value| {
        !(["data", "binaryData"].contains(&field.as_str()) && is_empty(value))
    });
}

/// Moves `stringData` of a Secret into `data`, as base64.
fn encode_string_data(secret: &mut Map<String, Value>) {
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

/// Adds the label with the namespace's name.
fn add_name_label(namespace: &mut Map<String, Value>) {
    let Some(Value::Object(metadata)) = namespace.get_mut("metadata") else {
        return;
    };
    let name = metadata.get("name").cloned().unwrap_or_default();
    let labels = metadata.entry("labels").or_insert_with(|| json!({}));
    if let Value::Object(labels) = labels {
        labels.insert("kubernetes.io/metadata.name".into(), name);
    }
}

/// Sets a field of the spec unless it is present.
fn default_spec_field(object: &mut Map<String, Value>, field: &str, value: Value) {
    let spec = object.entry("spec").or_insert_with(|| json!({}));
    if let Value::Object(spec) = spec {
        spec.entry(field).or_insert(value);
    }
}

/// Returns the status of a CRD that is served immediately.
fn established_status(now: &str, definition: &Map<String, Value>) -> Value {
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
            condition(
                "Established",
                "InitialNamesAccepted",
                "the initial names have been accepted",
            ),
        ],
    })
}
