//! Reads and writes objects of any kind as JSON, for controllers whose kinds come and go.
//!
//! Every request has a deadline, a limit on the size of the response and no hidden retry. Errors
//! are sorted by what can be done about them ([`ObjectError`]).

mod error;
mod kind;

use std::time::Duration;

use futures_util::Stream;
use http::{Request, header, request};
use http_body_util::{BodyExt, Limited};
use kelpie_net::percent_encode;
use kube::api::DynamicObject;
use kube::client::Body;
use kube::runtime::watcher;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::time::timeout;

pub use error::ObjectError;
pub use kind::{ObjectKind, ObjectPath};

use crate::client::{ApiError, shortened, suppress_logs};
use crate::system_clock::SystemClock;
use crate::watch::{Selection, WATCH_SECONDS, WatchEvent, watch_api};

/// The timeout of one request, including the wait in the rate limiter.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);
/// The maximum size of a response. The API server itself keeps no larger object.
const MAX_RESPONSE_BYTES: usize = 16 << 20;

/// The number of objects on a page of a watch's list.
const PAGE: u32 = 100;

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// A client for objects of any kind. Clones share their connections and limits.
#[derive(Clone)]
pub struct ObjectClient {
    client: Client,
    clock: SystemClock,
    role: &'static str,
}

impl ObjectClient {
    pub(crate) fn new(client: Client, clock: SystemClock, role: &'static str) -> Self {
        Self {
            client,
            clock,
            role,
        }
    }

    /// Reads an object. `None`: it does not exist.
    pub async fn get(&self, path: &ObjectPath<'_>) -> Result<Option<Value>, ObjectError> {
        let object = self.request("read", path, Request::get(path.url_path()), JSON, None);
        none_if_not_found(object.await)
    }

    /// Lists the objects of a kind in a namespace that match a label selector. An empty namespace
    /// means all namespaces. A kind that does not exist has no objects.
    pub async fn list(
        &self,
        kind: ObjectKind,
        namespace: &str,
        label: Option<&str>,
    ) -> Result<Vec<Value>, ObjectError> {
        let path = kind.named(namespace, "");
        let mut url = path.url_path();
        if let Some(label) = label {
            url.push_str("?labelSelector=");
            percent_encode(label, &mut url);
        }
        let list = self.request("list", &path, Request::get(url), JSON, None);
        let list = none_if_not_found(list.await)?;
        let items = list.map(|mut list| list["items"].take());
        Ok(match items {
            Some(Value::Array(items)) => items,
            _ => Vec::new(),
        })
    }

    /// Replaces an object. It must contain the resourceVersion of the object that it replaces.
    pub async fn replace(
        &self,
        path: &ObjectPath<'_>,
        object: &Value,
    ) -> Result<Value, ObjectError> {
        let request = Request::put(path.url_path());
        self.request("change", path, request, JSON, Some(object))
            .await
    }

    /// Replaces the status of an object. It must contain the resourceVersion that it replaces.
    pub async fn replace_status(
        &self,
        path: &ObjectPath<'_>,
        object: &Value,
    ) -> Result<Value, ObjectError> {
        let request = Request::put(format!("{}/status", path.url_path()));
        self.request("write the status of", path, request, JSON, Some(object))
            .await
    }

    /// Applies an object on the server side. The field manager `manager` owns these fields from
    /// then on, and fields that it owned before and does not apply any more are removed. Fields of
    /// other managers stay.
    pub async fn apply(
        &self,
        path: &ObjectPath<'_>,
        object: &Value,
        manager: &str,
    ) -> Result<Value, ObjectError> {
        let url = path.url_path();
        let request = Request::patch(format!("{url}?fieldManager={manager}&force=true"));
        self.request("apply", path, request, APPLY, Some(object))
            .await
    }

    /// Merges a patch into an object. A `resourceVersion` in it is a precondition.
    pub async fn merge(&self, path: &ObjectPath<'_>, patch: &Value) -> Result<Value, ObjectError> {
        let request = Request::patch(path.url_path());
        self.request("change", path, request, MERGE, Some(patch))
            .await
    }

