//! Kubernetes label selectors.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;

use crate::name_format;
use crate::parse::Section;
use crate::problem::ConfigProblem;
use crate::schema::{MapSchema, SchemaKey, Shape, key};
use crate::value::ConfigValue;

/// A label selector. It matches objects that meet every requirement, and has at least one.
///
/// Serializes as `matchExpressions`, which can express every selector.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LabelSelector {
    /// The requirements in file order, those of `matchLabels` first.
    #[serde(rename = "matchExpressions")]
    pub requirements: Vec<LabelRequirement>,
}

/// A requirement on one label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LabelRequirement {
    /// The key of the label.
    pub key: String,
    /// The condition that the label must meet.
    #[serde(flatten)]
    pub operator: LabelOperator,
}

/// The condition of a requirement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "operator", content = "values")]
pub enum LabelOperator {
    /// The label exists with one of these values.
    In(BTreeSet<String>),
    /// The label does not exist, or has none of these values.
    NotIn(BTreeSet<String>),
    /// The label exists with any value.
    Exists,
    /// The label does not exist.
    DoesNotExist,
}

impl LabelSelector {
    /// Returns the requirements that all of these selectors have; `None` if there are none. What
    /// one of the selectors matches, the result matches too.
    pub fn shared<'a>(selectors: impl IntoIterator<Item = &'a Self>) -> Option<Self> {
        let mut selectors = selectors.into_iter();
        let mut requirements = selectors.next()?.requirements.clone();
        for selector in selectors {
            requirements.retain(|requirement| selector.requirements.contains(requirement));
        }
        (!requirements.is_empty()).then_some(Self { requirements })
    }

    /// Returns true if the selector matches an object with these labels.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.requirements.iter().all(|requirement| {
            let value = labels.get(&requirement.key);
            match &requirement.operator {
                LabelOperator::In(values) => value.is_some_and(|value| values.contains(value)),
                LabelOperator::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
                LabelOperator::Exists => value.is_some(),
                LabelOperator::DoesNotExist => value.is_none(),
            }
        })
    }
}

/// Displays the form that the Kubernetes API accepts as `labelSelector`: `role in (a,b),!legacy`.
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

impl fmt::Display for LabelRequirement {
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
            LabelOperator::In(values) => write!(f, "{key} in ({})", list(values)),
            LabelOperator::NotIn(values) => write!(f, "{key} notin ({})", list(values)),
            LabelOperator::Exists => f.write_str(key),
            LabelOperator::DoesNotExist => write!(f, "!{key}"),
        }
    }
}

pub(crate) const SELECTOR: MapSchema = MapSchema {
    location: "in a selector under `podSelectors`",
    expected: "a map with matchLabels or matchExpressions",
    keys: &SELECTOR_KEYS,
    removed: &[],
};

/// The keys of every selector.
pub(crate) const SELECTOR_KEYS: [SchemaKey; 2] = [
    key("matchLabels").shaped(Shape::ScalarMap),
    key("matchExpressions").shaped(Shape::ListOf(&EXPRESSION)),
];

pub(crate) const EXPRESSION: MapSchema = MapSchema {
    location: "in an entry of `matchExpressions`",
    expected: "a map with key, operator and, for In and NotIn, values",
    keys: &[
        key("key"),
        key("operator").shaped(Shape::Choice(&["In", "NotIn", "Exists", "DoesNotExist"])),
        key("values").shaped(Shape::Scalars),
    ],
    removed: &[],
};

/// Parses a selector. One that would match every object is rejected with the message `empty`.
pub(crate) fn parse(
    value: ConfigValue<'_>,
    schema: &'static MapSchema,
    empty: &str,
) -> Option<LabelSelector> {
    let (path, position) = (value.path.clone(), value.key_position);
    let section = value.section(schema)?;
    let requirements = requirements(&section);
    if requirements.is_none() {
        let problem = ConfigProblem::error(position, &path, empty);
        section
            .context
            .report(problem.expected("matchLabels or matchExpressions with an entry"));
    }
    Some(LabelSelector {
        requirements: requirements.unwrap_or_default(),
    })
}

/// Reads the valid requirements of a selector. Returns `None` if it has no entries.
pub(crate) fn requirements(section: &Section<'_>) -> Option<Vec<LabelRequirement>> {
    let labels = section.get("matchLabels");
    let labels = labels.map_or(Some(Vec::new()), |v| v.entries("a map of labels"));
    let expressions = section.get("matchExpressions");
    let expressions = expressions.map_or(Some(Vec::new()), |v| v.items("a list of expressions"));
    let is_empty = labels.as_ref().is_some_and(Vec::is_empty)
        && expressions.as_ref().is_some_and(Vec::is_empty);
    let mut requirements = Vec::new();
    for (key, value) in labels.unwrap_or_default() {
        requirements.extend(label(key, &value));
    }
    for item in expressions.unwrap_or_default() {
        requirements.extend(
            item.section(&EXPRESSION)
                .and_then(|section| expression(&section)),
        );
    }
    (!is_empty).then_some(requirements)
}

