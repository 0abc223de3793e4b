//! Built-in Kubernetes resources that components watch, reduced to the fields that are used.

pub(crate) mod endpoint_slice;
mod pod;
mod secret;

pub use endpoint_slice::SliceFacts;
pub use pod::{DeleteError, PodFacts};
pub use secret::{KubeconfigSecret, kubeconfig_of};

use serde_json::Value;

/// Returns a string; anything else is empty.
fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
