//! Lists, in pages and of the past.

use super::body::{Key, Stored};
use super::state::{Kept, State};
use crate::kind::Kind;
use crate::refusal::{Reason, Refusal};
use crate::selection::Selection;

/// Which part of a list is wanted, and as of when.
#[derive(Clone, Debug, Default)]
pub(crate) struct Paging {
    /// At most so many; zero: all.
    pub(crate) limit: usize,
    /// After this key.
    pub(crate) after: Option<Key>,
    pub(crate) since: Since,
}

/// As of when a list is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Since {
    #[default]
    Now,
    /// At exactly this version.
    Exactly(u64),
    /// Not before this version.
    NotBefore(u64),
}

/// One page of a list.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) objects: Vec<Kept>,
    /// What they are like at this version.
    pub(crate) version: u64,
    /// There are so many more.
    pub(crate) left: usize,
}

impl State {
    pub(crate) fn list(
        &self,
        kind: &Kind,
        selection: &Selection,
        paging: &Paging,
    ) -> Result<Page, Refusal> {
        let version = match paging.since {
            Since::Now => self.version,
            Since::NotBefore(version) if version <= self.version => self.version,
            Since::Exactly(version) if version <= self.version => version,
            Since::NotBefore(version) | Since::Exactly(version) => {
                return Err(too_large(version, self.version));
            }
        };
        let past = match (version == self.version, self.shelf(&kind.shelf)) {
            (false, Some(shelf)) => Some(shelf.at(version).ok_or_else(|| outdated(paging))?),
            _ => None,
        };
        let objects: Box<dyn Iterator<Item = (&Key, &Stored)>> = match &past {
            Some(objects) => Box::new(objects.iter()),
            None => Box::new(self.within(kind, selection.namespace())),
        };
        let after = paging.after.as_ref();
        let mut objects = objects.filter(|(key, stored)| {
            after.is_none_or(|after| *key > after)
                && selection.admits(key, || stored.value(key, kind))
        });
        let most = if paging.limit == 0 {
            usize::MAX
        } else {
            paging.limit
        };
        let kept = objects.by_ref().take(most).map(|(key, stored)| Kept {
            key: Key::clone(key),
            stored: stored.clone(),
        });
        Ok(Page {
            objects: kept.collect(),
            version,
            left: objects.count(),
        })
    }
}

fn outdated(paging: &Paging) -> Refusal {
    Refusal::expired(match paging.after {
        Some(_) => {
            "The provided continue parameter is too old to display a consistent list result. You \
             can start a new list without the continue parameter."
        }
        None => "The resourceVersion for the provided list is too old.",
    })
}

fn too_large(version: u64, present: u64) -> Refusal {
    let message = format!("Too large resource version: {version}, current: {present}");
    let mut refusal = Refusal::new(Reason::Timeout, message);
    let cause = serde_json::json!({
        "causes": [{
            "reason": "ResourceVersionTooLarge",
            "message": "Too large resource version",
        }],
        "retryAfterSeconds": 1,
    });
    refusal.details = cause.as_object().cloned();
    refusal
}
