//! JSON patches (RFC 6902).

use serde_json::Value;

use crate::status_error::{StatusError, StatusReason};

pub(super) fn apply(target: &mut Value, patch: &Value) -> Result<(), StatusError> {
    let Some(operations) = patch.as_array() else {
        return Err(StatusError::bad_request(
            "a JSON patch has to be a list of operations",
        ));
    };
    for operation in operations {
        perform(target, operation).map_err(|why| {
            let message =
                format!("the server rejected our request due to an error in our request: {why}");
            StatusError::new(StatusReason::Invalid, message)
        })?;
    }
    Ok(())
}

fn perform(target: &mut Value, operation: &Value) -> Result<(), String> {
    let text = |field: &str| operation[field].as_str().ok_or(format!("no {field}"));
    let new_value = || operation.get("value").cloned().ok_or("no value".to_owned());
    let path = text("path")?;
    match text("op")? {
        "add" => add(target, path, new_value()?),
        "replace" => {
            let value = target
                .pointer_mut(path)
                .ok_or(format!("no {path} to replace"))?;
            *value = new_value()?;
            Ok(())
        }
        "remove" => remove(target, path).map(|_| ()),
        "test" => {
            let found = target.pointer(path) == Some(&new_value()?);
            found
                .then_some(())
                .ok_or(format!("the test of {path} failed"))
        }
        "move" => {
            let moved = remove(target, text("from")?)?;
            add(target, path, moved)
        }
        "copy" => {
            let from = text("from")?;
            let copied = target
                .pointer(from)
                .cloned()
                .ok_or(format!("no {from} to copy"))?;
            add(target, path, copied)
        }
        other => Err(format!("unknown operation {other}")),
    }
}

/// Returns the value that contains a path, and the path's last segment.
fn parent<'a>(target: &'a mut Value, path: &str) -> Result<(&'a mut Value, String), String> {
    let (above, last) = path.rsplit_once('/').ok_or(format!("{path} is no path"))?;
    let value = target.pointer_mut(above).ok_or(format!("no {above}"))?;
    Ok((value, last.replace("~1", "/").replace("~0", "~")))
}

fn add(target: &mut Value, path: &str, new: Value) -> Result<(), String> {
    if path.is_empty() {
        *target = new;
        return Ok(());
    }
    let (parent, last) = parent(target, path)?;
    match parent {
        Value::Object(map) => {
            map.insert(last, new);
            Ok(())
        }
        Value::Array(list) if last == "-" => {
            list.push(new);
            Ok(())
        }
        Value::Array(list) => match last.parse() {
            Ok(index) if index <= list.len() => {
                list.insert(index, new);
                Ok(())
            }
            _ => Err(format!("{path} is outside of its list")),
        },
        _ => Err(format!("{path} is in nothing")),
    }
}

fn remove(target: &mut Value, path: &str) -> Result<Value, String> {
    let missing = || format!("no {path} to remove");
    let (parent, last) = parent(target, path)?;
    match parent {
        Value::Object(map) => map.remove(&last).ok_or_else(missing),
        Value::Array(list) => match last.parse() {
            Ok(index) if index < list.len() => Ok(list.remove(index)),
            _ => Err(missing()),
        },
        _ => Err(missing()),
    }
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
            apply(&mut changed, &json!([operation])).unwrap();
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
            assert!(
                apply(&mut target, &json!([operation])).is_err(),
                "{operation}"
            );
        }
    }
}
