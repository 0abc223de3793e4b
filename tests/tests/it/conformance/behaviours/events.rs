//! Events, as Kelpie posts them.

use anyhow::Result;
use serde_json::{Value, json};

use crate::conformance::Fixture;

fn event(fixture: &Fixture) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": { "namespace": fixture.namespace, "name": "kcm.1" },
        "involvedObject": {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "namespace": fixture.namespace,
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

pub(super) async fn create_and_count(fixture: Fixture) -> Result<Value> {
    let (api, path) = (&fixture.admin, fixture.core_path("events"));
    let created = api.post(&path, &event(&fixture)).await?;
    let patch = json!({ "count": 2, "lastTimestamp": "2026-01-01T00:01:00Z", "message": "again" });
    let counted = api.merge(&format!("{path}/kcm.1"), &patch).await?;
    let by = format!("{path}?fieldSelector=involvedObject.name%3Dkcm,reason%3DFenced");
    let found = api.get(&by).await?.ok()?["items"].as_array().map(Vec::len);
    assert_eq!(found, Some(1));
    Ok(json!([created.record(), counted.record()]))
}

pub(super) async fn shared_by_both_groups(fixture: Fixture) -> Result<Value> {
    let api = &fixture.admin;
    api.post(&fixture.core_path("events"), &event(&fixture))
        .await?
        .ok()?;
    let path = fixture.group_path("events.k8s.io/v1", "events");
    let read = api.get(&format!("{path}/kcm.1")).await?;
    let new = json!({
        "metadata": { "name": "kcm.2" },
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "regarding": {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "namespace": fixture.namespace,
            "name": "kcm",
        },
        "type": "Normal",
        "reason": "Released",
        "action": "Scale",
        "note": "scaled to 1",
        "reportingController": "kelpie",
        "reportingInstance": "kelpie-0",
    });
    let created = api.post(&path, &new).await?;
    let old = api
        .get(&format!("{}/kcm.2", fixture.core_path("events")))
        .await?;
    Ok(json!([read.record(), created.record(), old.record()]))
}
