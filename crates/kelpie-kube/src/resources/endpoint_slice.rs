//! EndpointSlices, reduced to the number of endpoints and of ready ones.

use kelpie_core::weeder::EndpointSlice;
use serde_json::Value;

use super::text;
use crate::objects::ObjectKind;
use crate::projection::FieldPath;
use crate::watch::WatchedResource;

/// The label with the name of the service to which a slice belongs.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// The fields of an EndpointSlice that are used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SliceFacts {
    /// The namespace of the slice and of its service.
    pub namespace: String,
    /// The name of the slice, not of the service.
    pub name: String,
    /// The service and its endpoints.
    pub slice: EndpointSlice,
}

/// Returns a label selector for the slices of these services.
pub(crate) fn labels(services: &[&str]) -> String {
    format!("{SERVICE_LABEL} in ({})", services.join(","))
}

impl WatchedResource for SliceFacts {
    const KIND: ObjectKind =
        ObjectKind::new("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices");
    const FIELDS: &'static [FieldPath] = &[
        &["metadata", "uid"],
        &["metadata", "generation"],
        &["metadata", "labels", SERVICE_LABEL],
        &["endpoints", "conditions", "ready"],
    ];

    fn read(namespace: &str, name: &str, object: &Value) -> Self {
        let metadata = &object["metadata"];
        let endpoints = object["endpoints"]
            .as_array()
            .map_or(&[][..], Vec::as_slice);
        let ready = endpoints.iter().filter(|endpoint| is_ready(endpoint));
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            slice: EndpointSlice {
                service: text(&metadata["labels"][SERVICE_LABEL]),
                uid: text(&metadata["uid"]),
                generation: metadata["generation"].as_i64().unwrap_or_default(),
                endpoints: count(endpoints.len()),
                ready: count(ready.count()),
            },
        }
    }
}

/// Returns whether an endpoint is ready. As in the API, an absent condition means ready.
fn is_ready(endpoint: &Value) -> bool {
    match &endpoint["conditions"]["ready"] {
        Value::Null => true,
        ready => ready.as_bool().unwrap_or(false),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::watch::Projected;

    fn read(endpoints: &Value) -> EndpointSlice {
        let slice = json!({
            "metadata": {
                "name": "etcd-abc", "namespace": "shoot", "uid": "u", "generation": 7,
                "labels": { SERVICE_LABEL: "etcd", "other": "x" },
                "managedFields": [{ "fieldsV1": {} }],
            },
            "addressType": "IPv4",
            "endpoints": endpoints,
        });
        let projected: Projected<SliceFacts> = serde_json::from_str(&slice.to_string()).unwrap();
        let facts = projected.facts;
        assert_eq!((&*facts.namespace, &*facts.name), ("shoot", "etcd-abc"));
        facts.slice
    }

    #[test]
    fn endpoint_without_condition_is_ready() {
        let endpoints = json!([
            { "addresses": ["10.0.0.1"], "conditions": { "ready": true, "serving": true } },
            { "addresses": ["10.0.0.2"], "conditions": { "ready": false } },
            { "addresses": ["10.0.0.3"], "conditions": { "ready": null } },
            { "addresses": ["10.0.0.4"], "conditions": {} },
            { "addresses": ["10.0.0.5"] },
        ]);
        let expected = EndpointSlice {
            service: "etcd".into(),
            uid: "u".into(),
            generation: 7,
            endpoints: 5,
            ready: 4,
        };
        assert_eq!(read(&endpoints), expected);
    }

    #[test]
    fn malformed_slice_has_no_ready_endpoint() {
        for endpoints in [
            json!(null),
            json!([]),
            json!("many"),
            json!([{ "conditions": { "ready": "yes" } }]),
        ] {
            assert_eq!(read(&endpoints).ready, 0, "{endpoints}");
        }
    }

    #[test]
    fn services_are_selected_by_label() {
        let selector = labels(&["etcd", "kube-apiserver"]);
        assert_eq!(
            selector,
            "kubernetes.io/service-name in (etcd,kube-apiserver)"
        );
    }
}
