//! The description of the API: none. Clients that look for it get on without.

use super::answer::Answer;

/// What stands at a path of the description; nothing if it is another path.
pub(super) fn document(path: &str) -> Option<Answer> {
    match path {
        "/openapi/v3" => Some(Answer::text(200, "{\"paths\":{}}")),
        _ => None,
    }
}
