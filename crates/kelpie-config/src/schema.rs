//! The keys that are allowed in each map of a file, and suggestions for misspelt ones.

use crate::Strictness;

/// The keys of one kind of map.
#[derive(Debug)]
pub(crate) struct MapSchema {
    /// The place of the map in the file, as hints word it: "it belongs …".
    pub location: &'static str,
    /// The description of the map in messages: "expected …".
    pub expected: &'static str,
    pub keys: &'static [SchemaKey],
    /// Keys of older releases, each with a hint on what replaced it.
    pub removed: &'static [(&'static str, &'static str)],
}

/// A key that a map may contain.
#[derive(Debug)]
pub(crate) struct SchemaKey {
    pub name: &'static str,
    /// A second accepted spelling.
    pub alias: Option<&'static str>,
    pub shape: Shape,
}

/// The shape of a value, as far as editors and Helm can check it from outside.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    /// A single value.
    Scalar,
    /// One of these strings.
    Choice(&'static [&'static str]),
    /// A list of single values.
    Scalars,
    /// A map whose keys are data, of single values.
    ScalarMap,
    /// A map without keys.
    EmptyMap,
    Map(&'static MapSchema),
    ListOf(&'static MapSchema),
    /// A map whose keys are data, of maps.
    MapOf(&'static MapSchema),
}

pub(crate) const fn key(name: &'static str) -> SchemaKey {
    SchemaKey {
        name,
        alias: None,
        shape: Shape::Scalar,
    }
}

impl SchemaKey {
    pub(crate) const fn or(mut self, alias: &'static str) -> Self {
        self.alias = Some(alias);
        self
    }

    pub(crate) const fn shaped(mut self, shape: Shape) -> Self {
        self.shape = shape;
        self
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.alias)
    }

    pub(crate) fn matches(&self, input: &str, strictness: Strictness) -> bool {
        self.names().any(|name| match strictness {
            Strictness::Strict => name == input,
            Strictness::Lenient => name.eq_ignore_ascii_case(input),
        })
    }
}

/// Joins the names of keys for use in a message.
pub(crate) fn list(keys: &[SchemaKey]) -> String {
    keys.iter()
        .map(|key| key.name)
        .collect::<Vec<_>>()
        .join(", ")
}

/// Returns the candidate that `input` is most likely a misspelling of, if any is close enough.
pub(crate) fn closest<'a>(
    input: &str,
    candidates: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    const MAX_LENGTH: usize = 60;
    if input.len() > MAX_LENGTH {
        return None;
    }
    let lower = input.to_lowercase();
    candidates
        .filter_map(|candidate| {
            // One edit in a short word, one per four characters in a longer one.
            let max_edits = (candidate.len() / 4).max(1);
            if candidate.len().abs_diff(lower.len()) > max_edits {
                return None;
            }
            let distance = strsim::osa_distance(&lower, &candidate.to_lowercase());
            (distance <= max_edits).then_some((distance, candidate))
        })
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}
