//! What a server said, for people.

use http::StatusCode;

/// Of a server's text.
const LONGEST: usize = 200;

/// A status with the first line of its body.
pub(crate) fn said(status: StatusCode, body: &str) -> String {
    let line = body.lines().map(str::trim).find(|line| !line.is_empty());
    let line: String = line
        .unwrap_or_default()
        .chars()
        .filter(|letter| !letter.is_control())
        .take(LONGEST)
        .collect();
    match line.as_str() {
        "" => format!("it answered {status}"),
        line => format!("it answered {}: {line}", status.as_u16()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_one_short_line() {
        let not_found = StatusCode::NOT_FOUND;
        assert_eq!(said(not_found, ""), "it answered 404 Not Found");
        assert_eq!(
            said(not_found, "\n remote write\u{1b}[2J receiver\nmore"),
            "it answered 404: remote write[2J receiver"
        );
        assert!(said(not_found, &"x".repeat(5_000)).len() < 250);
    }
}
