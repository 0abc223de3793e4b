//! Objects as JSON at their paths: what kubectl would do, without starting it.

use anyhow::{Context, Result};
use http::{Method, Request};
use kube::Client;
use serde_json::Value;

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";

/// Creates an object in the collection at `path`.
pub async fn create(client: &Client, path: &str, object: &Value) -> Result<Value> {
    send(client, Method::POST, path, JSON, Some(object)).await
}

/// Merges `patch` into the object at `path`.
pub async fn merge(client: &Client, path: &str, patch: &Value) -> Result<Value> {
    send(client, Method::PATCH, path, MERGE, Some(patch)).await
}

/// The object at `path`.
pub async fn read(client: &Client, path: &str) -> Result<Value> {
    send(client, Method::GET, path, JSON, None).await
}

/// The object at `path`; nothing if there is none.
pub async fn find(client: &Client, path: &str) -> Result<Option<Value>> {
    match read(client, path).await {
        Ok(object) => Ok(Some(object)),
        Err(error) if is_not_found(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Deletes the object at `path`, or all of a collection.
pub async fn delete(client: &Client, path: &str) -> Result<()> {
    send(client, Method::DELETE, path, JSON, None)
        .await
        .map(|_| ())
}

fn is_not_found(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(kube::Error::Api(status)) if status.code == 404)
}

async fn send(
    client: &Client,
    method: Method,
    path: &str,
    content: &str,
    body: Option<&Value>,
) -> Result<Value> {
    let bytes = body.map(serde_json::to_vec).transpose()?;
    let what = format!("{method} {path}");
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content)
        .body(bytes.unwrap_or_default())?;
    client.request(request).await.context(what)
}
