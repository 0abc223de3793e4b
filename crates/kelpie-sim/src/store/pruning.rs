//! Pruning of custom objects: fields that the schema does not have are not stored.

use serde_json::{Map, Value};

/// Fields that every object has, whatever its schema says.
const COMMON_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Removes the fields of an object that are not in the schema of its kind.
pub(super) fn prune_object(object: &mut Map<String, Value>, schema: &Value) {
    let common: Vec<(String, Value)> = COMMON_FIELDS
        .iter()
        .filter_map(|field| object.remove_entry(*field))
        .collect();
    prune_fields(object, schema);
    object.extend(common);
}

fn prune_fields(object: &mut Map<String, Value>, schema: &Value) {
    let (known, others) = (&schema["properties"], &schema["additionalProperties"]);
    let keeps_unknown = schema["x-kubernetes-preserve-unknown-fields"] == true;
    object.retain(|field, value| match known.get(field) {
        Some(schema) => {
            prune_value(value, schema);
            true
        }
        None if others.is_object() => {
            prune_value(value, others);
            true
        }
        None => keeps_unknown || *others == true,
    });
}

fn prune_value(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(object) => prune_fields(object, schema),
        Value::Array(items) => {
            let schema = &schema["items"];
            for item in items {
                prune_value(item, schema);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_fields_are_pruned() {
        let schema = json!({ "type": "object", "properties": {
            "spec": { "type": "object", "properties": {
                "list": { "type": "array", "items": { "type": "object", "properties": {
                    "a": { "type": "string" },
                } } },
                "map": { "type": "object", "additionalProperties": { "type": "string" } },
                "any": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
            } },
        } });
        let mut object = json!({
            "kind": "K",
            "metadata": { "name": "n" },
            "spec": {
                "list": [{ "a": "1", "b": 2 }],
                "map": { "x": "y" },
                "any": { "z": 1 },
                "no": 1,
            },
            "status": {},
        });
        prune_object(object.as_object_mut().unwrap(), &schema);
        let expected = json!({
            "kind": "K",
            "metadata": { "name": "n" },
            "spec": { "list": [{ "a": "1" }], "map": { "x": "y" }, "any": { "z": 1 } },
        });
        assert_eq!(object, expected);
    }
}
