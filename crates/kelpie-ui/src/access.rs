//! Decides which requests are answered, and what the pages may load.

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// The page loads its own files and nothing else, and no other page may embed it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                      connect-src 'self'; img-src 'self' data:; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'; require-trusted-types-for \
                      'script'";

const REFUSED: &str = "this page is served to localhost only: open it by an IP address or as \
                       http://localhost\n";

/// The headers of every response.
const HEADERS: [(HeaderName, &str); 5] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    (REFERRER_POLICY, "no-referrer"),
    (CACHE_CONTROL, "no-cache"),
];

/// Refuses requests under foreign host names, and sets the headers of the page.
pub(crate) async fn protect(request: Request, next: Next) -> Response {
    let mut response = local_names_only(request, next).await;
    for (name, value) in HEADERS {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Refuses requests under foreign host names. A web page that has its name resolve to this host
/// could read what is meant for clients on the same host only.
pub async fn local_names_only(request: Request, next: Next) -> Response {
    if is_local_name(request.headers()) {
        next.run(request).await
    } else {
        (StatusCode::MISDIRECTED_REQUEST, REFUSED).into_response()
    }
}

fn is_local_name(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(HOST) else {
        // No browser leaves it out.
        return true;
    };
    let Ok(host) = host.to_str() else {
        return false;
    };
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_names_are_refused() {
        for (host, is_local) in [
            (Some("localhost:9643"), true),
            (Some("LOCALHOST"), true),
            (Some("127.0.0.1:9643"), true),
            (Some("[::1]:9643"), true),
            (Some("10.1.2.3"), true),
            (None, true),
            (Some("attacker.example"), false),
            (Some("127.0.0.1.attacker.example:9643"), false),
            (Some("localhost.attacker.example"), false),
            (Some(""), false),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(host) = host {
                headers.insert(HOST, host.parse().unwrap());
            }
            assert_eq!(is_local_name(&headers), is_local, "{host:?}");
        }
    }
}
