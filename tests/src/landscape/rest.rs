//! Requests for objects as JSON by their API paths.

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
pub async fn merge_patch(client: &Client, path: &str, patch: &Value) -> Result<Value> {
    send(client, Method::PATCH, path, MERGE, Some(patch)).await
}

/// Reads the object at `path`.
pub async fn get(client: &Client, path: &str) -> Result<Value> {
    send(client, Method::GET, path, JSON, None).await
}

/// Reads the object at `path`; `None` if it does not exist.
pub async fn get_opt(client: &Client, path: &str) -> Result<Option<Value>> {
    match get(client, path).await {
        Ok(object) => Ok(Some(object)),
        Err(error) if is_not_found(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Deletes the object at `path`, or a whole collection.
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
    content_type: &str,
    body: Option<&Value>,
) -> Result<Value> {
    let bytes = body.map(serde_json::to_vec).transpose()?;
    let what = format!("{method} {path}");
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content_type)
        .body(bytes.unwrap_or_default())?;
    client.request(request).await.context(what)
}
