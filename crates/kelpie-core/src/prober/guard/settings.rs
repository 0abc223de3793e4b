//! The settings of a guard.

use std::time::Duration;

/// The settings of a guard, already validated.
#[derive(Clone, Debug, PartialEq)]
pub struct GuardSettings {
    /// The time for which a guard lasts without a renewal.
    pub duration: Duration,
}

impl Default for GuardSettings {
    fn default() -> Self {
        Self {
            duration: Duration::from_mins(2),
        }
    }
}
