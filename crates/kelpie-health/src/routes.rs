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
use crate::query::{Plus, Query, unescape};
use crate::{Group, Health};

/// The endpoints of both groups, to be merged into or nested in the router of a process. A path that is
/// not theirs is left to that router; [`not_found`] as its fallback answers in the same words.
pub fn routes(health: Health) -> Router {
    let mut router = Router::new();
    for group in Group::ALL {
        // The path with a slash at its end is not one of a check, but ours to refuse.
        for path in ["", "/", "/{*name}"] {
            router = router.route(&format!("/{group}{path}"), endpoint(group));
        }
    }
    router.with_state(health)
}

fn endpoint(group: Group) -> MethodRouter<Health> {
    any(
        async move |State(health): State<Health>, method: Method, uri: Uri| {
            respond(&health, group, &method, &uri).await
        },
    )
}

async fn respond(health: &Health, group: Group, method: &Method, uri: &Uri) -> Response {
    let query = Query::new(uri.query());
    let below = uri.path().strip_prefix('/').unwrap_or_default();
    let selection = match below.strip_prefix(group.as_str()).unwrap_or_default() {
        "" => None,
        name => {
            let name = unescape(&name[1..], Plus::Itself);
            let only = name.and_then(|name| health.only(group, &name));
            let Some(only) = only else {
                return not_found().await;
            };
            Some(only)
        }
    };
    // The method comes second: what does not exist, exists for no method.
    let head = health.settings().allow_head;
    if method != Method::GET && !(head && method == Method::HEAD) {
        return wrong_method(head);
    }
    let selection = selection.unwrap_or_else(|| health.select(group, query));
    let report = health.ask(group, &selection).await;
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
