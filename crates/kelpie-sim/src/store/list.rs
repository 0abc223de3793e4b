//! Lists: paged, and as of past versions.

use serde_json::json;

use super::body::{ObjectKey, ObjectRevision};
use super::state::{StoreState, StoredObject};
use crate::kind::ResourceKind;
use crate::selector::ObjectSelector;
use crate::status_error::{StatusError, StatusReason};

/// The page and version of a list request.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListOptions {
    /// The page size; 0 means no limit.
    pub(crate) limit: usize,
    /// The last key of the previous page.
    pub(crate) continue_after: Option<ObjectKey>,
    pub(crate) version_match: VersionMatch,
}

/// The version that a list must have, like `resourceVersionMatch`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum VersionMatch {
    #[default]
    Latest,
    /// Exactly this version, even if it is past.
    Exact(u64),
    /// This version or a newer one.
    NotOlderThan(u64),
}

/// One page of a list.
#[derive(Debug)]
pub(crate) struct ListPage {
    pub(crate) objects: Vec<StoredObject>,
    /// The version of the list.
    pub(crate) version: u64,
    /// The number of objects after this page.
    pub(crate) remaining: usize,
}

impl StoreState {
    pub(crate) fn list(
        &self,
        kind: &ResourceKind,
        selector: &ObjectSelector,
        options: &ListOptions,
    ) -> Result<ListPage, StatusError> {
        let version = match options.version_match {
            VersionMatch::Latest => self.version,
            VersionMatch::NotOlderThan(version) if version <= self.version => self.version,
            VersionMatch::Exact(version) if version <= self.version => version,
            VersionMatch::NotOlderThan(version) | VersionMatch::Exact(version) => {
                return Err(too_large(version, self.version));
            }
        };
        let past = match self.collection(&kind.storage) {
            Some(collection) if version != self.version => {
                let objects = collection.objects_at(version);
                Some(objects.ok_or_else(|| too_old(options))?)
            }
            _ => None,
        };
        let objects: Box<dyn Iterator<Item = (&ObjectKey, &ObjectRevision)>> = match &past {
            Some(objects) => Box::new(objects.iter()),
            None => Box::new(self.in_namespace(kind, selector.namespace())),
        };
        let continue_after = options.continue_after.as_ref();
        let mut objects = objects.filter(|(key, revision)| {
            continue_after.is_none_or(|continue_after| *key > continue_after)
                && selector.matches(key, || revision.to_value(key, kind))
        });
        let limit = Some(options.limit).filter(|limit| *limit > 0);
        let stored = objects.by_ref().take(limit.unwrap_or(usize::MAX));
        let stored = stored.map(|(key, revision)| StoredObject {
            key: ObjectKey::clone(key),
            revision: revision.clone(),
        });
        Ok(ListPage {
            objects: stored.collect(),
            version,
            remaining: objects.count(),
        })
    }
}

fn too_old(options: &ListOptions) -> StatusError {
    StatusError::expired(match options.continue_after {
        Some(_) => {
            "The provided continue parameter is too old to display a consistent list result. You \
             can start a new list without the continue parameter."
        }
        None => "The resourceVersion for the provided list is too old.",
    })
}

fn too_large(version: u64, current: u64) -> StatusError {
    let message = format!("Too large resource version: {version}, current: {current}");
    let details = json!({
        "causes": [{
            "reason": "ResourceVersionTooLarge",
            "message": "Too large resource version",
        }],
        "retryAfterSeconds": 1,
    });
    StatusError::with_details(StatusReason::Timeout, message, &details)
}
