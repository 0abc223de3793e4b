//! A simulated API server on top of a store.
//!
//! [`SimServer::respond`] handles a request: `users` authenticate it, `route` parses its path, and
//! the hooks authorize it and inject faults. Then `objects`, `lists`, `watches`, `scale`, `reviews`
//! or `discovery` answer it, in the `format` that the client accepts.

mod discovery;
mod events;
mod format;
mod listener;
mod lists;
mod objects;
mod openapi;
mod query;
mod request;
mod response;
mod reviews;
mod route;
mod scale;
mod table;
mod users;
mod watches;

use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Request, Response};
use kelpie_net::ResponseBody;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::status_error::{StatusError, StatusReason};
use crate::store::ObjectStore;
pub use listener::ListenerHandle;
use query::QueryParams;
pub use request::{
    AuthorizerHook, FaultHook, FaultInjection, InjectedAction, LogHook, RequestInfo,
    ResponseDelivery, ServerHooks, UserInfo,
};
use response::ServerResponse;
use route::Route;
pub use users::Users;
use watches::OpenWatches;

/// The version in `/version`: major, minor and full.
pub(crate) const VERSION: (&str, &str, &str) = ("1", "36", "v1.36.4");

/// An API server. Clones share the server.
#[derive(Clone, Debug)]
pub struct SimServer {
    store: ObjectStore,
    users: Users,
    hooks: Arc<ServerHooks>,
    watches: OpenWatches,
}

/// A request, with the faults to inject.
struct ServerRequest {
    info: RequestInfo,
    head: Parts,
    query: QueryParams,
    body: Bytes,
    injection: FaultInjection,
}

/// The response to a request, or the error that it fails with.
type ServerResult = Result<ServerResponse, StatusError>;

impl SimServer {
    /// Creates a server for the objects in `store`.
    pub fn new(store: ObjectStore, hooks: ServerHooks) -> Self {
        Self {
            store,
            users: Users::default(),
            hooks: Arc::new(hooks),
            watches: OpenWatches::default(),
        }
    }

    /// Returns the server's objects.
    pub fn store(&self) -> &ObjectStore {
        &self.store
    }

    /// Returns the server's users.
    pub fn users(&self) -> &Users {
        &self.users
    }

    /// Resets the connections of the watches that `which` selects.
    pub fn reset_watches(&self, which: impl Fn(&RequestInfo) -> bool) {
        self.watches.reset(&which);
    }

    /// Stalls or resumes all watches. A stalled watch neither receives events nor ends, as if the
    /// network dropped its packets.
    pub fn stall_watches(&self, stalled: bool) {
        self.watches.set_stalled(stalled);
    }

    /// Answers a request from a connection with this client certificate (DER). Returns `None` if
    /// the connection is to be reset without a response.
    pub async fn respond(
        &self,
        request: Request<Bytes>,
        certificate: Option<&[u8]>,
    ) -> Option<Response<ResponseBody>> {
        let (head, body) = request.into_parts();
        let query = QueryParams::parse(head.uri.query().unwrap_or_default());
        let route = Route::parse(head.uri.path(), &self.store.lock().kinds());
        let verb = route.verb(&head.method, &query);
        let (user, unauthenticated) = match self.users.authenticate(&head.headers, certificate) {
            Ok(user) => (user, None),
            Err(error) => (UserInfo::anonymous(), Some(error)),
        };
        let mut info = self.info(&head, &route, verb, user);
        let faults = self.hooks.faults.as_ref();
        let injection = faults.map_or_else(FaultInjection::default, |hook| hook(&info));
        let hold = injection.hold_until.clone();
        info.is_held = hold.is_some();
        let request = ServerRequest {
            info,
            head,
            query,
            body,
            injection,
        };
        let Some(hold) = hold else {
            return self.process(request, route, unauthenticated).await;
        };
        let server = self.clone();
        // A separate task does not end with the connection.
        let result = tokio::spawn(async move {
            hold.notified().await;
            server.process(request, route, unauthenticated).await
        });
        result.await.ok().flatten()
    }

