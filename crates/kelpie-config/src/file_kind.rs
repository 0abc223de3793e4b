//! Detects files of another kind, which get one clear error instead of one for every key.

use crate::Strictness;
use crate::problem::{self, ConfigProblem};
use crate::schema::{MapSchema, SchemaKey, key};
use crate::yaml::{YamlContent, YamlEntry, YamlNode};

/// The kinds of configuration files with the keys that only they have.
const FILES: &[(&str, &[SchemaKey])] = &[
    (
        "prober",
        &[
            key("kubeConfigSecretName").or("internalKubeConfigSecretName"),
            key("dependentResourceInfos"),
        ],
    ),
    ("weeder", &[key("servicesAndDependantSelectors")]),
];

/// Returns the problem of a file that is not of the kind that `schema` describes. A file with keys
/// of both kinds passes; its keys are checked one by one.
pub(crate) fn check(root: &YamlNode, schema: &MapSchema) -> Option<ConfigProblem> {
    let YamlContent::Map(entries) = &root.content else {
        return None;
    };
    let (own, other): (Vec<_>, Vec<_>) = FILES
        .iter()
        .filter(|(_, keys)| has_one_of(keys, entries))
        .partition(|(_, keys)| schema.keys.iter().any(|key| key.name == keys[0].name));
    if !own.is_empty() {
        return None;
    }
    let about = |message| ConfigProblem::error(root.position, "", message);
    if let Some((name, _)) = other.first() {
        let problem = about(format!("the file looks like a {name} file"));
        return Some(problem.hint(format!("check it with `kelpie check-config {name}`")));
    }
    let kind = object_kind(entries)?;
    let display = problem::truncated(kind);
    let advice = match kind {
        "ConfigMap" => "save the value of one of its `data` keys to a separate file",
        "Secret" => "decode the value of one of its `data` keys and save it to a separate file",
        _ => "save only the configuration to a separate file",
    };
    Some(
        about(format!("the file is a Kubernetes {display}"))
            .expected("the configuration itself")
            .hint(advice),
    )
}

fn has_one_of(keys: &[SchemaKey], entries: &[YamlEntry]) -> bool {
    entries.iter().any(|entry| {
        keys.iter()
            .any(|key| key.matches(&entry.key, Strictness::Lenient))
    })
}

/// Returns the kind if the entries are those of a Kubernetes object.
fn object_kind(entries: &[YamlEntry]) -> Option<&str> {
    let text = |name| {
        let entry = entries.iter().find(|entry| entry.key == name)?;
        match &entry.value.content {
            YamlContent::Scalar(scalar) if !scalar.text.is_empty() => Some(scalar.text.as_str()),
            _ => None,
        }
    };
    text("apiVersion").and(text("kind"))
}
