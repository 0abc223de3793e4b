//! The writes of a fencing flow.
//!
//! A scale-down whose record was not written first cannot be expressed: a [`ScaleDown`] is made only
//! from a [`Record`], and a record is either found on the target or the answer to a [`WriteRecord`].
//! Nothing outside this module can build one.

use serde::Serialize;

use super::sight::{Present, Recorded, Sight, Version};

/// A target, by its place in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct TargetId(pub usize);

/// Proof that a target carries the marker and its present count as the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    version: Version,
    replicas: u32,
}

impl Record {
    /// The record of an earlier attempt, if it is still true.
    pub(super) fn found(present: &Present) -> Option<Self> {
        let is_true = present.marked && present.recorded == Recorded::Count(present.replicas);
        is_true.then(|| Self {
            version: present.version.clone(),
            replicas: present.replicas,
        })
    }
}

/// One patch: the marker, and the present count as the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteRecord {
    version: Version,
    replicas: u32,
}

impl WriteRecord {
    pub(super) fn new(present: &Present) -> Self {
        Self {
            version: present.version.clone(),
            replicas: present.replicas,
        }
    }

    /// The version the patch must rest on.
    pub fn version(&self) -> &Version {
        &self.version
    }

    /// The count to record.
    pub fn replicas(&self) -> u32 {
        self.replicas
    }

    pub(super) fn acknowledged(self, version: Version) -> Record {
        Record {
            version,
            replicas: self.replicas,
        }
    }
}

/// Setting the scale subresource to fewer replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScaleDown {
    record: Record,
    replicas: u32,
}

impl ScaleDown {
    pub(super) fn new(record: Record, replicas: u32) -> Self {
        Self { record, replicas }
    }

    /// The version the call must rest on: the one the record was written with.
    pub fn version(&self) -> &Version {
        &self.record.version
    }

    /// The count to set.
    pub fn replicas(&self) -> u32 {
        self.replicas
    }

    /// The count that the record will give back.
    pub fn recorded(&self) -> u32 {
        self.record.replicas
    }
}

/// Proof that a target carries our marker: the only thing that is ever scaled up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Marked {
    version: Version,
}

impl Marked {
    pub(super) fn found(present: &Present) -> Option<Self> {
        present.marked.then(|| Self {
            version: present.version.clone(),
        })
    }
}

/// Setting the scale subresource back to what it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScaleUp {
    marked: Marked,
    replicas: u32,
}

impl ScaleUp {
    pub(super) fn new(marked: Marked, replicas: u32) -> Self {
        Self { marked, replicas }
    }

    /// The version the call must rest on.
    pub fn version(&self) -> &Version {
        &self.marked.version
    }

    /// The count to set.
    pub fn replicas(&self) -> u32 {
        self.replicas
    }
}

/// One patch: the marker goes, the record stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropMarker {
    version: Version,
}

impl DropMarker {
    pub(super) fn new(marked: Marked) -> Self {
        Self {
            version: marked.version,
        }
    }

    /// The marker may go once the scale call is done, which made this version.
    pub(super) fn after(_done: &ScaleUp, version: Version) -> Self {
        Self { version }
    }

    /// The version the patch must rest on.
    pub fn version(&self) -> &Version {
        &self.version
    }
}

/// What is to be done with a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Read it.
    Read,
    /// Record its present count and mark it.
    WriteRecord(WriteRecord),
    /// Scale it down.
    ScaleDown(ScaleDown),
    /// Scale it up.
    ScaleUp(ScaleUp),
    /// Drop the marker.
    DropMarker(DropMarker),
}

/// One call to make now. Calls of one batch may run at the same time; each is handed back with its
/// [`Reply`].
#[derive(Debug, PartialEq, Eq)]
pub struct Step {
    /// Which target.
    pub target: TargetId,
    /// What to do.
    pub call: Call,
    /// What it is for: how urgent it is, and how it is counted.
    pub purpose: Purpose,
    /// The deadline is about this target: it goes before all others, also of other clusters, whose
    /// deadlines are not. Where the API server is the limit, those would use up the time that this one has.
    pub is_pressing: bool,
    pub(super) origin: Origin,
}

/// What a step is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A look that no flow waits for.
    Survey,
    /// To see the pods follow a scale call that is done.
    Readiness,
    /// To find out what is to be done, or a write of an operation under way.
    Flow,
    /// The first write of a scale operation. One that is only repeated after a conflict is none.
    Attempt,
}

impl Call {
    /// Whether it changes the target.
    pub fn is_write(&self) -> bool {
        !matches!(self, Self::Read)
    }
}

impl Step {
    /// It may queue behind other routine calls.
    pub fn can_wait(&self) -> bool {
        self.purpose == Purpose::Survey
    }
}

/// Who asked for a step: late answers are told by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The survey; each look has a number of its own.
    Look(u64),
    /// A flow, by its number.
    Flow(u64),
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A read.
    Seen(Sight),
    /// A write that went through, and the version it made.
    Written(Version),
    /// A write that rested on an old version.
    Conflict,
    /// Anything else: refused, throttled, timed out, not our turn.
    Failed,
}
