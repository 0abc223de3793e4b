//! EndpointSlices: how many endpoints a service has, and how many are ready.

use kelpie_core::weeder::Slice;
use serde_json::Value;

use super::sieve::Keep;
use super::watch::Watched;

/// The label that says which service a slice belongs to.
const SERVICE: &str = "kubernetes.io/service-name";

pub(super) const PAGE: u32 = 500;

/// What is used of an EndpointSlice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SliceFacts {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What it says.
    pub slice: Slice,
}

/// Selects the slices of these services.
pub(super) fn labels(services: &[&str]) -> String {
    format!("{SERVICE} in ({})", services.join(","))
}

impl Watched for SliceFacts {
    const GROUP: &'static str = "discovery.k8s.io";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "EndpointSlice";
    const PLURAL: &'static str = "endpointslices";
    const KEEP: Keep = Keep::Fields(&[
        (
            "metadata",
            Keep::Fields(&[
                ("name", Keep::All),
                ("namespace", Keep::All),
                ("resourceVersion", Keep::All),
                ("uid", Keep::All),
                ("generation", Keep::All),
                ("labels", Keep::Fields(&[(SERVICE, Keep::All)])),
            ]),
        ),
        (
            "endpoints",
            Keep::Fields(&[("conditions", Keep::Fields(&[("ready", Keep::All)]))]),
        ),
    ]);

    fn read(namespace: &str, name: &str, object: &Value) -> Self {
        let metadata = &object["metadata"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let endpoints = object["endpoints"]
            .as_array()
            .map_or(&[][..], Vec::as_slice);
        let ready = endpoints.iter().filter(|endpoint| is_ready(endpoint));
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            slice: Slice {
                service: text(&metadata["labels"][SERVICE]),
                uid: text(&metadata["uid"]),
                generation: metadata["generation"].as_i64().unwrap_or_default(),
                endpoints: count(endpoints.len()),
                ready: count(ready.count()),
            },
        }
    }
}

/// Absent means ready, as the API has it.
fn is_ready(endpoint: &Value) -> bool {
    match &endpoint["conditions"]["ready"] {
        Value::Null => true,
        ready => ready.as_bool().unwrap_or(false),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::watch::Thin;
    use super::*;

    fn read(endpoints: &Value) -> Slice {
        let slice = json!({
            "metadata": {
                "name": "etcd-abc", "namespace": "shoot", "uid": "u", "generation": 7,
                "labels": { SERVICE: "etcd", "other": "x" },
                "managedFields": [{ "fieldsV1": {} }],
            },
            "addressType": "IPv4",
            "endpoints": endpoints,
        });
        let thin: Thin<SliceFacts> = serde_json::from_str(&slice.to_string()).unwrap();
        let facts = thin.into_facts();
        assert_eq!((&*facts.namespace, &*facts.name), ("shoot", "etcd-abc"));
        facts.slice
    }

    #[test]
    fn endpoints_are_counted_and_absent_conditions_mean_ready() {
        let endpoints = json!([
            { "addresses": ["10.0.0.1"], "conditions": { "ready": true, "serving": true } },
            { "addresses": ["10.0.0.2"], "conditions": { "ready": false } },
            { "addresses": ["10.0.0.3"], "conditions": { "ready": null } },
            { "addresses": ["10.0.0.4"], "conditions": {} },
            { "addresses": ["10.0.0.5"] },
        ]);
        let expected = Slice {
            service: "etcd".into(),
            uid: "u".into(),
            generation: 7,
            endpoints: 5,
            ready: 4,
        };
        assert_eq!(read(&endpoints), expected);
    }

    #[test]
    fn an_empty_or_malformed_slice_has_no_ready_endpoint() {
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
    fn services_are_selected_by_their_label() {
        let selector = labels(&["etcd", "kube-apiserver"]);
        assert_eq!(
            selector,
            "kubernetes.io/service-name in (etcd,kube-apiserver)"
        );
    }
}
