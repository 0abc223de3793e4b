//! The HTTP contract.
//!
//! | request | answer |
//! |---|---|
//! | GET `/livez`, `/readyz` | 200 `ok`, or 503 with a line per check and an empty line |
//! | `?verbose` | the lines on success too |
//! | `?exclude=name` | that check is not run, not listed, not counted |
//! | GET `/livez/NAME`, `/readyz/NAME` | that check alone |
//! | another path below the group | 404 |
//! | another method | 405 with `Allow: GET` |

use axum::Router;
use axum::extract::State;
use axum::http::header::{ALLOW, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any};

use crate::answer::Answer;
use crate::health::Selection;
use crate::query::{Plus, Query, unescape};
use crate::{Group, Health};

/// The endpoints of both groups, to be merged into or nested in the router of a process. A path
/// that is not theirs is left to that router; [`not_found`] as its fallback answers in the same
/// words.
pub fn routes(health: Health) -> Router {
    let mut router = Router::new();
    for group in Group::ALL {
        router = router.route(&format!("/{group}"), whole(group));
        // A slash at the end is a check without a name: ours to refuse.
        for path in ["", "{*name}"] {
            router = router.route(&format!("/{group}/{path}"), single(group));
        }
    }
    router.with_state(health)
}

/// `/healthz`, an older name of `/livez`, for supervisors that ask for it.
pub fn healthz(health: Health) -> Router {
    let router = Router::new().route("/healthz", whole(Group::Livez));
    router.with_state(health)
}

/// `/livez`, `/readyz`.
fn whole(group: Group) -> MethodRouter<Health> {
    any(
        async move |State(health): State<Health>, method: Method, uri: Uri| {
            let query = Query::new(uri.query());
            let select = || health.select(group, query);
            respond(&health, group, &method, query, select).await
        },
    )
}

/// `/livez/NAME`, `/readyz/NAME`.
fn single(group: Group) -> MethodRouter<Health> {
    any(
        async move |State(health): State<Health>, method: Method, uri: Uri| {
            let below = uri.path().strip_prefix(&format!("/{group}/"));
            let name = below.and_then(|name| unescape(name, Plus::Itself));
            // Before the method: what does not exist, exists for no method.
            match name.and_then(|name| health.only(group, &name)) {
                None => not_found().await,
                Some(only) => {
                    let query = Query::new(uri.query());
                    respond(&health, group, &method, query, || only).await
                }
            }
        },
    )
}

async fn respond(
    health: &Health,
    group: Group,
    method: &Method,
    query: Query<'_>,
    select: impl FnOnce() -> Selection,
) -> Response {
    let head = health.settings().allow_head;
    if method != Method::GET && !(head && method == Method::HEAD) {
        return wrong_method(head);
    }
    let report = health.ask(group, &select()).await;
    let Answer { status, body } = Answer::new(&report.findings, query.verbose());
    text(status, body)
}

/// 404, in the words that etcd and Kubernetes use.
pub async fn not_found() -> Response {
    text(StatusCode::NOT_FOUND, "404 page not found\n".to_owned())
}

fn wrong_method(head: bool) -> Response {
    let body = "Method Not Allowed\n".to_owned();
    let mut response = text(StatusCode::METHOD_NOT_ALLOWED, body);
    let allowed = HeaderValue::from_static(if head { "GET, HEAD" } else { "GET" });
    response.headers_mut().insert(ALLOW, allowed);
    response
}

fn text(status: StatusCode, body: String) -> Response {
    let headers = [
        (CONTENT_TYPE, "text/plain; charset=utf-8"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (status, headers, body).into_response()
}
