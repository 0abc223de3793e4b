//! Strategic merge patches: like merge patches, but things in a list are known by a key.

use serde_json::{Map, Value};

/// Lists whose things have a key, by the name of the field they stand in.
const KEYS: [(&str, &str); 14] = [
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

/// Says what to do with the thing it stands in.
const DIRECTIVE: &str = "$patch";

/// Before the name of a list of texts: those to take away.
const DELETIONS: &str = "$deleteFromPrimitiveList/";

pub(super) fn apply(target: &mut Value, patch: &Value) {
    merge(target, patch, "");
}

fn merge(target: &mut Value, patch: &Value, field: &str) {
    match (target, patch) {
        (target, Value::Object(patch)) => merge_object(target, patch),
        (Value::Array(target), Value::Array(patch)) if key_of(field, patch).is_some() => {
            merge_list(target, patch, key_of(field, patch).unwrap_or_default());
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
            let place = target.entry(field).or_insert(Value::Null);
            // A new list has its directives to follow too.
            if place.is_null() && value.is_array() {
                *place = Value::Array(Vec::new());
            }
            merge(place, value, field);
        }
    }
}

fn merge_list(target: &mut Vec<Value>, patch: &[Value], key: &str) {
    let before: Vec<Value> = target.iter().map(|thing| thing[key].clone()).collect();
    if patch.iter().any(|thing| thing[DIRECTIVE] == "replace") {
        target.clear();
    }
    for thing in patch {
        let place = target.iter().position(|other| other[key] == thing[key]);
        match (place, thing[DIRECTIVE].as_str()) {
            (Some(place), Some("delete")) => {
                target.remove(place);
            }
            (None, Some("delete")) | (_, Some("replace")) => {}
            (Some(place), _) => merge(&mut target[place], thing, ""),
            (None, _) => {
                let mut new = Value::Null;
                merge(&mut new, thing, "");
                target.push(new);
            }
        }
    }
    order(target, &before, patch, key);
}

/// Puts what was patched in the order of the patch. What was not keeps its place before what stood
/// behind it already; what is new comes first.
fn order(target: &mut Vec<Value>, before: &[Value], patch: &[Value], key: &str) {
    let place =
        |things: &[Value], thing: &Value| things.iter().position(|known| *known == thing[key]);
    let patched: Vec<Value> = patch.iter().map(|thing| thing[key].clone()).collect();
    let (mut new, old): (Vec<Value>, Vec<Value>) = target
        .drain(..)
        .partition(|thing| place(&patched, thing).is_some());
    new.sort_by_key(|thing| place(&patched, thing));
    let mut old = old.into_iter().peekable();
    for thing in new {
        let own = place(before, &thing);
        while let Some(earlier) = old.next_if(|other| own.is_some() && place(before, other) < own) {
            target.push(earlier);
        }
        target.push(thing);
    }
    target.extend(old);
}

/// The key of the things in a list; nothing if the list is replaced as a whole.
pub(super) fn key_of(field: &str, things: &[Value]) -> Option<&'static str> {
    let key = match field {
        // Of a container they are known by one name, of a service by another.
        "ports" if things.iter().any(|port| !port["containerPort"].is_null()) => "containerPort",
        "ports" => "port",
        _ => KEYS.iter().find(|(name, _)| *name == field)?.1,
    };
    let is_keyed = |thing: &Value| !thing[key].is_null() || thing[DIRECTIVE] == "replace";
    things.iter().all(is_keyed).then_some(key)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn things_with_a_key_are_merged_by_it() {
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
    fn other_lists_are_replaced_and_finalizers_are_a_set() {
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
