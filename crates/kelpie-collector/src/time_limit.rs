//! Limits the time that a server has for a response.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::peer::PeerError;

/// The time for one request, from the connection to the head of the response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeLimit {
    limit: Duration,
    pub(crate) deadline: Instant,
}

impl TimeLimit {
    /// Starts the time of a request.
    pub(crate) fn start(limit: Duration) -> Self {
        let deadline = Instant::now() + limit;
        Self { limit, deadline }
    }

    /// Waits for a step of the request until the deadline.
    pub(crate) async fn wait<T>(&self, step: impl Future<Output = T>) -> Result<T, PeerError> {
        let waited = timeout_at(self.deadline, step).await;
        waited.map_err(|_| PeerError::TimedOut(self.limit))
    }
}
