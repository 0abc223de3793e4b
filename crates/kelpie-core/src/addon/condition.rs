//! An entry of `status.conditions`.

use serde::{Deserialize, Serialize};

use super::{ConditionReason, TransitionTime, lenient};

const TRUE: &str = "True";
const FALSE: &str = "False";

/// A condition as stored in the API server. Fields that are missing or unreadable are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// The condition's type, unique within the list.
    #[serde(rename = "type", deserialize_with = "lenient::value")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    #[serde(deserialize_with = "lenient::value")]
    pub status: String,
    /// The cause as one CamelCase word, for programs. [`Condition::reason`] parses it.
    #[serde(deserialize_with = "lenient::value")]
    pub reason: String,
    /// The cause in words, for people.
    #[serde(deserialize_with = "lenient::value")]
    pub message: String,
    /// The time of the last transition. A component's condition transitions when its reason
    /// changes, a standard condition when its status flips.
    #[serde(deserialize_with = "lenient::value")]
    pub last_transition_time: TransitionTime,
    /// Set by other writers. It is kept, and ignored in comparisons.
    #[serde(
        deserialize_with = "lenient::value",
        skip_serializing_if = "Option::is_none"
    )]
    pub observed_generation: Option<i64>,
}

impl Condition {
    /// Returns the first condition of a type, which is added if it is missing.
    pub(super) fn entry<'a>(conditions: &'a mut Vec<Self>, condition_type: &str) -> &'a mut Self {
        let found = conditions.iter().position(|it| it.type_ == condition_type);
        let index = found.unwrap_or_else(|| {
            conditions.push(Self {
                type_: condition_type.to_owned(),
                ..Self::default()
            });
            conditions.len() - 1
        });
        &mut conditions[index]
    }

    /// Parses the reason. Reasons that are not a component's are `Unknown`.
    pub fn reason(&self) -> ConditionReason {
        ConditionReason::parse(&self.reason)
    }

    /// Returns true if the status is `True`.
    pub fn is_true(&self) -> bool {
        self.status == TRUE
    }

    /// Sets the status to `True` or `False`. Returns true if it changed.
    pub(super) fn set_status(&mut self, value: bool) -> bool {
        let status = if value { TRUE } else { FALSE };
        let changed = self.status != status;
        status.clone_into(&mut self.status);
        changed
    }

    /// Compares everything but `observedGeneration` and the spelling of the time.
    pub fn is_equivalent<'a>(&'a self, other: &'a Self) -> bool {
        let text = |it: &'a Self| (&it.type_, &it.status, &it.reason, &it.message);
        let (since, other_since) = (&self.last_transition_time, &other.last_transition_time);
        text(self) == text(other) && since.is_same_second(other_since)
    }
}