    /// Deletes an object, if it still has this uid where one is given. The objects that it owns are
    /// deleted in the background. Returns false if the object did not exist.
    pub async fn delete(
        &self,
        path: &ObjectPath<'_>,
        uid: Option<&str>,
    ) -> Result<bool, ObjectError> {
        let mut options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
        });
        if let Some(uid) = uid {
            options["preconditions"] = json!({ "uid": uid });
        }
        let request = Request::delete(path.url_path());
        let deleted = self.request("delete", path, request, JSON, Some(&options));
        none_if_not_found(deleted.await).map(|object| object.is_some())
    }

    /// Returns whether the API server has this kind.
    pub async fn serves(&self, kind: ObjectKind) -> Result<bool, ObjectError> {
        let path = kind.named("", "");
        let request = Request::get(kind.api_path());
        let found = self.request("look for", &path, request, JSON, None);
        let Some(found) = none_if_not_found(found.await)? else {
            return Ok(false);
        };
        let resources = found["resources"].as_array();
        let mut resources = resources.into_iter().flatten();
        Ok(resources.any(|resource| resource["name"] == kind.plural))
    }

    /// Watches the objects of a kind in a namespace, either all or the one of this name. An empty
    /// namespace means all namespaces. The stream never ends.
    pub fn watch(
        &self,
        kind: ObjectKind,
        namespace: &str,
        name: Option<&str>,
    ) -> impl Stream<Item = WatchEvent<Value>> + Send + use<> {
        let (client, resource) = (self.client.clone(), kind.resource());
        let api: Api<DynamicObject> = if namespace.is_empty() {
            Api::all_with(client, &resource)
        } else {
            Api::namespaced_with(client, namespace, &resource)
        };
        let config = watcher::Config::default()
            .page_size(PAGE)
            .timeout(WATCH_SECONDS);
        let selection = Selection {
            name,
            ..Selection::default()
        };
        watch_api(api, config, selection, kind, |mut object| {
            // They are large and unused.
            object.metadata.managed_fields = None;
            serde_json::to_value(object).unwrap_or_default()
        })
    }

    /// Returns the time of the system clock, for timestamps in objects.
    pub fn now(&self) -> kelpie_core::Time {
        self.clock.now()
    }

    /// Sends a request. `verb` and `path` are the operation and its object in messages.
    async fn request(
        &self,
        verb: &'static str,
        path: &ObjectPath<'_>,
        request: request::Builder,
        content_type: &str,
        body: Option<&Value>,
    ) -> Result<Value, ObjectError> {
        let response = self.send(request, content_type, body);
        let cause = match timeout(REQUEST_TIMEOUT, suppress_logs(response)).await {
            Ok(Ok(object)) => return Ok(object),
            Ok(Err(cause)) => cause,
            Err(_) => ApiError::TimedOut,
        };
        Err(ObjectError {
            role: self.role,
            verb,
            what: path.to_string(),
            cause,
        })
    }

    async fn send(
        &self,
        request: request::Builder,
        content_type: &str,
        body: Option<&Value>,
    ) -> Result<Value, ApiError> {
        let bytes = body.map(serde_json::to_vec).transpose();
        let bytes = bytes
            .map_err(|error| ApiError::from_chain(&error))?
            .unwrap_or_default();
        let request = request
            .header(header::CONTENT_TYPE, content_type)
            .header(header::ACCEPT, JSON)
            .body(Body::from(bytes))
            .map_err(|error| ApiError::Invalid {
                status: 400,
                reason: error.to_string(),
            })?;
        let response = self.client.send(request).await;
        let response = response.map_err(|error| ApiError::from_chain(&error))?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, MAX_RESPONSE_BYTES).collect().await;
        let body = body.map_err(|error| ApiError::Unavailable(shortened(&error.to_string())))?;
        let body = body.to_bytes();
        if head.status.is_success() {
            // The decoder's error is not shown: it quotes the value, which may be secret.
            return serde_json::from_slice(&body)
                .map_err(|_| ApiError::Unavailable("the response cannot be decoded".into()));
        }
        let retry_after = head.headers.get(header::RETRY_AFTER);
        let retry_after = retry_after.and_then(|after| after.to_str().ok()?.parse().ok());
        let status = head.status.as_u16();
        Err(error::from_response(status, retry_after, &body))
    }
}

/// Turns "not found" into `None`.
fn none_if_not_found(result: Result<Value, ObjectError>) -> Result<Option<Value>, ObjectError> {
    match result {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.cause == ApiError::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