fn label(key: &str, value: &ConfigValue<'_>) -> Option<LabelRequirement> {
    let good_key = value.check_key("key", key, &name_format::LABEL_KEY);
    let text = value.formatted(&name_format::LABEL_VALUE)?;
    good_key.then(|| LabelRequirement {
        key: key.to_owned(),
        operator: LabelOperator::In(BTreeSet::from([text.to_owned()])),
    })
}

fn expression(section: &Section<'_>) -> Option<LabelRequirement> {
    const OPERATORS: [&str; 4] = ["In", "NotIn", "Exists", "DoesNotExist"];
    let key = section.require_name("key", &name_format::LABEL_KEY);
    let name = section
        .require("operator", "one of In, NotIn, Exists, DoesNotExist")
        .and_then(|v| v.choice(&OPERATORS.map(|name| (name, name))));
    let values = section.get("values");
    let operator = match name? {
        "In" => LabelOperator::In(some_values(section)),
        "NotIn" => LabelOperator::NotIn(some_values(section)),
        name => {
            if let Some(values) = values
                && values
                    .items("no values with this operator")
                    .is_some_and(|v| !v.is_empty())
            {
                values.reject("no values with the operators Exists and DoesNotExist");
            }
            if name == "Exists" {
                LabelOperator::Exists
            } else {
                LabelOperator::DoesNotExist
            }
        }
    };
    Some(LabelRequirement {
        key: key?.to_owned(),
        operator,
    })
}

/// Returns the values of `In` and `NotIn`, which require at least one.
fn some_values(section: &Section<'_>) -> BTreeSet<String> {
    const EXPECTED: &str = "a list of at least one label value";
    let items = section.require_items("values", EXPECTED);
    items
        .iter()
        .filter_map(|v| v.formatted(&name_format::LABEL_VALUE))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(values: &[&str]) -> BTreeSet<String> {
        values.iter().map(|v| (*v).to_owned()).collect()
    }

    fn selector(key: &str, operator: LabelOperator) -> LabelSelector {
        LabelSelector {
            requirements: vec![LabelRequirement {
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
                selector("role", LabelOperator::In(set(&["apiserver", "main"]))),
                true,
            ),
            (selector("role", LabelOperator::In(set(&["main"]))), false),
            (selector("app", LabelOperator::In(set(&["main"]))), false),
            (selector("role", LabelOperator::NotIn(set(&["main"]))), true),
            (
                selector("role", LabelOperator::NotIn(set(&["apiserver"]))),
                false,
            ),
            (selector("app", LabelOperator::NotIn(set(&["main"]))), true),
            (selector("role", LabelOperator::Exists), true),
            (selector("app", LabelOperator::Exists), false),
            (selector("role", LabelOperator::DoesNotExist), false),
            (selector("app", LabelOperator::DoesNotExist), true),
        ] {
            assert_eq!(selector.matches(&pod), matches, "{selector}");
        }
    }

    #[test]
    fn shared_requirements_match_what_each_matches() {
        let requirements = |selectors: &[LabelSelector]| LabelSelector {
            requirements: selectors
                .iter()
                .flat_map(|selector| selector.requirements.clone())
                .collect(),
        };
        let role = selector("role", LabelOperator::In(set(&["controlplane"])));
        let api = selector("app", LabelOperator::In(set(&["api"])));
        let other = selector("app", LabelOperator::NotIn(set(&["api"])));
        let selectors = [
            requirements(&[role.clone(), api.clone()]),
            requirements(&[other.clone(), role.clone()]),
        ];
        assert_eq!(LabelSelector::shared(&selectors), Some(role));
        assert_eq!(LabelSelector::shared([&api]), Some(api.clone()));
        assert_eq!(LabelSelector::shared([&api, &other]), None);
        assert_eq!(LabelSelector::shared([]), None);
    }

    #[test]
    fn displays_in_api_syntax() {
        let selector = LabelSelector {
            requirements: vec![
                LabelRequirement {
                    key: "a/b".to_owned(),
                    operator: LabelOperator::In(set(&["x", "y"])),
                },
                LabelRequirement {
                    key: "c".to_owned(),
                    operator: LabelOperator::NotIn(set(&["z"])),
                },
                LabelRequirement {
                    key: "d".to_owned(),
                    operator: LabelOperator::Exists,
                },
                LabelRequirement {
                    key: "e".to_owned(),
                    operator: LabelOperator::DoesNotExist,
                },
            ],
        };
        assert_eq!(selector.to_string(), "a/b in (x,y),c notin (z),d,!e");
    }
}
