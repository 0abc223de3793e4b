//! Kubernetes label selectors.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};

use crate::key::{Table, key};
use crate::name;
use crate::problem::{self, Problem};
use crate::reader::Section;
use crate::value::Value;

/// Which pods are meant: those that meet every requirement. There is at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelSelector {
    /// What a pod's labels must meet; `matchLabels` first.
    pub requirements: Vec<Requirement>,
}

/// What one label must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The label's key.
    pub key: String,
    /// What is asked of it.
    pub operator: Operator,
}

/// What is asked of a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operator {
    /// It is there, with one of these values.
    In(BTreeSet<String>),
    /// It is absent, or has none of these values.
    NotIn(BTreeSet<String>),
    /// It is there.
    Exists,
    /// It is absent.
    DoesNotExist,
}

impl LabelSelector {
    /// Whether something with these labels is meant.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.requirements.iter().all(|requirement| {
            let value = labels.get(&requirement.key);
            match &requirement.operator {
                Operator::In(values) => value.is_some_and(|value| values.contains(value)),
                Operator::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
                Operator::Exists => value.is_some(),
                Operator::DoesNotExist => value.is_none(),
            }
        })
    }
}

/// The form that the Kubernetes API takes as `labelSelector`: `role in (a,b),!legacy`.
impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let list = |values: &BTreeSet<String>| {
            values
                .iter()
                .map(String::as_str)
                .collect::<Vec<_>>()
                .join(",")
        };
        match &self.operator {
            Operator::In(values) => write!(f, "{key} in ({})", list(values)),
            Operator::NotIn(values) => write!(f, "{key} notin ({})", list(values)),
            Operator::Exists => f.write_str(key),
            Operator::DoesNotExist => write!(f, "!{key}"),
        }
    }
}

/// As `matchExpressions`, which can say everything.
impl Serialize for LabelSelector {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut selector = serializer.serialize_struct("LabelSelector", 1)?;
        selector.serialize_field("matchExpressions", &self.requirements)?;
        selector.end()
    }
}

impl Serialize for Requirement {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (operator, values) = match &self.operator {
            Operator::In(values) => ("In", Some(values)),
            Operator::NotIn(values) => ("NotIn", Some(values)),
            Operator::Exists => ("Exists", None),
            Operator::DoesNotExist => ("DoesNotExist", None),
        };
        let mut requirement = serializer.serialize_struct("Requirement", 3)?;
        requirement.serialize_field("key", &self.key)?;
        requirement.serialize_field("operator", operator)?;
        match values {
            Some(values) => requirement.serialize_field("values", values)?,
            None => requirement.skip_field("values")?,
        }
        requirement.end()
    }
}

pub(crate) const SELECTOR: Table = Table {
    place: "in a selector under `podSelectors`",
    expected: "a map with matchLabels or matchExpressions",
    keys: &[key("matchLabels"), key("matchExpressions")],
    retired: &[],
};

pub(crate) const EXPRESSION: Table = Table {
    place: "in an entry of `matchExpressions`",
    expected: "a map with key, operator and, for In and NotIn, values",
    keys: &[key("key"), key("operator"), key("values")],
    retired: &[],
};

/// Reads a selector. One that would match every pod is refused.
pub(crate) fn read(value: Value<'_>) -> Option<LabelSelector> {
    let (path, place) = (value.path.clone(), value.key_place);
    let section = value.section(&SELECTOR)?;
    let labels = section
        .get("matchLabels")
        .map(|v| v.entries("a map of labels"));
    let expressions = section
        .get("matchExpressions")
        .map(|v| v.items("a list of expressions"));
    let is_empty = labels
        .as_ref()
        .is_none_or(|l| l.as_ref().is_some_and(Vec::is_empty))
        && expressions
            .as_ref()
            .is_none_or(|e| e.as_ref().is_some_and(Vec::is_empty));
    if is_empty {
        let message = "the selector is empty: it would match every pod of the namespace";
        let problem = Problem::error(place, &path, message);
        section
            .reader
            .report(problem.expected("matchLabels or matchExpressions with an entry"));
    }
    let mut requirements = Vec::new();
    for (key, value) in labels.flatten().unwrap_or_default() {
        requirements.extend(label(key, &value));
    }
    for item in expressions.flatten().unwrap_or_default() {
        requirements.extend(
            item.section(&EXPRESSION)
                .and_then(|section| expression(&section)),
        );
    }
    Some(LabelSelector { requirements })
}

