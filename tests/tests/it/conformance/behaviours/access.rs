//! Who may do what.

use anyhow::Result;
use serde_json::{Value, json};

use crate::conformance::{Stage, named};

pub(super) async fn what_is_nobodys_is_unauthorized(stage: Stage) -> Result<Value> {
    let list = stage.nobody.get(&stage.configs()).await?;
    let version = stage.nobody.get("/version").await?;
    assert_eq!(list.status, 401);
    Ok(json!([list.shown(), version.status]))
}

pub(super) async fn what_one_may_not_do_is_forbidden(stage: Stage) -> Result<Value> {
    let (api, path) = (&stage.stranger, stage.configs());
    let deployments = stage.at("apps/v1", "deployments");
    let replies = [
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
    assert!(replies.iter().all(|reply| reply.status == 403));
    Ok(replies
        .iter()
        .map(super::super::client::Reply::shown)
        .collect())
}

pub(super) async fn one_can_ask_what_one_may_do(stage: Stage) -> Result<Value> {
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
            "namespace": stage.namespace,
        } },
    });
    let mut answers = Vec::new();
    for api in [&stage.admin, &stage.stranger] {
        let reply = api.post(path, &review).await?;
        let status = reply.body["status"].clone();
        answers.push(json!([reply.status, status["allowed"], reply.body["spec"]]));
    }
    assert_eq!(answers[1][1], false);
    Ok(json!(answers))
}

pub(super) async fn one_can_ask_who_one_is(stage: Stage) -> Result<Value> {
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let review = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "SelfSubjectReview",
        "metadata": {},
    });
    let mut seen = Vec::new();
    for api in [&stage.admin, &stage.stranger, &stage.nobody] {
        let reply = api.post(path, &review).await?;
        let user = &reply.body["status"]["userInfo"];
        seen.push(json!([
            reply.status,
            reply.body["kind"],
            reply.body["metadata"],
            user["username"],
            user["groups"],
        ]));
    }
    Ok(json!(seen))
}

pub(super) async fn health_and_version_are_told(stage: Stage) -> Result<Value> {
    let mut seen = Vec::new();
    for path in ["/healthz", "/livez", "/readyz"] {
        seen.push(stage.stranger.get(path).await?.shown());
    }
    let version = stage.stranger.get("/version").await?.ok()?;
    seen.push(json!([
        version["major"],
        version["minor"],
        version["gitVersion"]
    ]));
    Ok(json!(seen))
}
