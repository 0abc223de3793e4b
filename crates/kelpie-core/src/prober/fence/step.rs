//! The calls of a fencing flow.
//!
//! A fence without a record cannot be expressed: a [`FenceWrite`] either carries the record of the
//! setting that it replaces, or is made from a [`Record`], which was found on the target or is the
//! response to a [`WriteRecord`] or a [`KeepRecord`]. Code outside of this module cannot build one.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::kept_record::{DropRecord, KeepRecord, MoveRecord};
use super::target_object::{Observed, RecordedSetting, ResourceVersion, TargetObject};
use crate::prober::target::Setting;

/// A target, by its index in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TargetId(pub usize);

/// Proof that the present setting of a target is recorded: on the target, or on the leader Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    version: ResourceVersion,
    setting: Setting,
}

impl Record {
    /// Returns the record of an earlier attempt if it is on the target and still true.
    pub(super) fn found(object: &TargetObject) -> Option<Self> {
        let is_true = object.marked && object.recorded == RecordedSetting::Value(object.setting);
        // The known state of the Lease may be old: another replica may have dropped the record.
        (is_true && !object.is_kept).then(|| Self::of(object))
    }

    /// Returns the record that is to be written for a target in this state.
    pub(super) fn of(object: &TargetObject) -> Self {
        Self {
            version: object.version.clone(),
            setting: object.setting,
        }
    }
}

/// A patch that sets the marker and records the present setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteRecord {
    version: ResourceVersion,
    setting: Setting,
}

impl WriteRecord {
    pub(super) fn new(object: &TargetObject) -> Self {
        Self {
            version: object.version.clone(),
            setting: object.setting,
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

    pub(super) fn acknowledged(self, version: ResourceVersion) -> Record {
        Record {
            version,
            setting: self.setting,
        }
    }
}

/// A write that lowers the setting of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FenceWrite {
    record: Record,
    setting: Setting,
    carries_record: bool,
}

impl FenceWrite {
    /// Creates the write that follows a record on the target.
    pub(super) fn after(record: Record, setting: Setting) -> Self {
        Self {
            record,
            setting,
            carries_record: false,
        }
    }

    /// Creates the write that also records the present setting and sets the marker.
    pub(super) fn with_record(object: &TargetObject, setting: Setting) -> Self {
        Self {
            record: Record::of(object),
            setting,
            carries_record: true,
        }
    }

    /// Returns whether the write sets the record and the marker too.
    pub fn carries_record(&self) -> bool {
        self.carries_record
    }

    /// Returns the version that the write rests on.
    pub fn version(&self) -> &ResourceVersion {
        &self.record.version
    }

    /// Returns the setting to apply.
    pub fn setting(&self) -> Setting {
        self.setting
    }

    /// Returns the setting that the record restores.
    pub fn recorded(&self) -> Setting {
        self.record.setting
    }
}

/// Proof that a target carries our marker. Nothing else is ever restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Marked {
    version: ResourceVersion,
}

impl Marked {
    pub(super) fn found(object: &TargetObject) -> Option<Self> {
        object.marked.then(|| Self {
            version: object.version.clone(),
        })
    }
}

/// A write that restores the setting of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreWrite {
    marked: Marked,
    setting: Setting,
    drops_marker: bool,
}

impl RestoreWrite {
    /// Creates the restore of a marked target. Without `drops_marker`, a [`DropMarker`] or a
    /// [`DropRecord`] follows.
    pub(super) fn new(marked: Marked, setting: Setting, drops_marker: bool) -> Self {
        Self {
            marked,
            setting,
            drops_marker,
        }
    }

    /// Returns the same restore without its change of annotations, which a webhook prevents.
    pub(super) fn keeping_marker(self) -> Self {
        Self {
            drops_marker: false,
            ..self
        }
    }

    /// Returns whether the write drops the marker too.
    pub fn drops_marker(&self) -> bool {
        self.drops_marker
    }

    /// Returns the version that the write rests on.
    pub fn version(&self) -> &ResourceVersion {
        &self.marked.version
    }

    /// Returns the setting to apply.
    pub fn setting(&self) -> Setting {
        self.setting
    }
}

/// A patch that drops the marker. The record stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropMarker {
    version: ResourceVersion,
}

impl DropMarker {
    pub(super) fn new(marked: Marked) -> Self {
        Self {
            version: marked.version,
        }
    }

    /// Creates the patch that follows a restore, which made `version`.
    pub(super) fn after(_restored: &RestoreWrite, version: ResourceVersion) -> Self {
        Self { version }
    }

