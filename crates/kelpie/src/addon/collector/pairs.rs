//! Flags of the form NAME=VALUE, and rules.

use kelpie_collector::RecordingRule;

/// A name and what belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pair(pub(super) String, pub(super) String);

/// `NAME=VALUE`; the value may hold more of `=`.
pub(super) fn pair(text: &str) -> Result<Pair, String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => {
            Ok(Pair(name.to_owned(), value.to_owned()))
        }
        _ => Err("write NAME=VALUE".to_owned()),
    }
}

/// `{"name": …, "query": …}`.
pub(super) fn rule(text: &str) -> Result<RecordingRule, String> {
    let rule: RecordingRule = serde_json::from_str(text)
        .map_err(|error| format!("write {{\"name\": …, \"query\": …}}: {error}"))?;
    if rule.name.is_empty() || rule.query.is_empty() {
        return Err("it has no name or no query".to_owned());
    }
    Ok(rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_have_both_sides() {
        assert_eq!(pair("a=b=c"), Ok(Pair("a".into(), "b=c".into())));
        for wrong in ["", "a", "a=", "=b"] {
            assert!(pair(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rules_are_written_as_the_operator_writes_them() {
        let read = rule(r#"{"name":"r","query":"sum(up)"}"#).unwrap();
        assert_eq!((read.name.as_str(), read.query.as_str()), ("r", "sum(up)"));
        for wrong in ["", "{}", "up", r#"{"name":"","query":"up"}"#] {
            assert!(rule(wrong).is_err(), "{wrong}");
        }
    }
}
