//! Events, as our poster writes them.

use anyhow::Result;
use serde_json::{Value, json};

use crate::conformance::Stage;

fn event(stage: &Stage) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": { "namespace": stage.namespace, "name": "kcm.1" },
        "involvedObject": {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "namespace": stage.namespace,
            "name": "kcm",
            "uid": "",
        },
        "type": "Warning",
        "reason": "Fenced",
        "action": "Scale",
        "message": "scaled to 0",
        "count": 1,
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "source": { "component": "kelpie" },
        "reportingComponent": "kelpie",
        "reportingInstance": "kelpie-0",
    })
}

pub(super) async fn an_event_is_posted_and_counted(stage: Stage) -> Result<Value> {
    let (api, path) = (&stage.admin, stage.core("events"));
    let made = api.post(&path, &event(&stage)).await?;
    let patch = json!({ "count": 2, "lastTimestamp": "2026-01-01T00:01:00Z", "message": "again" });
    let counted = api.merge(&format!("{path}/kcm.1"), &patch).await?;
    let by = format!("{path}?fieldSelector=involvedObject.name%3Dkcm,reason%3DFenced");
    let found = api.get(&by).await?.ok()?["items"].as_array().map(Vec::len);
    assert_eq!(found, Some(1));
    Ok(json!([made.shown(), counted.shown()]))
}

pub(super) async fn events_are_one_in_two_groups(stage: Stage) -> Result<Value> {
    let api = &stage.admin;
    api.post(&stage.core("events"), &event(&stage))
        .await?
        .ok()?;
    let path = stage.at("events.k8s.io/v1", "events");
    let read = api.get(&format!("{path}/kcm.1")).await?;
    let new = json!({
        "metadata": { "name": "kcm.2" },
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "regarding": {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "namespace": stage.namespace,
            "name": "kcm",
        },
        "type": "Normal",
        "reason": "Released",
        "action": "Scale",
        "note": "scaled to 1",
        "reportingController": "kelpie",
        "reportingInstance": "kelpie-0",
    });
    let made = api.post(&path, &new).await?;
    let old = api.get(&format!("{}/kcm.2", stage.core("events"))).await?;
    Ok(json!([read.shown(), made.shown(), old.shown()]))
}
