//! The state of a target as it was last read.

use std::cmp::Ordering;
use std::ops::Not;

use serde::{Deserialize, Serialize};

use crate::prober::target::Setting;

/// The `resourceVersion` that a write rests on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ResourceVersion(Box<str>);

impl ResourceVersion {
    /// Wraps a version as the API server returned it.
    pub fn new(version: &str) -> Self {
        Self(version.into())
    }

    /// Returns the version as the API server expects it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether the version is older than another one of the same object. Versions that are
    /// no numbers are not.
    pub fn is_older_than(&self, other: &Self) -> bool {
        self.compare(other) == Some(Ordering::Less)
    }

    /// Compares the age of two versions of one object; `None` if they are no numbers.
    pub(crate) fn compare(&self, other: &Self) -> Option<Ordering> {
        if self == other {
            return Some(Ordering::Equal);
        }
        let number = |version: &Self| version.0.parse::<u64>().ok();
        Some(number(self)?.cmp(&number(other)?))
    }
}

/// The result of reading a target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Observed {
    /// The object does not exist.
    Missing,
    /// The object as its actuator describes it.
    Present(TargetObject),
}

/// A target that exists, as its actuator describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetObject {
    /// The setting that was asked for.
    pub setting: Setting,
    /// The setting that is in effect: the ready replicas, for `scale`.
    pub effective: Setting,
    /// The version that was read.
    pub version: ResourceVersion,
    /// The object carries our marker: a watchdog fenced it, not its owner.
    pub marked: bool,
    /// The setting to restore, as recorded on the object.
    pub recorded: RecordedSetting,
    /// The owner wants the object left alone.
    pub ignored: bool,
    /// Marker and record are not on the object: the record is kept on the leader Lease.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub is_kept: bool,
    /// The uid of the object, for Events about it; empty if it is not known.
    #[serde(skip)]
    pub uid: Box<str>,
}

/// The setting to restore, recorded on the target before it was fenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RecordedSetting {
    /// There is no record.
    Absent,
    /// The setting that was recorded.
    Value(Setting),
    /// The record is not a setting that a target can be restored to.
    Corrupt,
}

impl TargetObject {
    /// Creates a target that was never fenced, whose setting is in effect.
    pub fn running(setting: Setting, version: ResourceVersion) -> Self {
        Self {
            setting,
            effective: setting,
            version,
            marked: false,
            recorded: RecordedSetting::Absent,
            ignored: false,
            is_kept: false,
            uid: Box::default(),
        }
    }

    /// Adds the marker and the record.
    pub(crate) fn mark(&mut self, setting: Setting) {
        self.marked = true;
        self.recorded = RecordedSetting::Value(setting);
    }

    /// Returns whether the object itself carries the marker.
    pub(crate) fn carries_marker(&self) -> bool {
        self.marked && !self.is_kept
    }

    /// Returns whether a decision would be the same on the other object: only the version moved on.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        (self.setting, self.marked, self.recorded, self.ignored)
            == (other.setting, other.marked, other.recorded, other.ignored)
    }
}
