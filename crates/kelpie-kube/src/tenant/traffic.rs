//! What was asked and what came back, for the metrics.

use std::sync::{Mutex, PoisonError};

/// Requests to a tenant's API server since the last look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// The status of each answer, in order.
    pub statuses: Vec<u16>,
    /// Requests, tries to connect included, that got no answer: broken, refused or too late. One that
    /// lost a race against another connection is not among them.
    pub unanswered: u32,
    /// Connections that were opened.
    pub connections: u32,
    /// Bytes of bodies that were read.
    pub bytes: u64,
}

/// Counts for several requests under way.
#[derive(Debug, Default)]
pub(super) struct Meter(Mutex<Traffic>);

impl Meter {
    pub(super) fn count(&self, change: impl FnOnce(&mut Traffic)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(super) fn take(&mut self) -> Traffic {
        let traffic = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(traffic)
    }
}