    /// Returns the version that the patch rests on.
    pub fn version(&self) -> &ResourceVersion {
        &self.version
    }
}

/// A call on a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Reads the target without changing it.
    Read,
    /// Records the present setting and marks the target.
    WriteRecord(WriteRecord),
    /// Lowers the setting of the target.
    Fence(FenceWrite),
    /// Applies the recorded setting again.
    Restore(RestoreWrite),
    /// Removes the marker and keeps the record.
    DropMarker(DropMarker),
    /// Keeps the record of a target on the leader Lease.
    KeepRecord(KeepRecord),
    /// Marks a fenced target and puts its record on it, which was kept on the leader Lease.
    MoveRecord(MoveRecord),
    /// Drops a record from the leader Lease.
    DropRecord(DropRecord),
}

/// One call to make now. Calls of one batch may run at the same time. Each is handed back with its
/// [`Reply`].
#[derive(Debug, PartialEq, Eq)]
pub struct Step {
    /// The target of the call.
    pub target: TargetId,
    /// The call to make.
    pub call: Call,
    /// How long the call may take.
    pub time_limit: Duration,
    /// The purpose of the call: its urgency, and how it is counted.
    pub purpose: Purpose,
    /// The deadline is about this target, and the step fences it. It goes before all other calls,
    /// also of other clusters: where the API server is the limit, those would use up its time.
    pub is_deadline_target: bool,
    pub(super) origin: Origin,
}

/// The purpose of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A read that no flow waits for.
    Refresh,
    /// A write that no flow waits for: a record is put in its place, or what is left of a fence is
    /// removed.
    Upkeep,
    /// A read that checks whether pods have followed an acknowledged write.
    Readiness,
    /// A read that finds out what to do, or a write of an operation under way.
    Flow,
    /// The first write of an operation. A repetition after a conflict is not an attempt.
    Attempt,
}

impl Call {
    /// Returns whether the call changes the target, or the leader Lease.
    pub fn is_write(&self) -> bool {
        !matches!(self, Self::Read)
    }

    /// Returns whether the call records the present setting of a running target on it.
    pub fn writes_record(&self) -> bool {
        match self {
            Self::Fence(write) => write.carries_record(),
            call => matches!(call, Self::WriteRecord(_)),
        }
    }

    /// Returns the version that a write to the target rests on; `None` for other calls.
    pub fn version(&self) -> Option<&ResourceVersion> {
        match self {
            Self::Read | Self::KeepRecord(_) | Self::DropRecord(_) => None,
            Self::MoveRecord(write) => Some(write.version()),
            Self::WriteRecord(write) => Some(write.version()),
            Self::Fence(write) => Some(write.version()),
            Self::Restore(write) => Some(write.version()),
            Self::DropMarker(drop) => Some(drop.version()),
        }
    }
}

impl Step {
    /// Returns whether the step can be done without the admission webhook that may delay it: the
    /// record is kept on the leader Lease then. It is replied to with [`Reply::Unanswered`].
    pub fn can_bypass_webhook(&self) -> bool {
        self.is_deadline_target && self.call.writes_record()
    }

    /// Returns whether the call may queue behind other routine calls.
    pub fn can_wait(&self) -> bool {
        matches!(self.purpose, Purpose::Refresh | Purpose::Upkeep)
    }
}

/// The origin of a step, by which late replies are recognized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// A refresh, by its number.
    Refresh(u64),
    /// A flow, by its number.
    Flow(u64),
    /// A write that belongs to no flow, by its number.
    Upkeep(u64),
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The result of a read.
    Read(Observed),
    /// A write to the target succeeded.
    Written(WriteAnswer),
    /// A write to the leader Lease succeeded.
    LeaseWritten,
    /// A write rested on an old version.
    Conflict,
    /// The call changed nothing: it was rejected, or not sent.
    Rejected,
    /// The call changed nothing: an admission webhook did not answer.
    WebhookFailed,
    /// The call goes on, but is not answered as fast as the API server answers others: an admission
    /// webhook may hang. The write may have happened, or may happen later.
    Unanswered,
    /// The call failed in another way. A write may have happened, or may happen later.
    Failed,
}

/// The answer to a write that succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteAnswer {
    /// The version that the write made. The rest of the object is as it was asked for.
    Version(ResourceVersion),
    /// The whole object. An admission webhook may have changed what was asked for.
    Object(TargetObject),
}

impl WriteAnswer {
    pub(super) fn version(&self) -> &ResourceVersion {
        match self {
            Self::Version(version) => version,
            Self::Object(object) => &object.version,
        }
    }
}
