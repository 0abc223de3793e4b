//! Counts requests when they end.

use http::StatusCode;

use crate::metrics::CollectorMetrics;

/// The kind of a request, for its metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    /// Reads series from the source.
    Federate,
    /// Evaluates a recording rule at the source.
    Query,
    /// Writes a batch to the hub.
    Write,
}

/// A request in flight. If it is dropped without a response it is counted without one, also when
/// its tick ends first.
#[must_use]
pub(crate) struct RequestInFlight {
    metrics: CollectorMetrics,
    kind: RequestKind,
    /// The status of the response, if there was one.
    status: Option<StatusCode>,
}

impl CollectorMetrics {
    /// Starts a request, which is counted when the returned value is dropped.
    pub(crate) fn start_request(&self, kind: RequestKind) -> RequestInFlight {
        RequestInFlight {
            metrics: self.clone(),
            kind,
            status: None,
        }
    }
}

impl RequestInFlight {
    /// Counts the request with the status of its response.
    pub(crate) fn responded(mut self, status: StatusCode) {
        self.status = Some(status);
    }
}

impl Drop for RequestInFlight {
    fn drop(&mut self) {
        self.metrics.request_ended(self.kind, self.status);
    }
}
