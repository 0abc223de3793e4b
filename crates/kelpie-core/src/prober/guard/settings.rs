//! The settings of a guard.

use std::time::Duration;

use super::GroupHold;

/// The settings of a guard, already validated.
#[derive(Clone, Debug, PartialEq)]
pub struct GuardSettings {
    /// The time for which a guard lasts without a renewal.
    pub duration: Duration,
    /// How long the nodes of a silent zone are held back.
    pub zone: GroupHold,
    /// How long the nodes of a silent worker pool are held back.
    pub pool: GroupHold,
}

impl Default for GuardSettings {
    fn default() -> Self {
        Self {
            duration: Duration::from_mins(2),
            zone: GroupHold::default(),
            pool: GroupHold::default(),
        }
    }
}
