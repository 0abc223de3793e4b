//! The HTTP endpoints.
//!
//! | request | response |
//! |---|---|
//! | GET `/livez`, `/readyz` | 200 `ok`, or 503 with one line per check and an empty line |
//! | `?verbose` | lists the checks on success too |
//! | `?exclude=name` | that check is not run, not listed and not counted |
//! | GET `/livez/NAME`, `/readyz/NAME` | runs that check alone |
//! | any other path below the group | 404 |
//! | any other method | 405 with `Allow: GET` |

use axum::Router;
use axum::extract::State;
use axum::http::header::{ALLOW, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any};

use crate::health::CheckSelection;
use crate::query::{PlusSign, ProbeQuery, unescape};
use crate::response::ProbeResponse;
use crate::{CheckGroup, Health};

/// Returns the endpoints of both groups, to be merged into or nested in the router of a process.
///
/// Other paths are left to that router. Use [`not_found`] as its fallback for the same 404.
pub fn routes(health: Health) -> Router {
    let mut router = Router::new();
    for group in CheckGroup::ALL {
        router = router.route(&format!("/{group}"), group_route(group));
        // A trailing slash is a check without a name, which is a 404 of these routes.
        for path in ["", "{*name}"] {
            router = router.route(&format!("/{group}/{path}"), check_route(group));
        }
    }
    router.with_state(health)
}

/// Returns `/healthz`, the older name of `/livez`, for clients that still use it.
pub fn healthz(health: Health) -> Router {
    let router = Router::new().route("/healthz", group_route(CheckGroup::Livez));
    router.with_state(health)
}

/// Handles `/livez` and `/readyz`.
fn group_route(group: CheckGroup) -> MethodRouter<Health> {
    any(
        async move |State(health): State<Health>, method: Method, uri: Uri| {
            let query = ProbeQuery::new(uri.query());
            let select = || health.select(group, query);
            respond(&health, group, &method, query, select).await
        },
    )
}

/// Handles `/livez/NAME` and `/readyz/NAME`.
fn check_route(group: CheckGroup) -> MethodRouter<Health> {
    any(
        async move |State(health): State<Health>, method: Method, uri: Uri| {
            let name = uri.path().strip_prefix(&format!("/{group}/"));
            let name = name.and_then(|name| unescape(name, PlusSign::Literal));
            // Checked before the method: an unknown check is a 404 for every method.
            match name.and_then(|name| health.select_one(group, &name)) {
                None => not_found().await,
                Some(selection) => {
                    let query = ProbeQuery::new(uri.query());
                    respond(&health, group, &method, query, || selection).await
                }
            }
        },
    )
}

async fn respond(
    health: &Health,
    group: CheckGroup,
    method: &Method,
    query: ProbeQuery<'_>,
    select: impl FnOnce() -> CheckSelection,
) -> Response {
    let allow_head = health.settings().allow_head;
    if method != Method::GET && !(allow_head && method == Method::HEAD) {
        return method_not_allowed(allow_head);
    }
    let report = health.probe_selected(group, &select()).await;
    let ProbeResponse { status, body } = ProbeResponse::new(&report.checks, query.verbose());
    text(status, body)
}

/// Responds with 404 and the body that etcd and Kubernetes use.
pub async fn not_found() -> Response {
    text(StatusCode::NOT_FOUND, "404 page not found\n".to_owned())
}

/// Responds with 405 and the methods that are allowed.
pub fn method_not_allowed(allow_head: bool) -> Response {
    let body = "Method Not Allowed\n".to_owned();
    let mut response = text(StatusCode::METHOD_NOT_ALLOWED, body);
    let allowed = HeaderValue::from_static(if allow_head { "GET, HEAD" } else { "GET" });
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
