//! Label selectors.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::refusal::Refusal;

/// What labels have to be like: all of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Labels(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq)]
enum Requirement {
    Exists(String),
    Absent(String),
    In(String, BTreeSet<String>),
    NotIn(String, BTreeSet<String>),
    More(String, i64),
    Less(String, i64),
}

impl Labels {
    pub(super) fn parse(selector: &str) -> Result<Self, Refusal> {
        let requirements = pieces(selector).into_iter().map(requirement);
        requirements
            .collect::<Option<_>>()
            .map(Self)
            .ok_or_else(|| {
                Refusal::bad_request(format!("unable to parse requirement: {selector:?}"))
            })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn admit(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        let of = |key: &String| labels[key].as_str();
        let number = |key: &String| of(key).and_then(|value| value.parse::<i64>().ok());
        self.0.iter().all(|requirement| match requirement {
            Requirement::Exists(key) => of(key).is_some(),
            Requirement::Absent(key) => of(key).is_none(),
            Requirement::In(key, values) => of(key).is_some_and(|value| values.contains(value)),
            Requirement::NotIn(key, values) => of(key).is_none_or(|value| !values.contains(value)),
            Requirement::More(key, than) => number(key).is_some_and(|value| value > *than),
            Requirement::Less(key, than) => number(key).is_some_and(|value| value < *than),
        })
    }
}

/// The parts between commas; those between brackets do not count.
fn pieces(selector: &str) -> Vec<&str> {
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

fn requirement(text: &str) -> Option<Requirement> {
    let word = |text: &str| {
        let text = text.trim();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
        text.chars().all(is_plain).then(|| text.to_owned())
    };
    let name = |text: &str| word(text).filter(|name| !name.is_empty());
    let one = |text: &str| Some(BTreeSet::from([word(text)?]));
    if let Some(rest) = text.strip_prefix('!') {
        return Some(Requirement::Absent(name(rest)?));
    }
    if let Some((key, value)) = text.split_once("!=") {
        return Some(Requirement::NotIn(name(key)?, one(value)?));
    }
    if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        return Some(Requirement::In(name(key)?, one(value)?));
    }
    if let Some((key, value)) = text.split_once('>') {
        return Some(Requirement::More(name(key)?, value.trim().parse().ok()?));
    }
    if let Some((key, value)) = text.split_once('<') {
        return Some(Requirement::Less(name(key)?, value.trim().parse().ok()?));
    }
    if let Some((head, values)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) {
        let (key, operator) = head.trim().rsplit_once(char::is_whitespace)?;
        let values = values.split(',').map(word).collect::<Option<_>>()?;
        return match operator {
            "in" => Some(Requirement::In(name(key)?, values)),
            "notin" => Some(Requirement::NotIn(name(key)?, values)),
            _ => None,
        };
    }
    name(text).map(Requirement::Exists)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_operator_selects_by_labels() {
        let object = json!({ "metadata": { "labels": { "app": "etcd", "size": "3", "x/y": "" } } });
        for (selector, admits) in [
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
            let labels = Labels::parse(selector).unwrap();
            assert_eq!(labels.admit(&object), admits, "{selector}");
        }
    }

    #[test]
    fn what_is_no_selector_is_refused() {
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
            assert!(Labels::parse(selector).is_err(), "{selector}");
        }
    }
}
