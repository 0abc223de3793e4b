//! An API server over a store: what clients speak to.
//!
//! [`Server::respond`] is the way of a request: `users` say who it is, `route` what it names, the rights
//! and the fate what becomes of it; then `objects`, `lists`, `watches`, `scale`, `reviews` and
//! `discovery` answer it, in the `format` the client wants.

mod answer;
mod call;
mod discovery;
mod events;
mod format;
mod listening;
mod lists;
mod objects;
mod openapi;
mod query;
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
use kelpie_net::ServedBody;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::refusal::{Reason, Refusal};
use crate::store::Store;
use answer::Answer;
pub use call::{Call, Deed, Delivery, Fate, FateHook, Hooks, LogHook, RightsHook, User};
pub use listening::Listening;
use query::Query;
use route::Route;
pub use users::Users;
use watches::Watches;

/// What `/version` says.
pub(crate) const VERSION: (&str, &str, &str) = ("1", "36", "v1.36.4");

/// An API server. Clones are the same server.
#[derive(Clone, Debug)]
pub struct Server {
    store: Store,
    users: Users,
    hooks: Arc<Hooks>,
    watches: Watches,
}

/// A request that has arrived, with what is known of it and what is to become of it.
struct Arrived {
    call: Call,
    head: Parts,
    query: Query,
    body: Bytes,
    fate: Fate,
    route: Route,
    user: Result<User, Refusal>,
}

/// A request that is being answered.
struct Asked<'a> {
    call: &'a Call,
    head: &'a Parts,
    query: &'a Query,
    body: &'a Bytes,
    fate: &'a Fate,
}

impl Server {
    /// A server of what is in `store`.
    pub fn new(store: Store, hooks: Hooks) -> Self {
        Self {
            store,
            users: Users::default(),
            hooks: Arc::new(hooks),
            watches: Watches::default(),
        }
    }

    /// Its objects.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Who is known to it.
    pub fn users(&self) -> &Users {
        &self.users
    }

    /// Breaks off the watches that `which` picks, as a connection does that is reset.
    pub fn cut_watches(&self, which: impl Fn(&Call) -> bool) {
        self.watches.cut(&which);
    }

    /// While held, no watch hears anything, and none ends: a network that swallows packets.
    pub fn hold_watches(&self, held: bool) {
        self.watches.hold(held);
    }

    /// Answers a request that came over a connection with this client certificate (DER). `None` is a
    /// connection that breaks off without an answer.
    pub async fn respond(
        &self,
        request: Request<Bytes>,
        certificate: Option<&[u8]>,
    ) -> Option<Response<ServedBody>> {
        let (head, body) = request.into_parts();
        let query = Query::parse(head.uri.query().unwrap_or_default());
        let route = Route::of(head.uri.path(), &self.store.lock().kinds());
        let verb = route.verb(&head.method, &query);
        let user = self.users.find(&head.headers, certificate);
        let mut call = self.call(
            &head,
            &route,
            verb,
            user.clone().unwrap_or_else(|_| User::anonymous()),
        );
        let fate = self
            .hooks
            .fate
            .as_ref()
            .map_or_else(Fate::default, |hook| hook(&call));
        let held = fate.held.clone();
        call.is_held = held.is_some();
        let request = Arrived {
            call,
            head,
            query,
            body,
            fate,
            route,
            user,
        };
        let Some(held) = held else {
            return self.carry_out(request).await;
        };
        let server = self.clone();
        // A task of its own does not end with the connection.
        let done = tokio::spawn(async move {
            held.notified().await;
            server.carry_out(request).await
        });
        done.await.ok().flatten()
    }

