//! Any objects of an API server, as they are: for controllers whose kinds come and go.
//!
//! Every call has a deadline, a limit of bytes and no hidden retry; a call that fails is sorted by
//! what can be done about it ([`CallError`]).

mod error;
mod kind;
mod watch;

use std::time::Duration;

use futures_util::Stream;
use http::{Method, Request, header};
use http_body_util::{BodyExt, Limited};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::timeout;

pub use error::{CallError, Cause};
pub use kind::{Kind, Place};

use crate::seed::{Change, Fault, quietly, root_cause, shortened};
use crate::wall::WallClock;

/// For one call.
const PATIENCE: Duration = Duration::from_secs(15);
/// The API server itself keeps no object that is larger than this.
const LARGEST: usize = 16 << 20;

const JSON: &str = "application/json";
const APPLY: &str = "application/apply-patch+yaml";

/// The objects of one API server. Clones share their connections and limits.
#[derive(Clone)]
pub struct Objects {
    client: Client,
    wall: WallClock,
    role: &'static str,
}

impl Objects {
    pub(crate) fn new(client: Client, wall: WallClock, role: &'static str) -> Self {
        Self { client, wall, role }
    }

    /// What the cluster is to us, as in `hub`.
    pub fn role(&self) -> &'static str {
        self.role
    }

    /// An object; `None` if there is none.
    pub async fn get(&self, place: &Place<'_>) -> Result<Option<Value>, CallError> {
        absent(self.call("read", place, Method::GET, "", JSON, None).await)
    }

    /// The objects of a kind in a namespace, or in all (an empty one), that have this label; none
    /// where there is no such kind.
    pub async fn list(
        &self,
        kind: Kind,
        namespace: &str,
        label: Option<&str>,
    ) -> Result<Vec<Value>, CallError> {
        let query = label.map(|label| format!("?labelSelector={}", escaped(label)));
        let place = kind.named(namespace, "");
        let query = query.unwrap_or_default();
        let list = self.call("list", &place, Method::GET, &query, JSON, None);
        let list = absent(list.await)?;
        let items = list.map(|mut list| list["items"].take());
        Ok(match items {
            Some(Value::Array(items)) => items,
            _ => Vec::new(),
        })
    }

    /// Puts the whole object in the place of the one whose resourceVersion it has.
    pub async fn replace(&self, place: &Place<'_>, object: &Value) -> Result<Value, CallError> {
        self.call("change", place, Method::PUT, "", JSON, Some(object))
            .await
    }

    /// The same for its status only.
    pub async fn replace_status(
        &self,
        place: &Place<'_>,
        object: &Value,
    ) -> Result<Value, CallError> {
        let verb = "write the status of";
        self.call(verb, place, Method::PUT, "/status", JSON, Some(object))
            .await
    }

    /// Makes the object have these fields, which are `manager`'s from then on, and takes those away
    /// that it had before. What others have written elsewhere stays.
    pub async fn apply(
        &self,
        place: &Place<'_>,
        object: &Value,
        manager: &str,
    ) -> Result<Value, CallError> {
        let query = format!("?fieldManager={manager}&force=true");
        self.call("apply", place, Method::PATCH, &query, APPLY, Some(object))
            .await
    }

    /// Deletes an object, only that with this uid if one is given; what it owns goes in the
    /// background. False if it was gone.
    pub async fn delete(&self, place: &Place<'_>, uid: Option<&str>) -> Result<bool, CallError> {
        let mut options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
        });
        if let Some(uid) = uid {
            options["preconditions"] = json!({ "uid": uid });
        }
        let deleted = self.call("delete", place, Method::DELETE, "", JSON, Some(&options));
        absent(deleted.await).map(|object| object.is_some())
    }

    /// Whether the API server has this kind.
    pub async fn serves(&self, kind: Kind) -> Result<bool, CallError> {
        let place = kind.named("", "");
        let found = self.send("look for", &place, Method::GET, kind.folder(), JSON, None);
        let Some(found) = absent(found.await)? else {
            return Ok(false);
        };
        let resources = found["resources"].as_array();
        let mut resources = resources.into_iter().flatten();
        Ok(resources.any(|resource| resource["name"] == kind.plural))
    }

    /// The objects of a kind in a namespace, all or one of that name. The stream has no end.
    pub fn watch(
        &self,
        kind: Kind,
        namespace: &str,
        name: Option<&str>,
    ) -> impl Stream<Item = Change<Value>> + Send + use<> {
        watch::watch(&self.client, kind, namespace, name)
    }

    /// The wall clock, for stamps that others read.
    pub fn now(&self) -> kelpie_core::Time {
        self.wall.now()
    }

    async fn call(
        &self,
        verb: &'static str,
        place: &Place<'_>,
        method: Method,
        after: &str,
        content: &str,
        body: Option<&Value>,
    ) -> Result<Value, CallError> {
        let path = format!("{}{after}", place.path());
        self.send(verb, place, method, path, content, body).await
    }

    async fn send(
        &self,
        verb: &'static str,
        place: &Place<'_>,
        method: Method,
        path: String,
        content: &str,
        body: Option<&Value>,
    ) -> Result<Value, CallError> {
        let sent = self.exchange(method, path, content, body);
        let cause = match timeout(PATIENCE, quietly(sent)).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(cause)) => cause,
            Err(_) => Cause::Unavailable(Fault::TimedOut.to_string()),
        };
        Err(CallError {
            role: self.role,
            verb,
            what: place.to_string(),
            cause,
        })
    }

    async fn exchange(
        &self,
        method: Method,
        path: String,
        content: &str,
        body: Option<&Value>,
    ) -> Result<Value, Cause> {
        let broken =
            |error: &dyn std::error::Error| Cause::Unavailable(shortened(&root_cause(error)));
        let bytes = body.map(serde_json::to_vec).transpose();
        let bytes = bytes.map_err(|error| broken(&error))?.unwrap_or_default();
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, content)
            .header(header::ACCEPT, JSON)
            .body(Body::from(bytes))
            .map_err(|error| Cause::Invalid(error.to_string()))?;
        let answer = self.client.send(request).await;
        let (head, body) = answer.map_err(|error| broken(&error))?.into_parts();
        let body = Limited::new(body, LARGEST).collect().await;
        let body = body.map_err(|error| Cause::Unavailable(shortened(&error.to_string())))?;
        let body = body.to_bytes();
        if head.status.is_success() {
            // What it stumbled over is not repeated: it may be secret.
            return serde_json::from_slice(&body)
                .map_err(|_| Cause::Unavailable("an answer that is not understood".into()));
        }
        let after = head.headers.get(header::RETRY_AFTER);
        let after = after.and_then(|after| after.to_str().ok()?.parse().ok());
        Err(Cause::of(head.status.as_u16(), after, &body))
    }
}

/// What is not there is an answer.
fn absent(answer: Result<Value, CallError>) -> Result<Option<Value>, CallError> {
    match answer {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.cause == Cause::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// For a query: all but letters, digits and what is harmless.
fn escaped(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => (byte as char).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}
