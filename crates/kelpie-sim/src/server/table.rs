//! Tables, as kubectl requests and prints them.

use std::time::Duration;

use kelpie_core::Time;
use serde_json::{Value, json};

use super::objects::partial_metadata;
use crate::clock;
use crate::kind::ResourceKind;
use crate::resource::{
    CONFIG_MAPS, DEPLOYMENTS, EVENTS, GroupResource, LEASES, NAMESPACES, NODES, PODS, SECRETS,
};

/// Returns an object's cells between its name and its age, or including its age where that is not
/// the last column.
type Cells = fn(&Value, Time) -> Vec<Value>;

/// The columns of built-in kinds: resource, column names, and cells.
static COLUMNS: [(GroupResource, &[&str], Cells); 8] = [
    (PODS, &["Ready", "Status", "Restarts"], pod_cells),
    (NODES, &["Status", "Roles", "Age", "Version"], node_cells),
    (
        DEPLOYMENTS,
        &["Ready", "Up-to-date", "Available"],
        deployment_cells,
    ),
    (LEASES, &["Holder"], |lease, _| {
        vec![lease["spec"]["holderIdentity"].clone()]
    }),
    (NAMESPACES, &["Status"], |namespace, _| {
        vec![namespace["status"]["phase"].clone()]
    }),
    (SECRETS, &["Type", "Data"], |secret, _| {
        vec![secret["type"].clone(), entry_count(&secret["data"])]
    }),
    (CONFIG_MAPS, &["Data"], |map, _| {
        vec![entry_count(&map["data"])]
    }),
    (
        EVENTS,
        &["Last Seen", "Type", "Reason", "Object", "Message"],
        event_cells,
    ),
];

/// Returns a table of objects; `metadata` is that of the list.
pub(super) fn table(kind: &ResourceKind, objects: &[Value], metadata: &Value, now: Time) -> Value {
    let known = COLUMNS
        .iter()
        .find(|(resource, _, _)| *resource == kind.storage);
    let named = |name: &str| match name {
        "Name" => column(name, "string", "name", 0),
        _ => column(name, "string", "", 0),
    };
    let mut columns = vec![named("Name")];
    match known {
        Some((_, names, _)) => columns.extend(names.iter().map(|name| named(name))),
        None => columns.extend(kind.columns.iter().map(|own| {
            let kind = if own.value_type == "date" {
                "string"
            } else {
                &own.value_type
            };
            column(&own.name, kind, "", own.priority)
        })),
    }
    let has_age = columns.iter().any(|column| column["name"] == "Age");
    if !has_age {
        columns.push(named("Age"));
    }
    let rows = objects.iter().map(|object| {
        let mut cells = vec![object["metadata"]["name"].clone()];
        match known {
            Some((_, _, of)) => cells.extend(of(object, now)),
            None => cells.extend(kind.columns.iter().map(|own| {
                let found = object.pointer(&own.json_path.replace('.', "/"));
                match (own.value_type.as_str(), found) {
                    ("date", Some(at)) => age(at, now),
                    (_, found) => found.cloned().unwrap_or_default(),
                }
            })),
        }
        if !has_age {
            cells.push(age(&object["metadata"]["creationTimestamp"], now));
        }
        json!({ "cells": cells, "object": partial_metadata(object) })
    });
    let rows: Vec<Value> = rows.collect();
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": columns,
        "rows": rows,
    })
}

fn column(name: &str, kind: &str, format: &str, priority: i64) -> Value {
    json!({ "name": name, "type": kind, "format": format, "description": "", "priority": priority })
}

fn pod_cells(pod: &Value, _: Time) -> Vec<Value> {
    let all = pod["spec"]["containers"].as_array().map_or(0, Vec::len);
    let statuses = pod["status"]["containerStatuses"].as_array();
    let statuses = statuses.map(Vec::as_slice).unwrap_or_default();
    let ready = statuses
        .iter()
        .filter(|status| status["ready"] == true)
        .count();
    let restarts = statuses
        .iter()
        .filter_map(|status| status["restartCount"].as_u64());
    let waiting = statuses
        .iter()
        .find_map(|status| status["state"]["waiting"]["reason"].as_str());
    let phase = pod["status"]["phase"].as_str().unwrap_or_default();
    let is_terminating = !pod["metadata"]["deletionTimestamp"].is_null();
    let shown = if is_terminating {
        "Terminating"
    } else {
        waiting.unwrap_or(phase)
    };
    vec![
        format!("{ready}/{all}").into(),
        shown.into(),
        restarts.sum::<u64>().to_string().into(),
    ]
}

