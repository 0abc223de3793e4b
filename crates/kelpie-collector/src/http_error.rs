//! Describes error responses in one line.

use bytes::BytesMut;
use http::StatusCode;
use http::header::{HeaderMap, LOCATION};
use kelpie_net::Response;
use tokio::time::{Instant, timeout_at};

/// Limits the bytes that are read of a body.
const MAX_BODY_BYTES: usize = 64 * 1024;

/// Limits the characters that are quoted from a server.
const MAX_QUOTED_CHARS: usize = 200;

/// Reads the start of a body. A body that is long, cut or slow does not devalue the status, so what
/// has arrived by then is enough.
pub(crate) async fn body_start(response: &mut Response<'_>, deadline: Instant) -> String {
    let mut start = BytesMut::new();
    let reading = response.read_start(&mut start, MAX_BODY_BYTES);
    // Neither an error nor the end of the time loses what has arrived.
    let _ = timeout_at(deadline, reading).await;
    String::from_utf8_lossy(&start).into_owned()
}

/// Describes a response that is not a success: its status with the target of a redirect, which is
/// not followed, or with the first line of the body.
pub(crate) fn http_error(status: StatusCode, headers: &HeaderMap, body: &str) -> String {
    if let Some(target) = redirect_target(status, headers) {
        return format!("HTTP {status}: moved to {target}");
    }
    let line = body.lines().map(str::trim).find(|line| !line.is_empty());
    match printable(line.unwrap_or_default()).as_str() {
        "" => format!("HTTP {status}"),
        line => format!("HTTP {}: {line}", status.as_u16()),
    }
}

/// Returns the target of a redirect without its query, which is meant for the other server.
fn redirect_target(status: StatusCode, headers: &HeaderMap) -> Option<String> {
    let target = headers.get(LOCATION).filter(|_| status.is_redirection());
    let target = target?.to_str().ok()?.split('?').next()?;
    Some(printable(target)).filter(|target| !target.is_empty())
}

fn printable(text: &str) -> String {
    let letters = text.chars().filter(|letter| !letter.is_control());
    letters.take(MAX_QUOTED_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn body_becomes_one_short_line() {
        let not_found = |body: &str| http_error(StatusCode::NOT_FOUND, &HeaderMap::new(), body);
        assert_eq!(not_found(""), "HTTP 404 Not Found");
        assert_eq!(
            not_found("\n remote write\u{1b}[2J receiver\nmore"),
            "HTTP 404: remote write[2J receiver"
        );
        assert!(not_found(&"x".repeat(5_000)).len() < 250);
    }

    #[test]
    fn redirect_names_its_target() {
        let headers = |target: &str| HeaderMap::from_iter([(LOCATION, target.parse().unwrap())]);
        let moved = StatusCode::PERMANENT_REDIRECT;
        assert_eq!(
            http_error(moved, &headers("https://hub/write?token=hunter2"), "<a>"),
            "HTTP 308 Permanent Redirect: moved to https://hub/write"
        );
        assert_eq!(http_error(moved, &headers("?"), "gone"), "HTTP 308: gone");
        let created = http_error(StatusCode::NOT_FOUND, &headers("https://hub"), "no");
        assert_eq!(created, "HTTP 404: no");
    }
}