    async fn process(
        &self,
        request: ServerRequest,
        route: Route,
        unauthenticated: Option<StatusError>,
    ) -> Option<Response<ResponseBody>> {
        let ServerRequest {
            info, injection, ..
        } = &request;
        if !injection.delay.is_zero() {
            sleep(injection.delay).await;
        }
        let result = match (&injection.action, unauthenticated) {
            (InjectedAction::Skip, _) => Ok(ServerResponse::new(200, "text/plain", "")),
            (InjectedAction::Reject(error), _) => Err(error.clone()),
            (_, Some(error)) => Err(error),
            (_, None) if !self.is_allowed(info) => Err(reviews::forbidden(info)),
            (_, None) => self.serve(&request, &route),
        };
        let response = result.unwrap_or_else(ServerResponse::from);
        let delivery = match injection.delivery {
            ResponseDelivery::CutMidway { .. } if response.code != 200 => {
                ResponseDelivery::Complete
            }
            delivery => delivery,
        };
        let is_delivered = delivery == ResponseDelivery::Complete;
        if let Some(log) = &self.hooks.log {
            log(info, if is_delivered { response.code } else { 0 });
        }
        let now = self.store.clock().now();
        match delivery {
            ResponseDelivery::Complete => Some(response.into_response(now)),
            ResponseDelivery::CutMidway { resets } => {
                Some(response.cut_midway(resets).await.into_response(now))
            }
            ResponseDelivery::Reset => None,
            ResponseDelivery::Withheld => std::future::pending().await,
        }
    }

    fn info(&self, head: &Parts, route: &Route, verb: &'static str, user: UserInfo) -> RequestInfo {
        let mut info = RequestInfo {
            received_at: self.store.clock().now(),
            is_held: false,
            user,
            verb,
            resource: None,
            subresource: String::new(),
            namespace: String::new(),
            name: String::new(),
            path: head.uri.path().to_owned(),
        };
        if let Route::Objects(path) = route {
            info.resource = Some(path.kind.resource.clone());
            info.subresource.clone_from(&path.subresource);
            info.namespace.clone_from(&path.namespace);
            info.name.clone_from(&path.name);
        }
        info
    }

    fn is_allowed(&self, info: &RequestInfo) -> bool {
        match &self.hooks.authorizer {
            Some(hook) => hook(info),
            None => reviews::default_authorizer(info),
        }
    }

    fn serve(&self, request: &ServerRequest, route: &Route) -> ServerResult {
        let is_read = [Method::GET, Method::HEAD].contains(&request.head.method);
        match route {
            Route::Objects(path) => self.objects(request, path),
            Route::Review(plural) if request.head.method == Method::POST => {
                self.review(request, plural)
            }
            Route::Review(_) => Err(method_not_allowed()),
            Route::Unknown => Err(resource_not_found()),
            _ if !is_read => Err(method_not_allowed()),
            Route::Groups { is_core } => Ok(self.groups(request, *is_core)),
            Route::Group(group) => Ok(self.group(group)),
            Route::Version { group, version } => Ok(self.resources(group, version)),
            Route::Other(path) => Ok(self.openapi(path).unwrap_or_else(|| non_resource(path))),
        }
    }
}

fn resource_not_found() -> StatusError {
    let message = "the server could not find the requested resource";
    StatusError::with_details(StatusReason::NotFound, message, &json!({}))
}

fn method_not_allowed() -> StatusError {
    let message = "the server does not allow this method on the requested resource";
    StatusError::with_details(StatusReason::MethodNotAllowed, message, &json!({}))
}

/// Answers requests for non-resource paths.
fn non_resource(path: &str) -> ServerResponse {
    let (major, minor, version) = VERSION;
    match path {
        "/version" | "/version/" => ServerResponse::json(
            200,
            &json!({
                "major": major,
                "minor": minor,
                "gitVersion": version,
                "gitCommit": "",
                "gitTreeState": "archive",
                "buildDate": "1970-01-01T00:00:00Z",
                "goVersion": "",
                "compiler": "",
                "platform": "linux/amd64",
            }),
        ),
        "/healthz" | "/livez" | "/readyz" => {
            ServerResponse::new(200, "text/plain; charset=utf-8", "ok")
        }
        _ => ServerResponse::new(404, "text/plain; charset=utf-8", "404 page not found\n"),
    }
}

/// Parses a request's body as a JSON object.
fn parse_object(body: &Bytes) -> Result<Value, StatusError> {
    let value = parse_json(body)?;
    if value.is_object() {
        return Ok(value);
    }
    Err(StatusError::bad_request(
        "an object has to be a JSON object",
    ))
}

/// Parses a request's body as JSON.
fn parse_json(body: &Bytes) -> Result<Value, StatusError> {
    serde_json::from_slice(body).map_err(|error| {
        let message =
            format!("the object provided is unrecognized (must be of type JSON): {error}");
        StatusError::bad_request(message)
    })
}
