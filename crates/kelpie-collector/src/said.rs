//! What a server said, for people.

use http::StatusCode;
use http::header::{HeaderMap, LOCATION};

/// Of a server's text.
const LONGEST: usize = 200;

/// A status with where it redirects to, which nobody follows, or the first line of its body.
pub(crate) fn said(status: StatusCode, headers: &HeaderMap, body: &str) -> String {
    if let Some(place) = elsewhere(status, headers) {
        return format!("it answered {status}: it is at {place} now");
    }
    let line = body.lines().map(str::trim).find(|line| !line.is_empty());
    match printable(line.unwrap_or_default()).as_str() {
        "" => format!("it answered {status}"),
        line => format!("it answered {}: {line}", status.as_u16()),
    }
}

/// Where a redirect leads, without its query: that is for the other server.
fn elsewhere(status: StatusCode, headers: &HeaderMap) -> Option<String> {
    let place = headers.get(LOCATION).filter(|_| status.is_redirection());
    let place = place?.to_str().ok()?.split('?').next()?;
    Some(printable(place)).filter(|place| !place.is_empty())
}

fn printable(text: &str) -> String {
    let letters = text.chars().filter(|letter| !letter.is_control());
    letters.take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_one_short_line() {
        let not_found = |body: &str| said(StatusCode::NOT_FOUND, &HeaderMap::new(), body);
        assert_eq!(not_found(""), "it answered 404 Not Found");
        assert_eq!(
            not_found("\n remote write\u{1b}[2J receiver\nmore"),
            "it answered 404: remote write[2J receiver"
        );
        assert!(not_found(&"x".repeat(5_000)).len() < 250);
    }

    #[test]
    fn a_redirect_says_where_to_and_only_a_redirect() {
        let headers = |place: &str| HeaderMap::from_iter([(LOCATION, place.parse().unwrap())]);
        let moved = StatusCode::PERMANENT_REDIRECT;
        assert_eq!(
            said(moved, &headers("https://hub/write?token=hunter2"), "<a>"),
            "it answered 308 Permanent Redirect: it is at https://hub/write now"
        );
        assert_eq!(said(moved, &headers("?"), "gone"), "it answered 308: gone");
        let created = said(StatusCode::NOT_FOUND, &headers("https://hub"), "no");
        assert_eq!(created, "it answered 404: no");
    }
}
