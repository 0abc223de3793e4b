//! The reference, `docs/reference/config.md`, lists exactly the keys that the parsers accept.

use serde_json::Value;

use crate::schema::MapSchema;
use crate::{Strictness, prober, weeder};

const PAGE: &str = include_str!("../../../docs/reference/config.md");

/// Returns the rows of each table of keys in page order: the names of a key and its default.
fn tables() -> Vec<Vec<(Vec<&'static str>, &'static str)>> {
    let mut tables = Vec::new();
    for line in PAGE.lines() {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        match cells.as_slice() {
            ["key", "default", ..] => tables.push(Vec::new()),
            [names, default, _, _] if names.starts_with('`') => {
                let names = names
                    .split(" or ")
                    .map(|name| name.trim_matches('`'))
                    .collect();
                tables
                    .last_mut()
                    .unwrap()
                    .push((names, default.trim_matches('`')));
            }
            _ => {}
        }
    }
    tables
}

#[test]
fn reference_lists_exactly_the_known_keys() {
    let known: Vec<&MapSchema> = prober::SCHEMAS
        .iter()
        .chain(weeder::SCHEMAS)
        .copied()
        .collect();
    let documented = tables();
    assert_eq!(known.len(), documented.len());
    for (schema, rows) in known.into_iter().zip(documented) {
        let documented: Vec<_> = rows.into_iter().map(|(names, _)| names).collect();
        let known: Vec<Vec<_>> = schema
            .keys
            .iter()
            .map(|key| key.names().collect())
            .collect();
        assert_eq!(documented, known, "{}", schema.location);
    }
}

#[test]
fn reference_lists_the_effective_defaults() {
    let prober = b"kubeConfigSecretName: a\ndependentResourceInfos: \
        [{ref: {apiVersion: v1, kind: A, name: a}, scaleUp: {}, scaleDown: {}}]";
    let prober = prober::parse(prober, Strictness::Strict).unwrap().value;
    let prober = serde_json::to_value(prober).unwrap();
    let target = &prober["dependentResourceInfos"][0];
    let guarded = prober::parse(b"{kubeConfigSecretName: a, guard: {}}", Strictness::Strict);
    let guarded = serde_json::to_value(guarded.unwrap().value).unwrap();
    let secrets = b"{source: {secrets: {labelSelector: {matchLabels: {a: b}}}}, guard: {}}";
    let secrets = prober::parse(secrets, Strictness::Strict).unwrap().value;
    let secrets = serde_json::to_value(secrets).unwrap();
    let weeder = b"servicesAndDependantSelectors: {a: {podSelectors: [{matchLabels: {a: b}}]}}";
    let weeder = weeder::parse(weeder, Strictness::Strict).unwrap().value;
    let weeder = serde_json::to_value(weeder).unwrap();
    let tables = tables();
    let pairs = [
        (0, &prober),
        (2, &secrets["source"]["secrets"]),
        (5, &guarded["guard"]),
        (6, &guarded["guard"]["zone"]),
        (7, target),
        (9, &target["scaleUp"]),
        (11, &weeder),
    ];
    for (index, effective) in pairs {
        for (names, default) in &tables[index] {
            let value = &effective[names[0]];
            let display = match value {
                Value::String(text) if text.is_empty() => "\"\"".to_owned(),
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let expected = match *default {
                "required" => continue,
                "off" | "unset" => value.is_null(),
                "see below" => value.is_object(),
                "nodeLeaseFailureFraction" => *value == effective["nodeLeaseFailureFraction"],
                text => text == display,
            };
            assert!(
                expected,
                "{}: {default} is documented, {value} is in effect",
                names[0]
            );
        }
    }
}

#[test]
fn reference_examples_are_valid() {
    let mut examples = PAGE
        .split("```yaml\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap());
    for _platform in ["Gardener", "Cluster API"] {
        let example = examples.next().unwrap();
        let prober = prober::parse(example.as_bytes(), Strictness::Strict).unwrap();
        assert_eq!(prober.warnings, []);
    }
    let weeder = weeder::parse(examples.next().unwrap().as_bytes(), Strictness::Strict).unwrap();
    assert_eq!(weeder.warnings, []);
}
