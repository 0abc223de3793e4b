//! JSON merge patches (RFC 7386).

use serde_json::{Map, Value};

pub(super) fn apply(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    if let Value::Object(target) = target {
        for (field, value) in patch {
            if value.is_null() {
                target.remove(field);
            } else {
                apply(target.entry(field).or_insert(Value::Null), value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
            apply(&mut target, &patch);
            assert_eq!(target, expected);
        }
    }
}
