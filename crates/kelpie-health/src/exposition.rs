//! `/metrics`, for the processes that serve health.

use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

/// The format that `encode` writes.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Serves the metrics of `registry` at GET `/metrics`.
pub fn metrics(registry: Arc<Registry>) -> Router {
    Router::new().route("/metrics", get(async move || exposition(&registry)))
}

fn exposition(registry: &Registry) -> Response {
    let mut body = String::new();
    match encode(&mut body, registry) {
        Ok(()) => ([(CONTENT_TYPE, OPEN_METRICS)], body).into_response(),
        // Only a metric whose encoder fails gets here.
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
