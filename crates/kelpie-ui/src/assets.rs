//! The files of the page, embedded in the binary.

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;

/// A file: its path, its type and its content.
type Asset = (&'static str, &'static str, &'static str);

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const IMAGE: &str = "image/svg+xml";

macro_rules! asset {
    ($path:literal, $file:literal, $kind:expr) => {
        ($path, $kind, include_str!(concat!("../assets/", $file)))
    };
}

const ASSETS: &[Asset] = &[
    asset!("/ui/", "index.html", HTML),
    asset!("/ui/style.css", "style.css", CSS),
    asset!("/ui/icon.svg", "icon.svg", IMAGE),
    asset!("/ui/app.js", "app.js", SCRIPT),
    asset!("/ui/cluster.js", "cluster.js", SCRIPT),
    asset!("/ui/conditions.js", "conditions.js", SCRIPT),
    asset!("/ui/countdown.js", "countdown.js", SCRIPT),
    asset!("/ui/day.js", "day.js", SCRIPT),
    asset!("/ui/dom.js", "dom.js", SCRIPT),
    asset!("/ui/fleet.js", "fleet.js", SCRIPT),
    asset!("/ui/format.js", "format.js", SCRIPT),
    asset!("/ui/live.js", "live.js", SCRIPT),
    asset!("/ui/tiles.js", "tiles.js", SCRIPT),
];

/// Adds a route for each file.
pub(crate) fn add_to(mut pages: Router) -> Router {
    for (path, kind, content) in ASSETS {
        pages = pages.route(path, get(async move || ([(CONTENT_TYPE, *kind)], *content)));
    }
    pages
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use axum::http::Request;
    use kelpie_core::prober::overview::{ClusterCondition, Severity, TransitionKind};
    use tower::ServiceExt;

    use super::*;

    fn asset(path: &str) -> &'static str {
        let found = ASSETS.iter().find(|(asset, ..)| *asset == path);
        found.unwrap().2
    }

    #[tokio::test]
    async fn assets_are_served_with_their_types() {
        let pages = add_to(Router::new());
        for (path, kind, content) in ASSETS {
            let request = Request::get(*path).body(Body::empty()).unwrap();
            let response = pages.clone().oneshot(request).await.unwrap();
            assert_eq!(response.headers()[CONTENT_TYPE], *kind, "{path}");
            let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
            assert_eq!(body, content.as_bytes(), "{path}");
        }
    }

    /// The policy would block them at run time.
    #[test]
    fn page_has_no_inline_code_and_no_foreign_addresses() {
        for (path, kind, content) in ASSETS {
            if *kind == HTML {
                for banned in [" style=", " onclick=", " onload=", "<style", "javascript:"] {
                    assert!(!content.contains(banned), "{path}: {banned}");
                }
                assert_eq!(content.matches("<script").count(), 1, "{path}");
                assert!(content.contains("<script type=\"module\" src="), "{path}");
            }
            if *kind == SCRIPT {
                for banned in ["innerHTML", "outerHTML", "eval(", "document.write"] {
                    assert!(!content.contains(banned), "{path}: {banned}");
                }
            }
            let foreign = content.match_indices("http").filter(|(at, _)| {
                let rest = &content[*at..];
                !rest.starts_with("http://www.w3.org/")
                    && rest.starts_with("http")
                    && rest.contains("://")
                    && rest.find("://").is_some_and(|end| end < 6)
            });
            assert_eq!(foreign.count(), 0, "{path}");
        }
    }

    #[test]
    fn imports_exist() {
        for (path, _, content) in ASSETS.iter().filter(|(_, kind, _)| *kind == SCRIPT) {
            for import in content
                .lines()
                .filter_map(|line| line.split(" from \"./").nth(1))
            {
                let file = format!("/ui/{}", import.trim_end_matches("\";"));
                assert!(
                    ASSETS.iter().any(|(known, ..)| *known == file),
                    "{path}: {file}"
                );
            }
        }
    }

    #[test]
    fn script_knows_every_condition_in_its_order() {
        let script = asset("/ui/conditions.js");
        let mut rest = script;
        for condition in ClusterCondition::ALL {
            let severity = match condition.severity() {
                Severity::Critical => "critical",
                Severity::Warning => "warning",
                Severity::Notice => "notice",
                Severity::Fine => "fine",
            };
            let row = format!(
                "[\"{}\", \"{condition}\", \"{severity}\"",
                condition.as_str()
            );
            let at = rest.find(&row);
            rest = &rest[at.unwrap_or_else(|| panic!("{row}"))..];
        }
    }

    #[test]
    fn script_knows_every_kind_of_transition() {
        let script = asset("/ui/cluster.js");
        for kind in TransitionKind::ALL {
            let key = format!("{}: \"", kind.as_str());
            assert!(script.contains(&key), "{key}");
        }
    }
}
