//! What the addon is made of.

use std::fmt;

/// A collector whose state is told by a condition of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Component {
    /// Forwards the metrics of the platform.
    Platform,
    /// Forwards the metrics of user workloads; optional.
    Uwl,
}

impl Component {
    /// Both, in the order in which they are told.
    pub const ALL: [Self; 2] = [Self::Platform, Self::Uwl];

    /// The type of its condition.
    pub const fn condition(self) -> &'static str {
        match self {
            Self::Platform => "MetricsCollectorStatus",
            Self::Uwl => "UwlMetricsCollectorStatus",
        }
    }

    /// How commands and the keys of `status.rollouts` call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Platform => "platform",
            Self::Uwl => "uwl",
        }
    }

    /// The component that a condition of this type is about.
    pub fn of_condition(kind: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|component| component.condition() == kind)
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Platform => "platform collector",
            Self::Uwl => "user-workload collector",
        })
    }
}
