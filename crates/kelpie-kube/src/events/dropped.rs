//! Counts of Events that were not recorded.

use super::EventRecorder;

/// The number of Events that were not recorded, by cause.
#[derive(Clone, Copy, Debug, Default)]
pub struct DroppedEvents {
    pub(crate) refused: u64,
    pub(crate) dropped: u64,
    pub(crate) failed: u64,
}

impl DroppedEvents {
    /// Returns the counts of a recorder since its creation.
    pub fn of(events: &EventRecorder) -> Self {
        Self {
            refused: events.refused(),
            dropped: events.dropped(),
            failed: events.failed(),
        }
    }
}
