//! The patch formats of the Kubernetes API.

mod applied;
mod json;
mod merge;
mod strategic;

use serde_json::Value;

use crate::status_error::StatusError;
pub(crate) use applied::prune;

/// The format of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchType {
    /// RFC 6902: a list of operations.
    Json,
    /// RFC 7386: values replace, null removes.
    Merge,
    /// A merge patch that merges lists by a key of their items.
    Strategic,
    /// Server-side apply. The manager always takes ownership: there are no conflicts.
    Apply,
}

impl PatchType {
    /// Returns the format for a request's content type.
    pub(crate) fn from_content_type(content_type: &str) -> Option<Self> {
        match content_type {
            "application/json-patch+json" => Some(Self::Json),
            "application/merge-patch+json" => Some(Self::Merge),
            "application/strategic-merge-patch+json" => Some(Self::Strategic),
            "application/apply-patch+yaml" => Some(Self::Apply),
            _ => None,
        }
    }

    /// Applies a patch of this format to `object`.
    pub(crate) fn apply(self, object: &mut Value, patch: &Value) -> Result<(), StatusError> {
        match self {
            Self::Json => json::apply(object, patch),
            Self::Merge => {
                merge::apply(object, patch);
                Ok(())
            }
            Self::Strategic | Self::Apply => {
                strategic::apply(object, patch);
                Ok(())
            }
        }
    }
}
