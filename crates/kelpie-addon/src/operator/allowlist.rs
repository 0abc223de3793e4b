//! Which metrics are collected.

use std::collections::{BTreeMap, BTreeSet};

use kelpie_core::addon::Component;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// What a list may hold at most: no list that people write is near it.
const LARGEST: usize = 1 << 20;

/// The lists as they are written.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Written {
    names: Vec<String>,
    matches: Vec<String>,
    renames: BTreeMap<String, String>,
    recording_rules: Vec<Rule>,
    /// As `recording_rules` were called.
    rules: Vec<Rule>,
    collect_rules: Vec<IgnoredAny>,
}

/// What is used of the object that holds the lists.
#[derive(Deserialize)]
struct ConfigMap {
    kind: String,
    #[serde(default)]
    data: BTreeMap<String, String>,
}

/// A query whose result is collected under a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct Rule {
    /// The name.
    pub record: String,
    /// The query.
    pub expr: String,
}

/// What one collector collects, each once, in a fixed order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowlist {
    /// Selectors with their braces.
    pub matches: BTreeSet<String>,
    /// Old name to new name.
    pub renames: BTreeMap<String, String>,
    /// Queries whose results are collected.
    pub rules: BTreeSet<Rule>,
    /// Rules that would collect more while a condition holds: there are some, and nobody follows them.
    pub has_collect_rules: bool,
}

impl Allowlist {
    /// From the default list, with what the custom list adds; an entry of it that begins with a dash
    /// takes the default one away. An unusable custom list is as good as none, and is told.
    pub fn read(default: &str, custom: Option<&str>) -> Result<(Self, Option<String>), String> {
        let (mut default, mut problem) = (parse(default)?, None);
        let custom = custom.map(parse).transpose().unwrap_or_else(|error| {
            problem = Some(error);
            None
        });
        let custom = custom.unwrap_or_default();
        default.rules.append(&mut default.recording_rules);
        let has_collect_rules =
            !default.collect_rules.is_empty() || !custom.collect_rules.is_empty();
        let names = merged(default.names, custom.names);
        let matches = merged(default.matches, custom.matches);
        let names = names.iter().map(|name| format!("{{__name__={name:?}}}"));
        let matches = matches.iter().map(|inner| format!("{{{inner}}}"));
        let mut rules = default.rules;
        rules.extend(custom.rules);
        rules.extend(custom.recording_rules);
        let mut renames = default.renames;
        renames.extend(custom.renames);
        let list = Self {
            matches: names.chain(matches).collect(),
            renames,
            rules: rules.into_iter().collect(),
            has_collect_rules,
        };
        Ok((list, problem))
    }

    /// From a list, or from the `ConfigMap` that holds those of both collectors, as they stand in
    /// files.
    pub fn read_file(text: &str, component: Component) -> Result<Self, String> {
        let key = key(component);
        let read = match yaml::<ConfigMap>(text) {
            Ok(Some(map)) if map.kind == "ConfigMap" => {
                let list = map.data.get(key);
                let list = list.ok_or_else(|| format!("the ConfigMap has no key {key}"))?;
                Self::read(list, None)
            }
            _ => Self::read(text, None),
        };
        Ok(read?.0)
    }

    /// Nothing would be collected.
    pub fn is_empty(&self) -> bool {
        self.matches.is_empty() && self.rules.is_empty()
    }
}

/// Where a collector's list stands in the `ConfigMap`.
pub(super) const fn key(component: Component) -> &'static str {
    match component {
        Component::Platform => "metrics_list.yaml",
        Component::Uwl => "uwl_metrics_list.yaml",
    }
}

fn parse(text: &str) -> Result<Written, String> {
    Ok(yaml::<Written>(text)?.unwrap_or_default())
}

fn yaml<T: for<'de> Deserialize<'de>>(text: &str) -> Result<Option<T>, String> {
    if text.len() > LARGEST {
        return Err("it is larger than 1 MiB".to_owned());
    }
    serde_saphyr::from_str(text).map_err(|error| first_line(&error.to_string()))
}

/// The parser draws the place below.
fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim().to_owned()
}

fn merged(default: Vec<String>, custom: Vec<String>) -> BTreeSet<String> {
    let mut entries: BTreeSet<String> = default.into_iter().collect();
    for entry in custom {
        match entry.strip_prefix('-') {
            Some(taken) => {
                entries.remove(taken);
            }
            None => {
                entries.insert(entry);
            }
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULT: &str = "\
names: [up, b, up]
matches: ['__name__=~\"a.*\"']
renames: {old: new}
recording_rules: [{record: r, expr: sum(up)}]
";

    #[test]
    fn a_list_becomes_selectors_each_once() {
        let (list, problem) = Allowlist::read(DEFAULT, None).unwrap();
        let matches: Vec<&str> = list.matches.iter().map(String::as_str).collect();
        let expected = [
            "{__name__=\"b\"}",
            "{__name__=\"up\"}",
            "{__name__=~\"a.*\"}",
        ];
        assert_eq!(matches, expected);
        assert_eq!(list.renames["old"], "new");
        assert_eq!(list.rules.first().unwrap().record, "r");
        assert_eq!(problem, None);
    }

    #[test]
    fn a_custom_list_adds_and_takes_away() {
        let custom = "{names: [-up, c], rules: [{record: s, expr: up}]}";
        let (list, _) = Allowlist::read(DEFAULT, Some(custom)).unwrap();
        assert!(!list.matches.contains("{__name__=\"up\"}"));
        assert!(list.matches.contains("{__name__=\"c\"}"));
        assert_eq!(list.rules.len(), 2);
    }

    #[test]
    fn a_broken_default_is_an_error_and_a_broken_custom_list_is_told() {
        assert!(Allowlist::read("names: {", None).is_err());
        let (list, problem) = Allowlist::read(DEFAULT, Some("names: 7")).unwrap();
        assert!(problem.is_some());
        assert_eq!(list, Allowlist::read(DEFAULT, None).unwrap().0);
    }

    #[test]
    fn rules_that_nobody_follows_are_noticed() {
        let list = "names: [up]\ncollect_rules: [{group: g, rules: [{collect: c, expr: up}]}]\n";
        assert!(Allowlist::read(list, None).unwrap().0.has_collect_rules);
        let (list, _) = Allowlist::read(DEFAULT, Some(list)).unwrap();
        assert!(list.has_collect_rules);
    }

    #[test]
    fn a_file_is_a_list_or_the_object_that_holds_it() {
        let platform = Component::Platform;
        let bare = Allowlist::read_file(DEFAULT, platform).unwrap();
        assert_eq!(bare, Allowlist::read(DEFAULT, None).unwrap().0);
        let map = "kind: ConfigMap\ndata:\n  metrics_list.yaml: |\n    names: [up]\n";
        let list = Allowlist::read_file(map, platform).unwrap();
        assert!(list.matches.contains("{__name__=\"up\"}"));
        let missing = Allowlist::read_file(map, Component::Uwl).unwrap_err();
        assert!(missing.contains("uwl_metrics_list.yaml"), "{missing}");
        assert!(Allowlist::read_file("names: {", platform).is_err());
    }

    #[test]
    fn an_empty_list_collects_nothing() {
        for text in ["", "names: []", "{}", "null"] {
            assert!(
                Allowlist::read(text, None).unwrap().0.is_empty(),
                "{text:?}"
            );
        }
    }
}
