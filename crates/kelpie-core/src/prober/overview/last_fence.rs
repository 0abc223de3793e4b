//! The last fence of a cluster.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Time;

/// The last fence of a cluster: when it began, how long it took, and how it compared with the
/// deadline.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastFence {
    /// The instant of the trip.
    pub start: Time,
    /// The first deadline of the trip; `None` if none was ahead.
    pub deadline: Option<Time>,
    /// The instant at which the controller that the deadline is about was stopped; `None` while it
    /// runs.
    pub fenced_at: Option<Time>,
    /// The seconds that were left to the deadline then; negative if it had passed.
    pub margin_seconds: Option<f64>,
    /// The instant at which all targets ran again; `None` while one is fenced.
    pub end: Option<Time>,
}

impl LastFence {
    /// Creates the record of a trip, before anything is stopped.
    pub fn new(start: Time, deadline: Option<Time>) -> Self {
        Self {
            start,
            deadline,
            fenced_at: None,
            margin_seconds: None,
            end: None,
        }
    }

    /// Notes that the controller that the deadline is about was stopped.
    pub fn fenced(&mut self, at: Time, margin_seconds: Option<f64>) {
        if self.fenced_at.is_none() {
            self.fenced_at = Some(at);
            self.margin_seconds = margin_seconds;
        }
    }

    /// Returns the time from the trip to the stopped controller.
    pub fn took(&self) -> Option<Duration> {
        self.fenced_at.map(|at| at.since(self.start))
    }

    /// Returns the time for which the cluster was fenced, or has been at `now`.
    pub fn duration(&self, now: Time) -> Option<Duration> {
        let from = self.fenced_at?;
        Some(self.end.unwrap_or(now).since(from))
    }
}
