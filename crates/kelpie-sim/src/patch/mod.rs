//! The patch formats of the Kubernetes API.

mod applied;
mod strategic;

use std::fmt;

use serde::Deserialize;
use serde_json::Value;

use crate::status_error::{StatusError, StatusReason};
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
            Self::Json => return apply_json(object, patch),
            Self::Merge => json_patch::merge(object, patch),
            Self::Strategic | Self::Apply => strategic::apply(object, patch),
        }
        Ok(())
    }
}

fn apply_json(object: &mut Value, patch: &Value) -> Result<(), StatusError> {
    if !patch.is_array() {
        let message = "a JSON patch has to be a list of operations";
        return Err(StatusError::bad_request(message));
    }
    let rejected = |why: &dyn fmt::Display| {
        let message =
            format!("the server rejected our request due to an error in our request: {why}");
        StatusError::new(StatusReason::Invalid, message)
    };
    let patch = json_patch::Patch::deserialize(patch).map_err(|error| rejected(&error))?;
    // Nothing is stored if an operation fails, so that none has to be undone.
    json_patch::patch_unsafe(object, &patch).map_err(|error| rejected(&error))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn applies_every_operation() {
        let target = json!({ "a": { "b/c": 1 }, "l": [1, 2] });
        for (operation, expected) in [
            (
                json!({"op": "add", "path": "/l/-", "value": 3}),
                json!({"a": {"b/c": 1}, "l": [1, 2, 3]}),
            ),
            (
                json!({"op": "add", "path": "/l/0", "value": 0}),
                json!({"a": {"b/c": 1}, "l": [0, 1, 2]}),
            ),
            (
                json!({"op": "replace", "path": "/a/b~1c", "value": 2}),
                json!({"a": {"b/c": 2}, "l": [1, 2]}),
            ),
            (
                json!({"op": "remove", "path": "/l/1"}),
                json!({"a": {"b/c": 1}, "l": [1]}),
            ),
            (
                json!({"op": "move", "from": "/l", "path": "/m"}),
                json!({"a": {"b/c": 1}, "m": [1, 2]}),
            ),
            (
                json!({"op": "copy", "from": "/l/0", "path": "/n"}),
                json!({"a": {"b/c": 1}, "l": [1, 2], "n": 1}),
            ),
            (
                json!({"op": "test", "path": "/l/0", "value": 1}),
                target.clone(),
            ),
        ] {
            let mut changed = target.clone();
            PatchType::Json
                .apply(&mut changed, &json!([operation]))
                .unwrap();
            assert_eq!(changed, expected, "{operation}");
        }
    }

    #[test]
    fn rejects_invalid_operations() {
        for operation in [
            json!({"op": "test", "path": "/l/0", "value": 7}),
            json!({"op": "replace", "path": "/x", "value": 7}),
            json!({"op": "remove", "path": "/x"}),
            json!({"op": "add", "path": "/x/y", "value": 7}),
            json!({"op": "add", "path": "/l/9", "value": 7}),
            json!({"op": "add", "path": "x"}),
            json!({"op": "dance", "path": "/x"}),
            json!(7),
        ] {
            let mut target = json!({ "l": [1] });
            let error = PatchType::Json.apply(&mut target, &json!([operation]));
            let reason = error.unwrap_err().reason;
            assert_eq!(reason, StatusReason::Invalid, "{operation}");
        }
    }

    #[test]
    fn values_replace_and_null_removes() {
        for (target, patch, expected) in [
            (
                json!({"a": 1}),
                json!({"a": 2, "b": 3}),
                json!({"a": 2, "b": 3}),
            ),
            (
                json!({"a": {"b": 1, "c": 2}}),
                json!({"a": {"b": null}}),
                json!({"a": {"c": 2}}),
            ),
            (json!({"a": [1, 2]}), json!({"a": [3]}), json!({"a": [3]})),
            (
                json!({"a": "x"}),
                json!({"a": {"b": {"c": null}}}),
                json!({"a": {"b": {}}}),
            ),
        ] {
            let mut target = target;
            PatchType::Merge.apply(&mut target, &patch).unwrap();
            assert_eq!(target, expected);
        }
    }
}
