//! Scaling, as a fence does it.

use anyhow::Result;
use serde_json::{Value, json};

use crate::conformance::Stage;

async fn deployment(stage: &Stage, replicas: u32) -> Result<String> {
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
    let path = stage.at("apps/v1", "deployments");
    stage.admin.post(&path, &deployment).await?.ok()?;
    Ok(format!("{path}/kcm"))
}

pub(super) async fn a_deployment_is_scaled(stage: Stage) -> Result<Value> {
    let (api, path) = (&stage.admin, deployment(&stage, 2).await?);
    let scale = format!("{path}/scale");
    let mut seen = vec![api.get(&scale).await?.shown()];
    for replicas in [0, 3, 3] {
        let patch = json!({ "spec": { "replicas": replicas } });
        seen.push(api.merge(&scale, &patch).await?.shown());
        let object = api.get(&path).await?.ok()?;
        seen.push(json!([object["spec"]["replicas"], object["metadata"]]));
    }
    seen.push(api.get(&scale).await?.shown());
    let negative = json!({ "spec": { "replicas": -1 } });
    seen.push(api.merge(&scale, &negative).await?.status.into());
    Ok(json!(seen))
}

pub(super) async fn scaling_rests_on_versions(stage: Stage) -> Result<Value> {
    let (api, path) = (&stage.admin, deployment(&stage, 2).await?);
    let before = api.get(&path).await?.ok()?["metadata"]["resourceVersion"].clone();
    let record = json!({
        "metadata": { "resourceVersion": before, "annotations": { "replicas": "2" } },
    });
    let recorded = api.merge(&path, &record).await?.ok()?["metadata"].clone();
    let patch = |version: &Value| json!({ "metadata": { "resourceVersion": version }, "spec": { "replicas": 0 } });
    let late = api.merge(&format!("{path}/scale"), &patch(&before)).await?;
    let good = api
        .merge(
            &format!("{path}/scale"),
            &patch(&recorded["resourceVersion"]),
        )
        .await?;
    assert_eq!((late.status, good.status), (409, 200));
    Ok(json!([recorded, late.shown(), good.shown()]))
}

pub(super) async fn a_scale_is_replaced(stage: Stage) -> Result<Value> {
    let (api, path) = (
        &stage.admin,
        format!("{}/scale", deployment(&stage, 1).await?),
    );
    let mut scale = api.get(&path).await?.ok()?;
    scale["spec"]["replicas"] = json!(4);
    let good = api.put(&path, &scale).await?;
    let late = api.put(&path, &scale).await?;
    Ok(json!([good.shown(), late.shown()]))
}
