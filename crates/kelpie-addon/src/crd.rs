//! The `CustomResourceDefinition` of the addon.

use kelpie_core::addon::{AddonComponent, StandardCondition};
use serde_json::{Value, json};

use crate::addon::ADDON;
use crate::spec::AddonSpec;

/// The pattern that Kubernetes generates for a `resource.Quantity`.
const QUANTITY_PATTERN: &str = concat!(
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))",
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
);

/// Returns the `CustomResourceDefinition` of `ObservabilityAddon`.
pub fn custom_resource_definition() -> Value {
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

/// Returns the printer columns: the standard conditions, the components' reasons and the age.
fn columns() -> Vec<Value> {
    let column = |name: &str, condition_type: &str, field: &str| {
        let path = format!(".status.conditions[?(@.type==\"{condition_type}\")].{field}");
        json!({ "name": name, "type": "string", "jsonPath": path })
    };
    let standard = StandardCondition::ALL.map(StandardCondition::condition_type);
    let standard = standard.map(|name| column(name, name, "status"));
    let [platform, uwl] = AddonComponent::ALL.map(AddonComponent::condition_type);
    let reasons = [
        column("Platform", platform, "reason"),
        column("UWL", uwl, "reason"),
    ];
    let age = json!({ "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" });
    standard.into_iter().chain(reasons).chain([age]).collect()
}

fn schema() -> Value {
    json!({
        "description": "Collects the metrics of a cluster and forwards them to a hub.",
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
    let default = AddonSpec::default();
    let (shortest, longest) = AddonSpec::INTERVAL;
    let (fewest, most) = AddonSpec::WORKERS;
    json!({
        "description": "The desired state.",
        "type": "object",
        "properties": {
            "enableMetrics": {
                "description": "Enables the collection of metrics.",
                "type": "boolean",
                "default": default.enable_metrics,
            },
            "interval": {
                "description": "Seconds between two ticks of a collector.",
                "type": "integer",
                "format": "int32",
                "minimum": shortest,
                "maximum": longest,
                "default": default.interval,
            },
            "scrapeSizeLimitBytes": {
                "description": "The number of bytes that a collector may read per tick.",
                "type": "integer",
                "format": "int64",
                "minimum": 1,
                "default": default.scrape_size_limit_bytes,
            },
            "workers": {
                "description": "The number of parts of a tick that run concurrently.",
                "type": "integer",
                "format": "int32",
                "minimum": fewest,
                "maximum": most,
                "default": default.workers,
            },
            "resources": {
                "description": "The resources of a collector's container, as in a Pod.",
                "type": "object",
                "properties": {
                    "limits": quantities(),
                    "requests": quantities(),
                },
            },
        },
    })
}

/// Returns the schema of quantities by the name of the resource, such as `cpu: 100m`.
fn quantities() -> Value {
    json!({
        "type": "object",
        "additionalProperties": {
            "anyOf": [{ "type": "integer" }, { "type": "string" }],
            "x-kubernetes-int-or-string": true,
            "pattern": QUANTITY_PATTERN,
        },
    })
}

fn status() -> Value {
    json!({
        "description": "Written by the operator, the collectors and the status controller.",
        "type": "object",
        "properties": {
            "conditions": {
                "description": "One condition per type. Exactly one of the standard types is True.",
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
                "items": condition(),
            },
            "rollouts": {
                "description": "The hash of the last announced pod template, by component.",
                "type": "object",
                "additionalProperties": { "type": "string", "maxLength": 64 },
            },
        },
    })
}

/// Returns the schema of `metav1.Condition`, but without its pattern for the reason: older writers
/// do not conform to it.
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
    fn crd_defaults_match_the_type() {
        let spec = &custom_resource_definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
            ["properties"]["spec"];
        let mut defaults = serde_json::Map::new();
        for (name, field) in spec["properties"].as_object().unwrap() {
            if let Some(default) = field.get("default") {
                defaults.insert(name.clone(), default.clone());
            }
        }
        assert_eq!(defaults.len(), 4, "all but the resources");
        let read = AddonSpec::read(&defaults.into());
        assert_eq!(read, (AddonSpec::default(), Vec::new()));
    }
}
