//! The controllers that a fence stops.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::fence::Direction;

/// A controller to fence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The object, in the control namespace of the cluster.
    pub resource: ResourceRef,
    /// The means by which it is fenced.
    pub actuator: ActuatorKind,
    /// The object need not exist.
    pub optional: bool,
    /// The deadline is about this controller: it turns nodes Unknown. The other controllers do harm
    /// only minutes later.
    pub is_deadline_target: bool,
    /// The rule for restoring it.
    pub up: FlowRule,
    /// The rule for fencing it.
    pub down: FlowRule,
}

/// The means by which a target is fenced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ActuatorKind {
    /// Sets the replicas: on the object itself where they are known to be in `spec.replicas`, else
    /// through the scale subresource.
    #[default]
    Scale,
    /// Pauses all objects of a kind that belong to the cluster, such as its MachineHealthChecks.
    /// Together they are one target, and the reference has no name.
    Pause,
}

/// A setting of a target that its actuator can apply. For [`ActuatorKind::Scale`] it is the number
/// of replicas. For [`ActuatorKind::Pause`] it is 1 while one of the objects is not paused, else 0.
///
/// The core knows only the order: a fence lowers the setting, and a restore raises it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Setting(pub u32);

/// A reference to an object by kind and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceRef {
    /// The group and version, such as `apps/v1`.
    pub api_version: String,
    /// The kind, such as `Deployment`.
    pub kind: String,
    /// The name of the object; empty if all objects of the cluster are meant.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
}

/// The rule for fencing or for restoring a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowRule {
    /// Levels run in ascending order. Targets of one level run together.
    pub level: u32,
    /// Slept before the write, and only if there is something to write.
    pub initial_delay: Duration,
    /// The time limit for the writes of one operation.
    pub timeout: Duration,
    /// Replaces the default setting: [`Setting::FENCED`] on the way down, the recorded one on the
    /// way up.
    pub setting: Option<Setting>,
}

impl Target {
    /// Creates a target with the defaults of a configuration file.
    pub fn new(resource: ResourceRef) -> Self {
        Self {
            resource,
            actuator: ActuatorKind::default(),
            optional: false,
            is_deadline_target: false,
            up: FlowRule::default(),
            down: FlowRule::default(),
        }
    }
}

impl Target {
    /// Returns the rule for fencing or for restoring the target.
    pub fn rule(&self, direction: Direction) -> &FlowRule {
        match direction {
            Direction::Down => &self.down,
            Direction::Up => &self.up,
        }
    }

    /// Returns whether one write applies a setting and records or unmarks it. Otherwise a record is
    /// written before the fence, and the marker is dropped after the restore.
    pub fn takes_one_write(&self) -> bool {
        match self.actuator {
            ActuatorKind::Scale => self.resource.has_plain_replicas(),
            ActuatorKind::Pause => true,
        }
    }
}

impl ResourceRef {
    /// Returns whether all objects of the kind that belong to the cluster are meant.
    pub fn means_all(&self) -> bool {
        self.name.is_empty()
    }

    /// Returns whether `spec.replicas` and `status.readyReplicas` are known to be the counts.
    pub fn has_plain_replicas(&self) -> bool {
        let kinds = ["Deployment", "StatefulSet", "ReplicaSet"];
        self.api_version == "apps/v1" && kinds.contains(&self.kind.as_str())
    }
}

impl Setting {
    /// The default setting of a fenced target.
    pub const FENCED: Self = Self(0);
    /// The setting of a running target whose record is missing or corrupt.
    pub const RUNNING: Self = Self(1);
}

impl ActuatorKind {
    /// Describes an applied setting, such as `scaled down to 0`.
    pub fn describe(self, direction: Direction, setting: Setting) -> String {
        match self {
            Self::Scale => format!("scaled {direction} to {setting}"),
            Self::Pause => match direction {
                Direction::Down => "paused".to_owned(),
                Direction::Up => "resumed".to_owned(),
            },
        }
    }

    /// Describes a change that a flow would make, such as `scale Deployment a from 1 to 0`.
    pub fn describe_plan(self, resource: &ResourceRef, from: Setting, to: Setting) -> String {
        match self {
            Self::Scale => format!("scale {resource} from {from} to {to}"),
            Self::Pause if to < from => format!("pause {resource}"),
            Self::Pause => format!("resume {resource}"),
        }
    }

    /// Returns whether a target belongs to one cluster of its namespace. Otherwise it is found by
    /// the namespace alone, which has one cluster.
    pub fn is_by_cluster(self) -> bool {
        match self {
            Self::Scale => false,
            Self::Pause => true,
        }
    }
}

impl Default for FlowRule {
    fn default() -> Self {
        Self {
            level: 0,
            initial_delay: Duration::ZERO,
            timeout: Duration::from_secs(30),
            setting: None,
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for ResourceRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name.as_str() {
            "" => write!(f, "{}s", self.kind),
            name => write!(f, "{} {name}", self.kind),
        }
    }
}
