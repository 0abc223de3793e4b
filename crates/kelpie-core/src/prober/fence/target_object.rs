//! The state of a target as it was last read.

use std::cmp::Ordering;
use std::ops::Not;

use serde::{Deserialize, Serialize};

use crate::prober::target::Setting;

/// The `resourceVersion` that a write rests on. A target of several objects has the versions of all
/// of them, as `name=version` in the order of the names, with commas in between.
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

    /// Joins the versions of several objects, which are sorted by name.
    pub fn of_members<'a>(members: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let members = members.into_iter();
        let members: Vec<String> = members
            .map(|(name, version)| format!("{name}={version}"))
            .collect();
        Self::new(&members.join(","))
    }

    /// Returns the objects with their versions. A target of one object has no name.
    pub fn members(&self) -> impl Iterator<Item = (&str, &str)> {
        let members = self.0.split(',').filter(|member| !member.is_empty());
        members.map(|member| member.split_once('=').unwrap_or(("", member)))
    }

    /// Compares the age of two versions of one target; `None` if they are no numbers, belong to
    /// different objects, or if some objects are older and others newer.
    pub(crate) fn compare(&self, other: &Self) -> Option<Ordering> {
        if self == other {
            return Some(Ordering::Equal);
        }
        let (mut mine, mut theirs) = (self.members(), other.members());
        let mut order = Ordering::Equal;
        loop {
            let ((name, version), (other_name, other_version)) = match (mine.next(), theirs.next())
            {
                (Some(member), Some(other)) => (member, other),
                (None, None) => return Some(order),
                _ => return None,
            };
            let number = |version: &str| version.parse::<u64>().ok();
            let member_order = number(version)?.cmp(&number(other_version)?);
            let is_mixed = order != Ordering::Equal && member_order == order.reverse();
            if name != other_name || is_mixed {
                return None;
            }
            order = order.then(member_order);
        }
    }

    /// Returns whether an object has the same version in both: a write that rests on one of them
    /// can still happen in the state of the other.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self == other
            || self
                .members()
                .any(|member| other.members().any(|it| it == member))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> ResourceVersion {
        ResourceVersion::new(text)
    }

    #[test]
    fn versions_are_compared_object_by_object() {
        use Ordering::{Equal, Greater, Less};
        for (one, other, order) in [
            ("7", "7", Some(Equal)),
            ("7", "10", Some(Less)),
            ("a", "a", Some(Equal)),
            ("a", "b", None),
            ("", "7", None),
            ("a=7,b=9", "a=7,b=10", Some(Less)),
            ("a=8,b=9", "a=7,b=9", Some(Greater)),
            ("a=8,b=10", "a=7,b=9", Some(Greater)),
            ("a=8,b=9", "a=7,b=10", None),
            ("a=7", "a=7,b=9", None),
            ("a=7", "b=9", None),
            ("a=7,b=x", "a=7,b=y", None),
        ] {
            let found = version(one).compare(&version(other));
            assert_eq!(found, order, "{one} {other}");
            let reversed = version(other).compare(&version(one));
            assert_eq!(reversed, order.map(Ordering::reverse), "{other} {one}");
        }
    }

    #[test]
    fn write_can_happen_while_an_object_is_unchanged() {
        for (one, other, overlaps) in [
            ("7", "7", true),
            ("7", "8", false),
            ("a=7,b=9", "a=8,b=9", true),
            ("a=7,b=9", "a=8,b=10", false),
            ("a=7", "b=7", false),
            ("a=7,b=9", "b=9", true),
        ] {
            let found = version(one).overlaps(&version(other));
            assert_eq!(found, overlaps, "{one} {other}");
        }
    }

    #[test]
    fn members_are_joined_and_split() {
        let members = [("a", "7"), ("b", "9")];
        let joined = ResourceVersion::of_members(members);
        assert_eq!(joined, version("a=7,b=9"));
        assert!(joined.members().eq(members));
        assert!(version("7").members().eq([("", "7")]));
        assert_eq!(ResourceVersion::of_members([]).members().next(), None);
    }
}
