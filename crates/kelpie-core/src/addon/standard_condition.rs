//! The standard condition types, which describe the addon as a whole.

use std::fmt;

/// A standard condition type. Exactly one of them is True.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StandardCondition {
    /// Metrics reach the hub.
    Available,
    /// Forwarding or an update fails.
    Degraded,
    /// The addon is switched off.
    Disabled,
    /// The addon cannot work on this cluster.
    NotSupported,
    /// The addon is being installed or updated.
    Progressing,
}

impl StandardCondition {
    /// All types, in alphabetical order.
    pub const ALL: [Self; 5] = [
        Self::Available,
        Self::Degraded,
        Self::Disabled,
        Self::NotSupported,
        Self::Progressing,
    ];

    /// Returns the `type` of the condition.
    pub const fn condition_type(self) -> &'static str {
        match self {
            Self::Available => "Available",
            Self::Degraded => "Degraded",
            Self::Disabled => "Disabled",
            Self::NotSupported => "NotSupported",
            Self::Progressing => "Progressing",
        }
    }
}

impl fmt::Display for StandardCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.condition_type())
    }
}
