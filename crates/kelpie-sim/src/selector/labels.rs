//! Label selectors such as `app in (a, b),!canary`.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::status_error::StatusError;

/// A parsed label selector. An object matches if it meets all conditions.
#[derive(Clone, Debug, Default)]
pub(super) struct LabelFilter(Vec<LabelCondition>);

#[derive(Clone, Debug, PartialEq)]
enum LabelCondition {
    Exists(String),
    Absent(String),
    In(String, BTreeSet<String>),
    NotIn(String, BTreeSet<String>),
    GreaterThan(String, i64),
    LessThan(String, i64),
}

impl LabelFilter {
    pub(super) fn parse(selector: &str) -> Result<Self, StatusError> {
        let requirements = split_requirements(selector)
            .into_iter()
            .map(parse_requirement);
        requirements
            .collect::<Option<_>>()
            .map(Self)
            .ok_or_else(|| {
                StatusError::bad_request(format!("unable to parse requirement: {selector:?}"))
            })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn matches(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        let of = |key: &String| labels[key].as_str();
        let number = |key: &String| of(key).and_then(|value| value.parse::<i64>().ok());
        self.0.iter().all(|requirement| match requirement {
            LabelCondition::Exists(key) => of(key).is_some(),
            LabelCondition::Absent(key) => of(key).is_none(),
            LabelCondition::In(key, values) => of(key).is_some_and(|value| values.contains(value)),
            LabelCondition::NotIn(key, values) => {
                of(key).is_none_or(|value| !values.contains(value))
            }
            LabelCondition::GreaterThan(key, than) => {
                number(key).is_some_and(|value| value > *than)
            }
            LabelCondition::LessThan(key, than) => number(key).is_some_and(|value| value < *than),
        })
    }
}

/// Splits a selector at the commas that are not in parentheses.
fn split_requirements(selector: &str) -> Vec<&str> {
    let mut depth = 0_i32;
    let parts = selector.split(move |c| {
        depth += match c {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        c == ',' && depth == 0
    });
    parts
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect()
}

fn parse_requirement(text: &str) -> Option<LabelCondition> {
    let word = |text: &str| {
        let text = text.trim();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
        text.chars().all(is_plain).then(|| text.to_owned())
    };
    let name = |text: &str| word(text).filter(|name| !name.is_empty());
    let one = |text: &str| Some(BTreeSet::from([word(text)?]));
    if let Some(rest) = text.strip_prefix('!') {
        return Some(LabelCondition::Absent(name(rest)?));
    }
    if let Some((key, value)) = text.split_once("!=") {
        return Some(LabelCondition::NotIn(name(key)?, one(value)?));
    }
    if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        return Some(LabelCondition::In(name(key)?, one(value)?));
    }
    if let Some((key, value)) = text.split_once('>') {
        return Some(LabelCondition::GreaterThan(
            name(key)?,
            value.trim().parse().ok()?,
        ));
    }
    if let Some((key, value)) = text.split_once('<') {
        return Some(LabelCondition::LessThan(
            name(key)?,
            value.trim().parse().ok()?,
        ));
    }
    if let Some((head, values)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) {
        let (key, operator) = head.trim().rsplit_once(char::is_whitespace)?;
        let values = values.split(',').map(word).collect::<Option<_>>()?;
        return match operator {
            "in" => Some(LabelCondition::In(name(key)?, values)),
            "notin" => Some(LabelCondition::NotIn(name(key)?, values)),
            _ => None,
        };
    }
    name(text).map(LabelCondition::Exists)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn supports_every_operator() {
        let object = json!({ "metadata": { "labels": { "app": "etcd", "size": "3", "x/y": "" } } });
        for (selector, matches) in [
            ("", true),
            ("app=etcd", true),
            ("app==etcd,size=3", true),
            ("app=etcd, size = 4", false),
            ("app!=etcd", false),
            ("role!=main", true),
            ("app in (etcd, api)", true),
            ("app in (api)", false),
            ("app notin (api),size", true),
            ("role notin (main)", true),
            ("role in (main)", false),
            ("x/y=", true),
            ("x/y", true),
            ("!role", true),
            ("!app", false),
            ("size>2,size<4", true),
            ("size>3", false),
            ("app>1", false),
        ] {
            let labels = LabelFilter::parse(selector).unwrap();
            assert_eq!(labels.matches(&object), matches, "{selector}");
        }
    }

    #[test]
    fn rejects_malformed_selectors() {
        for selector in [
            "=",
            "a b",
            "a in b",
            "a within (b)",
            "a=b=c",
            "!",
            "a>b",
            "(",
            "a in (b",
        ] {
            assert!(LabelFilter::parse(selector).is_err(), "{selector}");
        }
    }
}
