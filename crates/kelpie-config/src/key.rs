//! Which keys may stand where, and which one a slip of the pen was meant to be.

use crate::Strictness;

/// The keys that may stand at one place of a file.
#[derive(Debug)]
pub(crate) struct Table {
    /// How messages and the reference call the place.
    pub place: &'static str,
    /// What has to stand there.
    pub expected: &'static str,
    pub keys: &'static [Key],
    /// Keys of older files and what to do about them.
    pub retired: &'static [(&'static str, &'static str)],
}

/// A setting.
#[derive(Debug)]
pub(crate) struct Key {
    pub name: &'static str,
    /// Another spelling that means the same.
    pub alias: Option<&'static str>,
}

pub(crate) const fn key(name: &'static str) -> Key {
    Key { name, alias: None }
}

impl Key {
    pub(crate) const fn or(mut self, alias: &'static str) -> Self {
        self.alias = Some(alias);
        self
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.alias)
    }

    pub(crate) fn is(&self, written: &str, strictness: Strictness) -> bool {
        self.names().any(|name| match strictness {
            Strictness::Strict => name == written,
            Strictness::Lenient => name.eq_ignore_ascii_case(written),
        })
    }
}

/// The names of keys, for a sentence.
pub(crate) fn list(keys: &[Key]) -> String {
    keys.iter()
        .map(|key| key.name)
        .collect::<Vec<_>>()
        .join(", ")
}

/// The candidate that `written` is most likely a slip of, if any is close enough.
pub(crate) fn closest<'a>(
    written: &str,
    candidates: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    const LONGEST: usize = 60;
    if written.len() > LONGEST {
        return None;
    }
    let lower = written.to_lowercase();
    candidates
        .filter_map(|candidate| {
            // One slip in short words, one in four characters of long ones.
            let slips = (candidate.len() / 4).max(1);
            if candidate.len().abs_diff(lower.len()) > slips {
                return None;
            }
            let distance = strsim::osa_distance(&lower, &candidate.to_lowercase());
            (distance <= slips).then_some((distance, candidate))
        })
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}
