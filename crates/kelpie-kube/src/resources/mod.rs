//! Built-in Kubernetes resources that components watch, reduced to the fields that are used.

pub(crate) mod endpoint_slice;
pub(crate) mod pod;
mod secret;

pub use endpoint_slice::SliceFacts;
pub use pod::{DeleteError, PodFacts};
pub use secret::KubeconfigSecret;