fn node_cells(node: &Value, now: Time) -> Vec<Value> {
    let conditions = node["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    let ready = conditions.find(|condition| condition["type"] == "Ready");
    let mut shown = match ready.map(|ready| &ready["status"]) {
        Some(status) if *status == "True" => "Ready".to_owned(),
        // Also nodes whose status is Unknown.
        Some(_) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if node["spec"]["unschedulable"] == true {
        shown.push_str(",SchedulingDisabled");
    }
    vec![
        shown.into(),
        "<none>".into(),
        age(&node["metadata"]["creationTimestamp"], now),
        node["status"]["nodeInfo"]["kubeletVersion"].clone(),
    ]
}

fn deployment_cells(deployment: &Value, _: Time) -> Vec<Value> {
    let count = |field: &str| deployment["status"][field].as_u64().unwrap_or(0);
    let wanted = deployment["spec"]["replicas"].as_u64().unwrap_or(0);
    vec![
        format!("{}/{wanted}", count("readyReplicas")).into(),
        count("updatedReplicas").into(),
        count("availableReplicas").into(),
    ]
}

fn event_cells(event: &Value, now: Time) -> Vec<Value> {
    let about = &event["involvedObject"];
    let text = |field: &str| about[field].as_str().unwrap_or_default().to_lowercase();
    vec![
        age(&event["lastTimestamp"], now),
        event["type"].clone(),
        event["reason"].clone(),
        format!("{}/{}", text("kind"), text("name")).into(),
        event["message"].clone(),
    ]
}

fn entry_count(map: &Value) -> Value {
    map.as_object().map_or(0, serde_json::Map::len).into()
}

/// Formats a time as an age, as kubectl does.
fn age(at: &Value, now: Time) -> Value {
    let at = at.as_str().and_then(clock::parse);
    at.map_or_else(
        || "<unknown>".into(),
        |at| short_duration(now.since(at)).into(),
    )
}

fn short_duration(age: Duration) -> String {
    let seconds = age.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0..2) => format!("{seconds}s"),
        (0, 0, 2..10) if !seconds.is_multiple_of(60) => format!("{minutes}m{}s", seconds % 60),
        (0, 0..3, _) => format!("{minutes}m"),
        (0, 3..8, _) if !minutes.is_multiple_of(60) => format!("{hours}h{}m", minutes % 60),
        (0..2, _, _) => format!("{hours}h"),
        (2..8, _, _) if !hours.is_multiple_of(24) => format!("{days}d{}h", hours % 24),
        _ => format!("{days}d"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_columns_match_kubectl() {
        let kind = &crate::kind::KINDS[&NODES];
        let node = json!({
            "metadata": { "name": "n", "creationTimestamp": "2023-11-14T22:13:20Z" },
            "status": { "nodeInfo": { "kubeletVersion": "v1" } },
        });
        let now = Time::from_unix(1_700_000_000, 0).after(Duration::from_mins(46));
        let table = table(kind, &[node], &Value::Null, now);
        let columns = table["columnDefinitions"].as_array().unwrap().iter();
        let columns: Vec<&Value> = columns.map(|column| &column["name"]).collect();
        assert_eq!(columns, ["Name", "Status", "Roles", "Age", "Version"]);
        let expected = json!(["n", "Unknown", "<none>", "46m", "v1"]);
        assert_eq!(table["rows"][0]["cells"], expected);
    }

    #[test]
    fn formats_ages_like_kubectl() {
        for (seconds, shown) in [
            (0, "0s"),
            (119, "119s"),
            (125, "2m5s"),
            (660, "11m"),
            (4 * 3_600 + 120, "4h2m"),
            (26 * 3_600, "26h"),
            (3 * 86_400 + 3_600, "3d1h"),
            (30 * 86_400, "30d"),
        ] {
            assert_eq!(short_duration(Duration::from_secs(seconds)), shown);
        }
    }
}
