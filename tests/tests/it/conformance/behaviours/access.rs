//! Authentication and authorization.

use anyhow::Result;
use serde_json::{Value, json};

use crate::conformance::raw_client::RawResponse;
use crate::conformance::{Fixture, named};

pub(super) async fn unknown_token_is_unauthorized(fixture: Fixture) -> Result<Value> {
    let list = fixture.unauthenticated.get(&fixture.config_maps()).await?;
    let version = fixture.unauthenticated.get("/version").await?;
    assert_eq!(list.status, 401);
    Ok(json!([list.record(), version.status]))
}

pub(super) async fn missing_permission_is_forbidden(fixture: Fixture) -> Result<Value> {
    let (api, path) = (&fixture.unprivileged, fixture.config_maps());
    let deployments = fixture.group_path("apps/v1", "deployments");
    let responses = [
        api.get(&path).await?,
        api.get(&format!("{path}/a")).await?,
        api.post(&path, &named("a")).await?,
        api.get("/api/v1/nodes").await?,
        api.get(&format!("{path}?watch=1")).await?,
        api.merge(&format!("{deployments}/a/scale"), &json!({}))
            .await?,
        api.delete(&format!("{deployments}/a"), &Value::Null)
            .await?,
        api.get("/metrics").await?,
    ];
    assert!(responses.iter().all(|response| response.status == 403));
    Ok(responses.iter().map(RawResponse::record).collect())
}

pub(super) async fn self_subject_access_review(fixture: Fixture) -> Result<Value> {
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "metadata": {},
        "spec": { "resourceAttributes": {
            "verb": "patch",
            "group": "apps",
            "resource": "deployments",
            "subresource": "scale",
            "namespace": fixture.namespace,
        } },
    });
    let mut records = Vec::new();
    for api in [&fixture.admin, &fixture.unprivileged] {
        let response = api.post(path, &review).await?;
        let status = response.body["status"].clone();
        records.push(json!([
            response.status,
            status["allowed"],
            response.body["spec"]
        ]));
    }
    assert_eq!(records[1][1], false);
    Ok(json!(records))
}

pub(super) async fn self_subject_review(fixture: Fixture) -> Result<Value> {
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let review = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "SelfSubjectReview",
        "metadata": {},
    });
    let mut records = Vec::new();
    for api in [
        &fixture.admin,
        &fixture.unprivileged,
        &fixture.unauthenticated,
    ] {
        let response = api.post(path, &review).await?;
        let user = &response.body["status"]["userInfo"];
        records.push(json!([
            response.status,
            response.body["kind"],
            response.body["metadata"],
            user["username"],
            user["groups"],
        ]));
    }
    Ok(json!(records))
}

pub(super) async fn health_and_version(fixture: Fixture) -> Result<Value> {
    let mut records = Vec::new();
    for path in ["/healthz", "/livez", "/readyz"] {
        records.push(fixture.unprivileged.get(path).await?.record());
    }
    let version = fixture.unprivileged.get("/version").await?.ok()?;
    records.push(json!([
        version["major"],
        version["minor"],
        version["gitVersion"]
    ]));
    Ok(json!(records))
}
