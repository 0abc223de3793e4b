//! Access to the fields of objects that clients may have written in any form.

use serde_json::{Map, Value};

/// Sets the field at a JSON pointer. Missing parents are created, and parents that are no objects
/// are replaced.
pub(crate) fn set(object: &mut Value, pointer: &str, value: impl Into<Value>) {
    let mut current = object;
    for step in pointer.split('/').skip(1) {
        if !current.is_object() {
            *current = Value::Object(Map::new());
        }
        let Value::Object(map) = current else { return };
        current = map.entry(step).or_insert(Value::Null);
    }
    *current = value.into();
}

/// Returns the condition of type `kind` in the status, and adds it if there is none.
pub(crate) fn condition<'a>(
    object: &'a mut Value,
    kind: &str,
) -> Option<&'a mut Map<String, Value>> {
    const CONDITIONS: &str = "/status/conditions";
    if !object.pointer(CONDITIONS).is_some_and(Value::is_array) {
        set(object, CONDITIONS, Vec::<Value>::new());
    }
    let all = object.pointer_mut(CONDITIONS)?.as_array_mut()?;
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
    fn set_replaces_parents_that_are_no_objects() {
        for initial in [
            json!(null),
            json!({}),
            json!({ "spec": "x" }),
            json!({ "spec": [1] }),
            json!({ "spec": { "taints": 5 } }),
        ] {
            let mut object = initial;
            set(&mut object, "/spec/taints", json!([]));
            assert_eq!(object, json!({ "spec": { "taints": [] } }));
        }
    }

    #[test]
    fn condition_is_found_or_added() {
        for initial in [
            json!({}),
            json!({ "status": "x" }),
            json!({ "status": { "conditions": {} } }),
            json!({ "status": { "conditions": [] } }),
        ] {
            let mut object = initial;
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
