//! The scale subresource, as a fence uses it.

use anyhow::Result;
use serde_json::{Value, json};

use crate::conformance::Fixture;

async fn deployment(fixture: &Fixture, replicas: u32) -> Result<String> {
    let deployment = json!({
        "metadata": { "name": "kcm" },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "app": "kcm", "role": "main" } },
            "template": {
                "metadata": { "labels": { "app": "kcm", "role": "main" } },
                "spec": { "containers": [{ "name": "main", "image": "none" }] },
            },
        },
    });
    let path = fixture.group_path("apps/v1", "deployments");
    fixture.admin.post(&path, &deployment).await?.ok()?;
    Ok(format!("{path}/kcm"))
}

pub(super) async fn scale_deployment(fixture: Fixture) -> Result<Value> {
    let (api, path) = (&fixture.admin, deployment(&fixture, 2).await?);
    let scale = format!("{path}/scale");
    let mut records = vec![api.get(&scale).await?.record()];
    for replicas in [0, 3, 3] {
        let patch = json!({ "spec": { "replicas": replicas } });
        records.push(api.merge(&scale, &patch).await?.record());
        let object = api.get(&path).await?.ok()?;
        records.push(json!([object["spec"]["replicas"], object["metadata"]]));
    }
    records.push(api.get(&scale).await?.record());
    let negative = json!({ "spec": { "replicas": -1 } });
    records.push(api.merge(&scale, &negative).await?.status.into());
    Ok(json!(records))
}

pub(super) async fn scale_conflicts(fixture: Fixture) -> Result<Value> {
    let (api, path) = (&fixture.admin, deployment(&fixture, 2).await?);
    let before = api.get(&path).await?.ok()?["metadata"]["resourceVersion"].clone();
    let record = json!({
        "metadata": { "resourceVersion": before, "annotations": { "replicas": "2" } },
    });
    let recorded = api.merge(&path, &record).await?.ok()?["metadata"].clone();
    let patch = |version: &Value| {
        let metadata = json!({ "resourceVersion": version });
        json!({ "metadata": metadata, "spec": { "replicas": 0 } })
    };
    let stale = api.merge(&format!("{path}/scale"), &patch(&before)).await?;
    let good = api
        .merge(
            &format!("{path}/scale"),
            &patch(&recorded["resourceVersion"]),
        )
        .await?;
    assert_eq!((stale.status, good.status), (409, 200));
    Ok(json!([recorded, stale.record(), good.record()]))
}

pub(super) async fn replace_scale(fixture: Fixture) -> Result<Value> {
    let (api, path) = (
        &fixture.admin,
        format!("{}/scale", deployment(&fixture, 1).await?),
    );
    let mut scale = api.get(&path).await?.ok()?;
    scale["spec"]["replicas"] = json!(4);
    let good = api.put(&path, &scale).await?;
    let stale = api.put(&path, &scale).await?;
    Ok(json!([good.record(), stale.record()]))
}
