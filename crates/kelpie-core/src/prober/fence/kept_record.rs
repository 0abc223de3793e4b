//! Records that are kept on the leader Lease instead of the target.
//!
//! An admission webhook that does not answer keeps annotations from being written. It does not
//! stand before the scale subresource, so the target can be fenced if its record is elsewhere.

use super::direction::{Direction, goal};
use super::step::Record;
use super::target_object::{RecordedSetting, ResourceVersion, TargetObject};
use crate::prober::Target;
use crate::prober::target::Setting;

/// The number of characters of a uid that are kept: the Lease has to hold thousands of records.
const UID_LENGTH: usize = 8;

/// The record of a target on the leader Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptRecord {
    /// The beginning of the target's uid. A target that was created anew has another one.
    uid: Box<str>,
    setting: Setting,
    /// The version of the target on which its fence rests. While the target has this version, the
    /// fence may still happen.
    version: ResourceVersion,
}

impl KeptRecord {
    /// Creates the record of the target with this uid, or one that begins with it; `None` if the
    /// uid is not known.
    pub fn new(uid: &str, setting: Setting, version: ResourceVersion) -> Option<Self> {
        let uid = uid.get(..UID_LENGTH).unwrap_or(uid);
        (!uid.is_empty()).then(|| Self {
            uid: uid.into(),
            setting,
            version,
        })
    }

    /// Returns the beginning of the target's uid.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// Returns the setting to restore.
    pub fn setting(&self) -> Setting {
        self.setting
    }

    /// Returns the version of the target on which its fence rests.
    pub fn version(&self) -> &ResourceVersion {
        &self.version
    }

    /// Returns whether the record may replace another one of the same target. A write that arrives
    /// late must not undo a newer one.
    pub fn may_replace(&self, other: &Self) -> bool {
        self.uid != other.uid || !self.version.is_older_than(&other.version)
    }

    /// Returns whether the record is of no use: its target was created anew, carries its record
    /// itself, or is not fenced. A state that is not newer than the record proves nothing: a write
    /// that rests on the record may have happened since, or may still happen.
    pub(super) fn is_unneeded(&self, target: &Target, object: &TargetObject) -> bool {
        let is_newer =
            object.version != self.version && !object.version.is_older_than(&self.version);
        let is_restored = goal(Direction::Up, target, object).is_none();
        is_newer && (!object.is_kept || is_restored)
    }

    /// Adds the record to a target that carries none itself.
    pub(super) fn overlay(&self, object: &mut TargetObject) {
        if !object.marked && object.uid.starts_with(&*self.uid) {
            object.mark(self.setting);
            object.is_kept = true;
        }
    }
}

/// A write that keeps the record of a target on the leader Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeepRecord {
    record: Record,
    kept: KeptRecord,
}

impl KeepRecord {
    /// Creates the write for a target in this state; `None` if its uid is not known.
    pub(super) fn new(object: &TargetObject) -> Option<Self> {
        Some(Self {
            record: Record::of(object),
            kept: KeptRecord::new(&object.uid, object.setting, object.version.clone())?,
        })
    }

    /// Returns the record to keep.
    pub fn kept(&self) -> &KeptRecord {
        &self.kept
    }

    /// Returns the record on which a fence may rest, once the write has succeeded.
    pub(super) fn acknowledged(self) -> Record {
        self.record
    }
}

/// A patch that marks a fenced target and puts its record on it, which is on the leader Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoveRecord {
    version: ResourceVersion,
    setting: Setting,
}

impl MoveRecord {
    pub(super) fn new(object: &TargetObject) -> Option<Self> {
        match object.recorded {
            RecordedSetting::Value(setting) if object.is_kept => Some(Self {
                version: object.version.clone(),
                setting,
            }),
            _ => None,
        }
    }

    /// Returns the version that the patch rests on.
    pub fn version(&self) -> &ResourceVersion {
        &self.version
    }

    /// Returns the setting to record.
    pub fn setting(&self) -> Setting {
        self.setting
    }
}

/// A write that drops a record from the leader Lease: the target was restored, was created anew, or
/// carries its record itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropRecord {
    kept: KeptRecord,
}

impl DropRecord {
    pub(super) fn new(kept: KeptRecord) -> Self {
        Self { kept }
    }

    /// Returns the record to drop. Another one stays.
    pub fn kept(&self) -> &KeptRecord {
        &self.kept
    }
}
