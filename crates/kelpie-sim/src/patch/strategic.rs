//! Strategic merge patches: merge patches that identify the items of a list by a key.

use serde_json::{Map, Value};

/// The merge keys of lists, by the name of the field that holds the list.
const MERGE_KEYS: [(&str, &str); 14] = [
    ("addresses", "type"),
    ("conditions", "type"),
    ("containers", "name"),
    ("containerStatuses", "name"),
    ("env", "name"),
    ("ephemeralContainers", "name"),
    ("hostAliases", "ip"),
    ("imagePullSecrets", "name"),
    ("initContainers", "name"),
    ("ownerReferences", "uid"),
    ("taints", "key"),
    ("topologySpreadConstraints", "topologyKey"),
    ("volumeMounts", "mountPath"),
    ("volumes", "name"),
];

/// The field of a patch's item that says what to do with the item.
const DIRECTIVE: &str = "$patch";

/// The prefix of a field that lists strings to remove from another list.
const DELETIONS: &str = "$deleteFromPrimitiveList/";

pub(super) fn apply(target: &mut Value, patch: &Value) {
    merge(target, patch, "");
}

fn merge(target: &mut Value, patch: &Value, field: &str) {
    match (target, patch) {
        (target, Value::Object(patch)) => merge_object(target, patch),
        (Value::Array(target), Value::Array(patch)) if merge_key(field, patch).is_some() => {
            merge_list(target, patch, merge_key(field, patch).unwrap_or_default());
        }
        (Value::Array(target), Value::Array(patch)) if field == "finalizers" => {
            let new = patch.iter().filter(|value| !target.contains(value));
            let new: Vec<Value> = new.cloned().collect();
            target.extend(new);
        }
        (target, patch) => *target = patch.clone(),
    }
}

fn merge_object(target: &mut Value, patch: &Map<String, Value>) {
    if !target.is_object() || patch.get(DIRECTIVE).is_some_and(|what| what == "replace") {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else {
        return;
    };
    for (field, value) in patch {
        if let Some(list) = field.strip_prefix(DELETIONS) {
            if let (Some(Value::Array(list)), Value::Array(gone)) = (target.get_mut(list), value) {
                list.retain(|value| !gone.contains(value));
            }
        } else if value.is_null() {
            target.remove(field);
        } else if !field.starts_with('$') {
            let entry = target.entry(field).or_insert(Value::Null);
            // Items of a new list may have directives too, so merge them into an empty list.
            if entry.is_null() && value.is_array() {
                *entry = Value::Array(Vec::new());
            }
            merge(entry, value, field);
        }
    }
}

fn merge_list(target: &mut Vec<Value>, patch: &[Value], key: &str) {
    let before: Vec<Value> = target.iter().map(|item| item[key].clone()).collect();
    if patch.iter().any(|item| item[DIRECTIVE] == "replace") {
        target.clear();
    }
    for item in patch {
        let position = target.iter().position(|other| other[key] == item[key]);
        match (position, item[DIRECTIVE].as_str()) {
            (Some(position), Some("delete")) => {
                target.remove(position);
            }
            (None, Some("delete")) | (_, Some("replace")) => {}
            (Some(position), _) => merge(&mut target[position], item, ""),
            (None, _) => {
                let mut new = Value::Null;
                merge(&mut new, item, "");
                target.push(new);
            }
        }
    }
    restore_order(target, &before, patch, key);
}

/// Restores the order of a merged list, as the API server does. Patched items come in the order of
/// the patch; an item that the patch leaves out stays before the items that it preceded. New items
/// come first.
fn restore_order(target: &mut Vec<Value>, before: &[Value], patch: &[Value], key: &str) {
    let position =
        |items: &[Value], item: &Value| items.iter().position(|known| *known == item[key]);
    let patched: Vec<Value> = patch.iter().map(|item| item[key].clone()).collect();
    let (mut new, old): (Vec<Value>, Vec<Value>) = target
        .drain(..)
        .partition(|item| position(&patched, item).is_some());
    new.sort_by_key(|item| position(&patched, item));
    let mut old = old.into_iter().peekable();
    for item in new {
        let own = position(before, &item);
        while let Some(earlier) =
            old.next_if(|other| own.is_some() && position(before, other) < own)
        {
            target.push(earlier);
        }
        target.push(item);
    }
    target.extend(old);
}

/// Returns the merge key of a list's items, or `None` if a patch replaces the whole list.
pub(super) fn merge_key(field: &str, items: &[Value]) -> Option<&'static str> {
    let key = match field {
        // Containers identify ports by `containerPort`, Services by `port`.
        "ports" if items.iter().any(|port| !port["containerPort"].is_null()) => "containerPort",
        "ports" => "port",
        _ => MERGE_KEYS.iter().find(|(name, _)| *name == field)?.1,
    };
    let is_keyed = |item: &Value| !item[key].is_null() || item[DIRECTIVE] == "replace";
    items.iter().all(is_keyed).then_some(key)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn merges_lists_by_key() {
        let node = json!({ "status": { "conditions": [
            { "type": "Ready", "status": "True", "reason": "Kubelet" },
            { "type": "Disk", "status": "False" },
        ] } });
        for (patch, expected) in [
            (
                json!([{ "type": "Ready", "status": "Unknown" }]),
                json!([
                    { "type": "Ready", "status": "Unknown", "reason": "Kubelet" },
                    { "type": "Disk", "status": "False" },
                ]),
            ),
            (
                json!([{ "$patch": "delete", "type": "Ready" }, { "type": "New" }]),
                json!([{ "type": "New" }, { "type": "Disk", "status": "False" }]),
            ),
            (
                json!([{ "$patch": "replace" }, { "type": "New" }]),
                json!([{ "type": "New" }]),
            ),
        ] {
            let mut changed = node.clone();
            apply(&mut changed, &json!({ "status": { "conditions": patch } }));
            assert_eq!(changed["status"]["conditions"], expected);
        }
    }

    #[test]
    fn replaces_other_lists_but_merges_finalizers() {
        let mut object = json!({ "spec": { "args": ["a"] }, "metadata": { "finalizers": ["x"] } });
        let patch = json!({ "spec": { "args": ["b"] }, "metadata": { "finalizers": ["x", "y"] } });
        apply(&mut object, &patch);
        assert_eq!(object["spec"]["args"], json!(["b"]));
        assert_eq!(object["metadata"]["finalizers"], json!(["x", "y"]));
        let patch = json!({ "metadata": { "$deleteFromPrimitiveList/finalizers": ["x"] } });
        apply(&mut object, &patch);
        assert_eq!(object["metadata"]["finalizers"], json!(["y"]));
    }
}
