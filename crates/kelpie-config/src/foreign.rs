//! Files that are something else altogether: one clear word instead of one per key.

use crate::key::Table;
use crate::problem::{self, Problem};
use crate::yaml::{Content, Entry, Node};
use crate::{Strictness, prober, weeder};

/// The files there are, and the keys at their top.
const FILES: &[(&str, &Table)] = &[("prober", &prober::ROOT), ("weeder", &weeder::ROOT)];

/// What is to be said about a file that has no key of `table`, the one it was taken for. A file with
/// one stray key of its own is left to the reader of sections.
pub(crate) fn recognise(root: &Node, table: &Table) -> Option<Problem> {
    let Content::Map(entries) = &root.content else {
        return None;
    };
    if has_a_key_of(table, entries) {
        return None;
    }
    let about = |message| Problem::error(root.place, "", message);
    if let Some((name, _)) = FILES.iter().find(|(_, keys)| has_a_key_of(keys, entries)) {
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

fn has_a_key_of(table: &Table, entries: &[Entry]) -> bool {
    let is_known = |entry: &Entry| {
        let mut keys = table.keys.iter();
        keys.any(|key| key.is(&entry.key, Strictness::Lenient))
    };
    entries.iter().any(is_known)
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
