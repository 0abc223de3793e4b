//! The guard's policy and binding as JSON objects.

use kelpie_core::prober::fence::ResourceVersion;
use kelpie_core::prober::guard::{
    GUARD_NAME, GuardBindingSpec, GuardContent, GuardPolicySpec, OWNER_ANNOTATION, StoredBinding,
    StoredPolicy,
};
use serde_json::{Value, json};

const API_VERSION: &str = "admissionregistration.k8s.io/v1";

/// Returns the policy with this content.
pub(super) fn policy_object(owner: &str, content: &GuardContent, replaces: Option<&str>) -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": metadata(owner, replaces),
        "spec": GuardPolicySpec::new(content),
    })
}

/// Returns the binding of the policy.
pub(super) fn binding_object(owner: &str, replaces: Option<&str>) -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": metadata(owner, replaces),
        "spec": GuardBindingSpec::default(),
    })
}

fn metadata(owner: &str, replaces: Option<&str>) -> Value {
    let mut metadata = json!({
        "name": GUARD_NAME,
        "labels": { "app.kubernetes.io/managed-by": "kelpie" },
        "annotations": { OWNER_ANNOTATION: owner },
    });
    if let Some(version) = replaces {
        metadata["resourceVersion"] = version.into();
    }
    metadata
}

/// Reads a policy of the cluster.
pub(super) fn read_policy(object: &Value) -> Option<StoredPolicy> {
    let (version, owner) = read_metadata(object)?;
    let spec = serde_json::from_value::<GuardPolicySpec>(object["spec"].clone());
    Some(StoredPolicy {
        version,
        owner,
        content: spec.ok().and_then(|spec| spec.content()),
    })
}

/// Reads a binding of the cluster.
pub(super) fn read_binding(object: &Value) -> Option<StoredBinding> {
    let (version, _) = read_metadata(object)?;
    let spec = serde_json::from_value::<GuardBindingSpec>(object["spec"].clone());
    Some(StoredBinding {
        version,
        is_intact: spec.is_ok_and(|spec| spec.is_intact()),
    })
}

fn read_metadata(object: &Value) -> Option<(ResourceVersion, String)> {
    let metadata = &object["metadata"];
    let owner = metadata["annotations"][OWNER_ANNOTATION].as_str();
    let version = ResourceVersion::new(metadata["resourceVersion"].as_str()?);
    Some((version, owner.unwrap_or_default().to_owned()))
}
