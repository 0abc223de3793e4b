//! Removal of fields that a field manager no longer applies.

use serde_json::Value;

use super::strategic::merge_key;

/// Removes from `object` the fields that are in `last` but not in `new`: a manager that applies
/// less gives up the rest.
pub(crate) fn prune(object: &mut Value, last: &Value, new: &Value) {
    prune_field(object, last, new, "");
}

fn prune_field(object: &mut Value, last: &Value, new: &Value, field: &str) {
    match (object, last, new) {
        (Value::Object(object), Value::Object(last), Value::Object(new)) => {
            for (field, last) in last {
                match (object.get_mut(field), new.get(field)) {
                    (Some(value), Some(new)) => prune_field(value, last, new, field),
                    _ => {
                        object.remove(field);
                    }
                }
            }
        }
        (Value::Array(object), Value::Array(last), Value::Array(new)) => {
            let Some(key) = merge_key(field, last) else {
                return;
            };
            let find = |list: &[Value], item: &Value| {
                list.iter().find(|other| other[key] == item[key]).cloned()
            };
            object.retain(|item| find(last, item).is_none() || find(new, item).is_some());
            for item in object {
                if let (Some(last), Some(new)) = (find(last, item), find(new, item)) {
                    prune_field(item, &last, &new, "");
                }
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
    fn prunes_own_fields_only() {
        let mut object = json!({
            "data": { "mine": "1", "others": "2", "dropped": "3" },
            "conditions": [{ "type": "A", "x": 1, "y": 2 }, { "type": "B" }, { "type": "C" }],
        });
        let last = json!({
            "data": { "mine": "1", "dropped": "3" },
            "conditions": [{ "type": "A", "x": 1 }, { "type": "B" }],
        });
        let new = json!({ "data": { "mine": "1" }, "conditions": [{ "type": "A" }] });
        prune(&mut object, &last, &new);
        let left = json!({
            "data": { "mine": "1", "others": "2" },
            "conditions": [{ "type": "A", "y": 2 }, { "type": "C" }],
        });
        assert_eq!(object, left);
    }
}
