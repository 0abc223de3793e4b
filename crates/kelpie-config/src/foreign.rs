//! Files that are something else altogether: one clear word instead of one per key.

use crate::Strictness;
use crate::key::{Key, Table, key};
use crate::problem::{self, Problem};
use crate::yaml::{Content, Entry, Node};

/// The files there are, and the keys that give them away: those that no other file has a use for.
const FILES: &[(&str, &[Key])] = &[
    (
        "prober",
        &[
            key("kubeConfigSecretName").or("internalKubeConfigSecretName"),
            key("dependentResourceInfos"),
        ],
    ),
    ("weeder", &[key("servicesAndDependantSelectors")]),
];

/// What is to be said about a file that was taken for one with the keys of `table`. One that has the
/// keys of both is left to the reader of sections.
pub(crate) fn recognise(root: &Node, table: &Table) -> Option<Problem> {
    let Content::Map(entries) = &root.content else {
        return None;
    };
    let (own, other): (Vec<_>, Vec<_>) = FILES
        .iter()
        .filter(|(_, keys)| has_one_of(keys, entries))
        .partition(|(_, keys)| table.keys.iter().any(|key| key.name == keys[0].name));
    if !own.is_empty() {
        return None;
    }
    let about = |message| Problem::error(root.place, "", message);
    if let Some((name, _)) = other.first() {
        let problem = about(format!("the file looks like a {name} file"));
        return Some(problem.hint(format!("check it with `kelpie check-config {name}`")));
    }
    let kind = object_kind(entries)?;
    let shown = problem::shortened(kind);
    let advice = match kind {
        "ConfigMap" => {
            "save the text that stands under one of its `data` keys to a file of its own"
        }
        "Secret" => {
            "decode what stands under one of its `data` keys and save it to a file of its own"
        }
        _ => "save the configuration alone to a file of its own",
    };
    Some(
        about(format!("the file is a Kubernetes {shown}"))
            .expected("the configuration itself")
            .hint(advice),
    )
}

fn has_one_of(keys: &[Key], entries: &[Entry]) -> bool {
    entries.iter().any(|entry| {
        keys.iter()
            .any(|key| key.is(&entry.key, Strictness::Lenient))
    })
}

/// The kind of a Kubernetes object.
fn object_kind(entries: &[Entry]) -> Option<&str> {
    let text = |name| {
        let entry = entries.iter().find(|entry| entry.key == name)?;
        match &entry.value.content {
            Content::Scalar(scalar) if !scalar.text.is_empty() => Some(scalar.text.as_str()),
            _ => None,
        }
    };
    text("apiVersion").and(text("kind"))
}
