//! Requests that are counted once they are over.

use http::StatusCode;

use crate::metrics::Metrics;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Series, of the source.
    Federate,
    /// The result of a rule, of the source.
    Query,
    /// That the hub takes a batch.
    Write,
}

/// A request that is under way. Dropped without an answer it counts as such: also when its tick is
/// over before it is.
#[must_use]
pub(crate) struct Underway {
    metrics: Metrics,
    kind: Kind,
    /// The status; 0 without an answer.
    code: u16,
}

impl Metrics {
    /// A request begins.
    pub(crate) fn begin(&self, kind: Kind) -> Underway {
        Underway {
            metrics: self.clone(),
            kind,
            code: 0,
        }
    }
}

impl Underway {
    /// The head of its answer is there.
    pub(crate) fn answered(mut self, status: StatusCode) {
        self.code = status.as_u16();
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        self.metrics.requested(self.kind, self.code);
    }
}