    async fn carry_out(&self, request: Arrived) -> Option<Response<ServedBody>> {
        let Arrived {
            call,
            head,
            query,
            body,
            fate,
            route,
            user,
        } = request;
        if !fate.delay.is_zero() {
            sleep(fate.delay).await;
        }
        let asked = Asked {
            call: &call,
            head: &head,
            query: &query,
            body: &body,
            fate: &fate,
        };
        let done = match (&fate.deed, user) {
            (Deed::Nothing, _) => Ok(Answer::of(200, "text/plain", "")),
            (Deed::Refuse(refusal), _) => Err(refusal.clone()),
            (_, Err(refusal)) => Err(refusal),
            (_, Ok(_)) => self.permit(&call).and_then(|()| self.serve(&asked, &route)),
        };
        let answer = done.unwrap_or_else(Answer::from);
        let delivered = fate.delivery == Delivery::Whole;
        if let Some(log) = &self.hooks.log {
            log(&call, if delivered { answer.code } else { 0 });
        }
        match fate.delivery {
            Delivery::Whole => Some(answer.into_response(self.store.clock().now())),
            Delivery::Lost => None,
            Delivery::Never => std::future::pending().await,
        }
    }

    fn call(&self, head: &Parts, route: &Route, verb: &'static str, user: User) -> Call {
        let mut call = Call {
            at: self.store.clock().now(),
            is_held: false,
            user,
            verb,
            resource: None,
            subresource: String::new(),
            namespace: String::new(),
            name: String::new(),
            path: head.uri.path().to_owned(),
        };
        if let Route::Objects(place) = route {
            call.resource = Some(place.kind.resource.clone());
            call.subresource.clone_from(&place.subresource);
            call.namespace.clone_from(&place.namespace);
            call.name.clone_from(&place.name);
        }
        call
    }

    fn permit(&self, call: &Call) -> Result<(), Refusal> {
        if self.may(call) {
            return Ok(());
        }
        Err(reviews::forbidden(call))
    }

    fn may(&self, call: &Call) -> bool {
        match &self.hooks.rights {
            Some(hook) => hook(call),
            None => reviews::by_default(call),
        }
    }

    fn serve(&self, asked: &Asked<'_>, route: &Route) -> Result<Answer, Refusal> {
        let is_read = [Method::GET, Method::HEAD].contains(&asked.head.method);
        match route {
            Route::Objects(place) => self.objects(asked, place),
            Route::Review(plural) if asked.head.method == Method::POST => {
                self.review(asked, plural)
            }
            Route::Review(_) => Err(not_allowed()),
            Route::Unknown => Err(no_resource()),
            _ if !is_read => Err(not_allowed()),
            Route::Groups { is_core } => Ok(self.groups(asked, *is_core)),
            Route::Group(group) => Ok(self.group(group)),
            Route::Version { group, version } => Ok(self.resources(group, version)),
            Route::Other(path) => Ok(self.description(path).unwrap_or_else(|| other(path))),
        }
    }
}

fn no_resource() -> Refusal {
    let message = "the server could not find the requested resource";
    let mut refusal = Refusal::new(Reason::NotFound, message);
    refusal.details = Some(serde_json::Map::new());
    refusal
}

fn not_allowed() -> Refusal {
    let message = "the server does not allow this method on the requested resource";
    let mut refusal = Refusal::new(Reason::MethodNotAllowed, message);
    refusal.details = Some(serde_json::Map::new());
    refusal
}

/// What is no object.
fn other(path: &str) -> Answer {
    let (major, minor, version) = VERSION;
    match path {
        "/version" | "/version/" => Answer::json(
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
        "/healthz" | "/livez" | "/readyz" => Answer::of(200, "text/plain; charset=utf-8", "ok"),
        _ => Answer::of(404, "text/plain; charset=utf-8", "404 page not found\n"),
    }
}

/// The JSON object of a request.
fn parsed_object(body: &Bytes) -> Result<Value, Refusal> {
    let value = parsed(body)?;
    if value.is_object() {
        return Ok(value);
    }
    Err(Refusal::bad_request("an object has to be a JSON object"))
}

/// The JSON of a request.
fn parsed(body: &Bytes) -> Result<Value, Refusal> {
    serde_json::from_slice(body).map_err(|error| {
        let message =
            format!("the object provided is unrecognized (must be of type JSON): {error}");
        Refusal::bad_request(message)
    })
}
