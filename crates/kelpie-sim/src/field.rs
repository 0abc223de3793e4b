//! Fields of objects that anybody may have written.

use serde_json::{Map, Value};

/// Sets what a JSON pointer of names points to. What is above it is made, also where something else stands.
pub(crate) fn set(object: &mut Value, pointer: &str, value: impl Into<Value>) {
    let mut place = object;
    for step in pointer.split('/').skip(1) {
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        let Value::Object(map) = place else { return };
        place = map.entry(step).or_insert(Value::Null);
    }
    *place = value.into();
}

/// The condition of this type, made if there is none.
pub(crate) fn condition<'a>(
    object: &'a mut Value,
    kind: &str,
) -> Option<&'a mut Map<String, Value>> {
    const PLACE: &str = "/status/conditions";
    if !object.pointer(PLACE).is_some_and(Value::is_array) {
        set(object, PLACE, Vec::<Value>::new());
    }
    let all = object.pointer_mut(PLACE)?.as_array_mut()?;
    let found = all.iter().position(|condition| condition["type"] == kind);
    let index = found.unwrap_or_else(|| {
        all.push(serde_json::json!({ "type": kind }));
        all.len() - 1
    });
    all.get_mut(index)?.as_object_mut()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_is_set_whatever_stands_in_its_way() {
        for there in [
            json!(null),
            json!({}),
            json!({ "spec": "x" }),
            json!({ "spec": [1] }),
            json!({ "spec": { "taints": 5 } }),
        ] {
            let mut object = there;
            set(&mut object, "/spec/taints", json!([]));
            assert_eq!(object, json!({ "spec": { "taints": [] } }));
        }
    }

    #[test]
    fn a_condition_is_found_by_its_type_or_made() {
        for there in [
            json!({}),
            json!({ "status": "x" }),
            json!({ "status": { "conditions": {} } }),
            json!({ "status": { "conditions": [] } }),
        ] {
            let mut object = there;
            let ready = condition(&mut object, "Ready").unwrap();
            ready.insert("status".into(), "True".into());
            let expected = json!([{ "type": "Ready", "status": "True" }]);
            assert_eq!(object["status"]["conditions"], expected);
        }
        let mut object =
            json!({ "status": { "conditions": ["x", 1, { "type": "Ready", "a": 1 }] } });
        assert_eq!(condition(&mut object, "Ready").unwrap()["a"], 1);
    }
}
