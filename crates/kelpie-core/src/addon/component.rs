//! The components of the addon.

use std::fmt;

/// A collector with its own condition in the addon's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AddonComponent {
    /// The collector that forwards the platform's metrics.
    Platform,
    /// The collector that forwards the metrics of user workloads. It is optional.
    Uwl,
}

impl AddonComponent {
    /// Both components, in the order in which messages list them.
    pub const ALL: [Self; 2] = [Self::Platform, Self::Uwl];

    /// Returns the type of the component's condition.
    pub const fn condition_type(self) -> &'static str {
        match self {
            Self::Platform => "MetricsCollectorStatus",
            Self::Uwl => "UwlMetricsCollectorStatus",
        }
    }

    /// Returns the type of the condition that the operator shipped with the hub writes instead.
    pub const fn shipped_condition_type(self) -> &'static str {
        match self {
            Self::Platform => "MetricsCollector",
            Self::Uwl => "UwlMetricsCollector",
        }
    }

    /// Returns whether a condition of this type is about the component.
    pub fn owns(self, condition_type: &str) -> bool {
        [self.condition_type(), self.shipped_condition_type()].contains(&condition_type)
    }

    /// Returns the name used on the command line and as key of `status.rollouts`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Platform => "platform",
            Self::Uwl => "uwl",
        }
    }
}

impl fmt::Display for AddonComponent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Platform => "platform collector",
            Self::Uwl => "user-workload collector",
        })
    }
}
