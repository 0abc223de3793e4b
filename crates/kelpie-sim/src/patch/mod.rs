//! Patches: a document that says what is to change in another.

mod applied;
mod json;
mod merge;
mod strategic;

use serde_json::Value;

use crate::refusal::Refusal;
pub(crate) use applied::prune;

/// How a patch is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patch {
    /// RFC 6902: a list of operations.
    Json,
    /// RFC 7386: what is there replaces, null removes.
    Merge,
    /// As the last one, but lists of things with a name are merged by the name.
    Strategic,
    /// What the object should at least be like. Who applies owns it: there are no conflicts.
    Apply,
}

impl Patch {
    /// By the content type of the request.
    pub(crate) fn of(content_type: &str) -> Option<Self> {
        match content_type {
            "application/json-patch+json" => Some(Self::Json),
            "application/merge-patch+json" => Some(Self::Merge),
            "application/strategic-merge-patch+json" => Some(Self::Strategic),
            "application/apply-patch+yaml" => Some(Self::Apply),
            _ => None,
        }
    }

    /// What becomes of `object`.
    pub(crate) fn apply(self, object: &mut Value, patch: &Value) -> Result<(), Refusal> {
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
