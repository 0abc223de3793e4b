//! Admission by the guard's policy, the only `ValidatingAdmissionPolicy` that the simulator
//! understands.

use std::cell::LazyCell;

use kelpie_core::Time;
use kelpie_core::prober::guard::{
    GUARD_NAME, GuardBindingSpec, GuardContent, GuardPolicySpec, mark_message,
};
use serde_json::Value;

use crate::resource::{LEASES, POLICIES, POLICY_BINDINGS};
use crate::status_error::{StatusError, StatusReason};
use crate::store::ObjectStore;

/// Rejects a policy that the simulator does not understand.
pub(crate) fn check_policy(policy: &Value) -> Result<(), StatusError> {
    let name = policy["metadata"]["name"].as_str().unwrap_or_default();
    match read_content(policy) {
        Some(_) if name == GUARD_NAME => Ok(()),
        _ => {
            let message = "the simulator understands no other policy than that of Kelpie's guard";
            Err(StatusError::new(StatusReason::Invalid, message))
        }
    }
}

/// Denies the dry run that asks what is enforced, if the guard's policy is.
pub(crate) fn check_dry_run(store: &ObjectStore) -> Result<(), StatusError> {
    let Some(content) = enforced(store) else {
        return Ok(());
    };
    let message = format!(
        "{LEASES} \"{GUARD_NAME}\" is forbidden: ValidatingAdmissionPolicy '{GUARD_NAME}' with \
         binding '{GUARD_NAME}' denied request: {}",
        mark_message(&content)
    );
    Err(StatusError::for_object(
        StatusReason::Invalid,
        message,
        &LEASES,
        GUARD_NAME,
    ))
}

/// Returns whether kube-controller-manager may turn a node Unknown. The policy is read at the first
/// call.
pub(crate) fn node_permits(store: &ObjectStore, now: Time) -> impl Fn(&str) -> bool {
    let guard = LazyCell::new(move || enforced(store));
    move |node| {
        let guard: Option<&GuardContent> = guard.as_ref();
        guard.is_none_or(|guard| now >= guard.until || guard.permits.contains(node))
    }
}

/// Returns the enforced content of the guard's policy; `None` if it is not bound.
fn enforced(store: &ObjectStore) -> Option<GuardContent> {
    let policy = store.get(&POLICIES, "", GUARD_NAME).ok()?;
    let binding = store.get(&POLICY_BINDINGS, "", GUARD_NAME).ok()?;
    let binding: GuardBindingSpec = serde_json::from_value(binding["spec"].clone()).ok()?;
    read_content(&policy).filter(|_| binding.is_intact())
}

fn read_content(policy: &Value) -> Option<GuardContent> {
    let spec: GuardPolicySpec = serde_json::from_value(policy["spec"].clone()).ok()?;
    spec.content()
}