fn label(key: &str, value: &Value<'_>) -> Option<Requirement> {
    let good_key = check_key(key, value);
    let text = value.named(&name::LABEL_VALUE)?;
    good_key.then(|| Requirement {
        key: key.to_owned(),
        operator: Operator::In(BTreeSet::from([text.to_owned()])),
    })
}

/// A label's key that is a key of the file as well.
fn check_key(key: &str, value: &Value<'_>) -> bool {
    let holds = (name::LABEL_KEY.holds)(key);
    if !holds {
        let shown = problem::quoted(key);
        let problem = Problem::error(
            value.key_place,
            &value.path,
            format!("the key {shown} is not allowed"),
        );
        value.report(problem.value(shown).expected(name::LABEL_KEY.expected));
    }
    holds
}

fn expression(section: &Section<'_>) -> Option<Requirement> {
    #[derive(Clone, Copy)]
    enum Word {
        In,
        NotIn,
        Exists,
        DoesNotExist,
    }
    const WORDS: &[(&str, Word)] = &[
        ("In", Word::In),
        ("NotIn", Word::NotIn),
        ("Exists", Word::Exists),
        ("DoesNotExist", Word::DoesNotExist),
    ];
    let key = section
        .require("key", name::LABEL_KEY.expected)
        .and_then(|v| v.named(&name::LABEL_KEY));
    let word = section
        .require("operator", "one of In, NotIn, Exists, DoesNotExist")
        .and_then(|v| v.choice(WORDS));
    let values = section.get("values");
    let operator = match word? {
        Word::In => Operator::In(some_values(section)),
        Word::NotIn => Operator::NotIn(some_values(section)),
        word => {
            if let Some(values) = values
                && values
                    .items("no values with this operator")
                    .is_some_and(|v| !v.is_empty())
            {
                values.refuse("no values with the operators Exists and DoesNotExist");
            }
            if matches!(word, Word::Exists) {
                Operator::Exists
            } else {
                Operator::DoesNotExist
            }
        }
    };
    Some(Requirement {
        key: key?.to_owned(),
        operator,
    })
}

/// The values that `In` and `NotIn` cannot do without.
fn some_values(section: &Section<'_>) -> BTreeSet<String> {
    const EXPECTED: &str = "a list of at least one label value";
    let Some(value) = section.require("values", EXPECTED) else {
        return BTreeSet::new();
    };
    let Some(items) = value.some_items(EXPECTED) else {
        return BTreeSet::new();
    };
    items
        .iter()
        .filter_map(|v| v.named(&name::LABEL_VALUE))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(values: &[&str]) -> BTreeSet<String> {
        values.iter().map(|v| (*v).to_owned()).collect()
    }

    fn selector(key: &str, operator: Operator) -> LabelSelector {
        LabelSelector {
            requirements: vec![Requirement {
                key: key.to_owned(),
                operator,
            }],
        }
    }

    #[test]
    fn matches_as_kubernetes_does() {
        let pod = BTreeMap::from([("role".to_owned(), "apiserver".to_owned())]);
        for (selector, matches) in [
            (
                selector("role", Operator::In(set(&["apiserver", "main"]))),
                true,
            ),
            (selector("role", Operator::In(set(&["main"]))), false),
            (selector("app", Operator::In(set(&["main"]))), false),
            (selector("role", Operator::NotIn(set(&["main"]))), true),
            (
                selector("role", Operator::NotIn(set(&["apiserver"]))),
                false,
            ),
            (selector("app", Operator::NotIn(set(&["main"]))), true),
            (selector("role", Operator::Exists), true),
            (selector("app", Operator::Exists), false),
            (selector("role", Operator::DoesNotExist), false),
            (selector("app", Operator::DoesNotExist), true),
        ] {
            assert_eq!(selector.matches(&pod), matches, "{selector}");
        }
    }

    #[test]
    fn prints_as_the_api_takes_it() {
        let selector = LabelSelector {
            requirements: vec![
                Requirement {
                    key: "a/b".to_owned(),
                    operator: Operator::In(set(&["x", "y"])),
                },
                Requirement {
                    key: "c".to_owned(),
                    operator: Operator::NotIn(set(&["z"])),
                },
                Requirement {
                    key: "d".to_owned(),
                    operator: Operator::Exists,
                },
                Requirement {
                    key: "e".to_owned(),
                    operator: Operator::DoesNotExist,
                },
            ],
        };
        assert_eq!(selector.to_string(), "a/b in (x,y),c notin (z),d,!e");
    }
}
