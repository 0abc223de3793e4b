//! What somebody has applied before and does not any more.

use serde_json::Value;

use super::strategic::key_of;

/// Takes out of `object` what stands in `last` but not in `new`: who applies less gives up the rest.
pub(crate) fn prune(object: &mut Value, last: &Value, new: &Value) {
    prune_field(object, last, new, "");
}

fn prune_field(object: &mut Value, last: &Value, new: &Value, field: &str) {
    match (object, last, new) {
        (Value::Object(object), Value::Object(last), Value::Object(new)) => {
            for (field, last) in last {
                match (object.get_mut(field), new.get(field)) {
                    (Some(place), Some(new)) => prune_field(place, last, new, field),
                    _ => {
                        object.remove(field);
                    }
                }
            }
        }
        (Value::Array(object), Value::Array(last), Value::Array(new)) => {
            let Some(key) = key_of(field, last) else {
                return;
            };
            let find = |list: &[Value], thing: &Value| {
                list.iter().find(|other| other[key] == thing[key]).cloned()
            };
            object.retain(|thing| find(last, thing).is_none() || find(new, thing).is_some());
            for thing in object {
                if let (Some(last), Some(new)) = (find(last, thing), find(new, thing)) {
                    prune_field(thing, &last, &new, "");
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
    fn what_is_not_applied_any_more_goes_and_what_others_wrote_stays() {
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
