//! How the addon as a whole is.

use std::fmt;

/// The types of which exactly one is True.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Standard {
    /// It forwards.
    Available,
    /// It does not, or an update of it failed.
    Degraded,
    /// It is switched off.
    Disabled,
    /// It cannot work on this cluster.
    NotSupported,
    /// It is being installed or updated.
    Progressing,
}

impl Standard {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Available,
        Self::Degraded,
        Self::Disabled,
        Self::NotSupported,
        Self::Progressing,
    ];

    /// The type of its condition.
    pub const fn condition(self) -> &'static str {
        match self {
            Self::Available => "Available",
            Self::Degraded => "Degraded",
            Self::Disabled => "Disabled",
            Self::NotSupported => "NotSupported",
            Self::Progressing => "Progressing",
        }
    }
}

impl fmt::Display for Standard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.condition())
    }
}
