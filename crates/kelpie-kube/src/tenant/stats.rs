//! Counts of requests and responses, for the metrics.

use parking_lot::Mutex;

/// Counts of requests to a tenant's API server since the last
/// [`Tenant::take_stats`](super::Tenant::take_stats).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestStats {
    /// The status of each response, in order.
    pub statuses: Vec<u16>,
    /// Requests without a response: the connection was refused or broke, or the deadline passed. A
    /// request that lost a race against another one is not counted.
    pub unanswered: u32,
    /// The number of opened connections.
    pub connections: u32,
    /// The number of bytes of response bodies.
    pub bytes: u64,
}

/// Request statistics that concurrent requests update.
#[derive(Debug, Default)]
pub(super) struct StatsRecorder(Mutex<RequestStats>);

impl StatsRecorder {
    pub(super) fn update(&self, change: impl FnOnce(&mut RequestStats)) {
        change(&mut self.0.lock());
    }

    pub(super) fn take(&self) -> RequestStats {
        std::mem::take(&mut self.0.lock())
    }
}
