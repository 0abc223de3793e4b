//! One entry of `status.conditions`.

use serde::{Deserialize, Serialize};

use super::{Reason, Stamp};

const TRUE: &str = "True";
const FALSE: &str = "False";

/// A condition as the API server keeps it. Fields that are absent are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// What it is about; unique in its list.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Why, as one word for machines.
    pub reason: String,
    /// Why, for people.
    pub message: String,
    /// When it last became what it is.
    pub last_transition_time: Stamp,
    /// Of others: kept, never judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

impl Condition {
    pub(super) fn new(kind: &str) -> Self {
        Self {
            kind: kind.to_owned(),
            ..Self::default()
        }
    }

    /// Its reason, if it is one of a component's.
    pub fn reason(&self) -> Reason {
        Reason::read(&self.reason)
    }

    /// Whether it holds.
    pub fn is_true(&self) -> bool {
        self.status == TRUE
    }

    /// Makes it hold or not. True if that is a change.
    pub(super) fn flip(&mut self, holds: bool) -> bool {
        let status = if holds { TRUE } else { FALSE };
        let flips = self.status != status;
        status.clone_into(&mut self.status);
        flips
    }

    /// Whether a reader would take both for the same.
    pub fn is_same(&self, other: &Self) -> bool {
        let words = |of: &Self| {
            let Self {
                kind,
                status,
                reason,
                message,
                ..
            } = of.clone();
            (kind, status, reason, message)
        };
        words(self) == words(other)
            && self
                .last_transition_time
                .is_same(&other.last_transition_time)
    }
}
