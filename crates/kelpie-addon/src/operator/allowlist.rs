//! Allowlists of metrics.

use std::collections::{BTreeMap, BTreeSet};

use kelpie_core::addon::AddonComponent;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// The size limit of a list in bytes. No list written by hand is near it.
const MAX_SIZE: usize = 1 << 20;

/// An allowlist as parsed from YAML.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AllowlistYaml {
    names: Vec<String>,
    matches: Vec<String>,
    renames: BTreeMap<String, String>,
    recording_rules: Vec<AllowlistRule>,
    /// The old name of `recording_rules`.
    rules: Vec<AllowlistRule>,
    collect_rules: Vec<IgnoredAny>,
}

/// The used fields of the `ConfigMap` with the lists.
#[derive(Deserialize)]
struct AllowlistConfigMap {
    kind: String,
    #[serde(default)]
    data: BTreeMap<String, String>,
}

/// A recording rule: a query whose result is collected under a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct AllowlistRule {
    /// The name of the resulting series.
    pub record: String,
    /// The query, in `PromQL`.
    pub expr: String,
}

/// The metrics that one collector collects, sorted and without duplicates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowlist {
    /// Series selectors, with braces.
    pub matches: BTreeSet<String>,
    /// New names by old names.
    pub renames: BTreeMap<String, String>,
    /// Recording rules, evaluated as instant queries.
    pub rules: BTreeSet<AllowlistRule>,
    /// True if the list has `collect_rules`, which would collect more metrics while a condition
    /// holds. They are not supported and have no effect.
    pub has_collect_rules: bool,
}

impl Allowlist {
    /// Merges the default list and the custom list. An entry of the custom list that starts with a
    /// dash removes the default entry. A custom list that cannot be parsed is ignored; its problem
    /// is returned beside the list.
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

    /// Parses a file with a list, or with a `ConfigMap` that has the lists of both collectors.
    pub fn read_file(text: &str, component: AddonComponent) -> Result<Self, String> {
        let key = config_map_key(component);
        let read = match yaml::<AllowlistConfigMap>(text) {
            Ok(Some(map)) if map.kind == "ConfigMap" => {
                let list = map.data.get(key);
                let list = list.ok_or_else(|| format!("the ConfigMap has no key {key}"))?;
                Self::read(list, None)
            }
            _ => Self::read(text, None),
        };
        Ok(read?.0)
    }

    /// Returns true if nothing would be collected.
    pub fn is_empty(&self) -> bool {
        self.matches.is_empty() && self.rules.is_empty()
    }
}

/// Returns the key of a collector's list in the `ConfigMap`.
pub(super) const fn config_map_key(component: AddonComponent) -> &'static str {
    match component {
        AddonComponent::Platform => "metrics_list.yaml",
        AddonComponent::Uwl => "uwl_metrics_list.yaml",
    }
}

fn parse(text: &str) -> Result<AllowlistYaml, String> {
    Ok(yaml::<AllowlistYaml>(text)?.unwrap_or_default())
}

fn yaml<T: for<'de> Deserialize<'de>>(text: &str) -> Result<Option<T>, String> {
    if text.len() > MAX_SIZE {
        return Err("it is larger than 1 MiB".to_owned());
    }
    serde_saphyr::from_str(text).map_err(|error| first_line(&error.to_string()))
}

/// Returns the first line of an error. The parser quotes the source in further lines.
fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim().to_owned()
}

fn merged(default: Vec<String>, custom: Vec<String>) -> BTreeSet<String> {
    let mut entries: BTreeSet<String> = default.into_iter().collect();
    for entry in custom {
        match entry.strip_prefix('-') {
            Some(removed) => {
                entries.remove(removed);
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
    fn list_becomes_unique_selectors() {
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
    fn custom_list_adds_and_removes() {
        let custom = "{names: [-up, c], rules: [{record: s, expr: up}]}";
        let (list, _) = Allowlist::read(DEFAULT, Some(custom)).unwrap();
        assert!(!list.matches.contains("{__name__=\"up\"}"));
        assert!(list.matches.contains("{__name__=\"c\"}"));
        assert_eq!(list.rules.len(), 2);
    }

    #[test]
    fn broken_custom_list_is_ignored() {
        assert!(Allowlist::read("names: {", None).is_err());
        let (list, problem) = Allowlist::read(DEFAULT, Some("names: 7")).unwrap();
        assert!(problem.is_some());
        assert_eq!(list, Allowlist::read(DEFAULT, None).unwrap().0);
    }

    #[test]
    fn unsupported_collect_rules_are_noticed() {
        let list = "names: [up]\ncollect_rules: [{group: g, rules: [{collect: c, expr: up}]}]\n";
        assert!(Allowlist::read(list, None).unwrap().0.has_collect_rules);
        let (list, _) = Allowlist::read(DEFAULT, Some(list)).unwrap();
        assert!(list.has_collect_rules);
    }

    #[test]
    fn file_is_a_list_or_config_map() {
        let platform = AddonComponent::Platform;
        let bare = Allowlist::read_file(DEFAULT, platform).unwrap();
        assert_eq!(bare, Allowlist::read(DEFAULT, None).unwrap().0);
        let map = "kind: ConfigMap\ndata:\n  metrics_list.yaml: |\n    names: [up]\n";
        let list = Allowlist::read_file(map, platform).unwrap();
        assert!(list.matches.contains("{__name__=\"up\"}"));
        let missing = Allowlist::read_file(map, AddonComponent::Uwl).unwrap_err();
        assert!(missing.contains("uwl_metrics_list.yaml"), "{missing}");
        assert!(Allowlist::read_file("names: {", platform).is_err());
    }

    #[test]
    fn empty_list_collects_nothing() {
        for text in ["", "names: []", "{}", "null"] {
            assert!(
                Allowlist::read(text, None).unwrap().0.is_empty(),
                "{text:?}"
            );
        }
    }
}
