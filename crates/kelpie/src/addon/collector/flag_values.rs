//! Parsers for flag values: `NAME=VALUE`, and recording rules as JSON.

use kelpie_collector::RecordingRule;

/// A name and its value.
pub(super) type NameValue = (String, String);

/// Parses `NAME=VALUE`. The value may contain further `=`.
pub(super) fn parse_name_value(text: &str) -> Result<NameValue, String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

/// Parses `{"name": …, "query": …}`.
pub(super) fn parse_recording_rule(text: &str) -> Result<RecordingRule, String> {
    let rule: RecordingRule = serde_json::from_str(text)
        .map_err(|error| format!("expected {{\"name\": …, \"query\": …}}: {error}"))?;
    if rule.name.is_empty() || rule.query.is_empty() {
        return Err("the name or the query is empty".to_owned());
    }
    Ok(rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_and_value_are_required() {
        let parsed = parse_name_value("a=b=c");
        assert_eq!(parsed, Ok(("a".into(), "b=c".into())));
        for wrong in ["", "a", "a=", "=b"] {
            assert!(parse_name_value(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn recording_rule_is_parsed_from_json() {
        let rule = parse_recording_rule(r#"{"name":"r","query":"sum(up)"}"#).unwrap();
        assert_eq!((rule.name.as_str(), rule.query.as_str()), ("r", "sum(up)"));
        for wrong in ["", "{}", "up", r#"{"name":"","query":"up"}"#] {
            assert!(parse_recording_rule(wrong).is_err(), "{wrong}");
        }
    }
}
