//! The kind's definition, as an API server takes it.

use kelpie_core::addon::{Component, Standard};
use serde_json::{Value, json};

use crate::addon::ADDON;
use crate::spec::Spec;

/// The `CustomResourceDefinition` of `ObservabilityAddon`.
pub fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{}.{}", ADDON.plural, ADDON.group) },
        "spec": {
            "group": ADDON.group,
            "names": {
                "kind": ADDON.kind,
                "listKind": format!("{}List", ADDON.kind),
                "plural": ADDON.plural,
                "singular": "observabilityaddon",
                "shortNames": ["oba"],
            },
            "scope": "Namespaced",
            "versions": [{
                "name": ADDON.version,
                "served": true,
                "storage": true,
                "subresources": { "status": {} },
                "additionalPrinterColumns": columns(),
                "schema": { "openAPIV3Schema": schema() },
            }],
        },
    })
}

/// Which standard type holds, why, and since when there is such an addon.
fn columns() -> Vec<Value> {
    let column = |name: &str, kind: &str, field: &str| {
        let path = format!(".status.conditions[?(@.type==\"{kind}\")].{field}");
        json!({ "name": name, "type": "string", "jsonPath": path })
    };
    let standard = Standard::ALL.map(Standard::condition);
    let standard = standard.map(|kind| column(kind, kind, "status"));
    let [platform, uwl] = Component::ALL.map(Component::condition);
    let reasons = [
        column("Platform", platform, "reason"),
        column("UWL", uwl, "reason"),
    ];
    let age = json!({ "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" });
    standard.into_iter().chain(reasons).chain([age]).collect()
}

fn schema() -> Value {
    json!({
        "description": "The collection of a cluster's metrics, and how it is.",
        "type": "object",
        "properties": {
            "apiVersion": { "type": "string" },
            "kind": { "type": "string" },
            "metadata": { "type": "object" },
            "spec": spec(),
            "status": status(),
        },
    })
}

fn spec() -> Value {
    let default = Spec::default();
    let (shortest, longest) = Spec::INTERVAL;
    let (fewest, most) = Spec::WORKERS;
    json!({
        "description": "What is wanted.",
        "type": "object",
        "properties": {
            "enableMetrics": {
                "description": "Whether metrics are collected at all.",
                "type": "boolean",
                "default": default.enable_metrics,
            },
            "interval": {
                "description": "Seconds between two rounds of a collector.",
                "type": "integer",
                "format": "int32",
                "minimum": shortest,
                "maximum": longest,
                "default": default.interval,
            },
            "scrapeSizeLimitBytes": {
                "description": "What a collector may read in one round, in bytes.",
                "type": "integer",
                "format": "int64",
                "minimum": 1,
                "default": default.scrape_size_limit_bytes,
            },
            "workers": {
                "description": "How many parts of a round run at the same time.",
                "type": "integer",
                "format": "int32",
                "minimum": fewest,
                "maximum": most,
                "default": default.workers,
            },
            "resources": {
                "description": "The resources of a collector's container, as a Pod has them.",
                "type": "object",
                "properties": {
                    "limits": quantities(),
                    "requests": quantities(),
                },
            },
        },
    })
}

/// Amounts by the name of the resource, such as `100m` of cpu.
fn quantities() -> Value {
    json!({
        "type": "object",
        "additionalProperties": {
            "anyOf": [{ "type": "integer" }, { "type": "string" }],
            "x-kubernetes-int-or-string": true,
            "pattern": "^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))))?$",
        },
    })
}

fn status() -> Value {
    json!({
        "description": "What the operator, the collectors and the status controller say.",
        "type": "object",
        "properties": {
            "conditions": {
                "description": "One of each type; exactly one of the standard types is True.",
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
                "items": condition(),
            },
            "rollouts": {
                "description": "The pod template last announced of each component: its hash.",
                "type": "object",
                "additionalProperties": { "type": "string", "maxLength": 64 },
            },
        },
    })
}

/// As `metav1.Condition`, but for the reason: older writers are not held to its pattern.
fn condition() -> Value {
    json!({
        "type": "object",
        "required": ["lastTransitionTime", "message", "reason", "status", "type"],
        "properties": {
            "lastTransitionTime": { "type": "string", "format": "date-time" },
            "message": { "type": "string", "maxLength": 32768 },
            "observedGeneration": { "type": "integer", "format": "int64", "minimum": 0 },
            "reason": { "type": "string", "maxLength": 1024 },
            "status": { "type": "string", "enum": ["True", "False", "Unknown"] },
            "type": { "type": "string", "maxLength": 316 },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_of_the_definition_are_those_of_the_type() {
        let spec =
            &definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
        let mut defaults = serde_json::Map::new();
        for (name, field) in spec["properties"].as_object().unwrap() {
            if let Some(default) = field.get("default") {
                defaults.insert(name.clone(), default.clone());
            }
        }
        assert_eq!(defaults.len(), 4, "all but the resources");
        let read: Spec = serde_json::from_value(defaults.into()).unwrap();
        assert_eq!(read, Spec::default());
    }
}
