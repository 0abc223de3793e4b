//! Classifies the responses of the hub.

use std::time::Duration;

/// The reason that a hub refused samples, taken from the text of its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RefusalReason {
    /// The hub has a newer sample of the series.
    OutOfOrder,
    /// The hub has another value for the same timestamp.
    Duplicate,
    /// The timestamp is too far from the hub's newest sample. A single sample from the future is
    /// enough to cause this for all others.
    OutOfBounds,
    /// The timestamp is older than the hub's out-of-order window.
    TooOld,
    /// A request with only this sample is too large for the hub.
    TooLarge,
    /// The hub reports a conflict without details. It has the samples or newer ones.
    Conflict,
    /// The hub rejects a sample for a reason of its own, such as a limit on series or labels.
    Rejected,
}

impl RefusalReason {
    pub(crate) const ALL: [Self; 7] = [
        Self::OutOfOrder,
        Self::Duplicate,
        Self::OutOfBounds,
        Self::TooOld,
        Self::TooLarge,
        Self::Conflict,
        Self::Rejected,
    ];

    /// Returns the name in metrics and logs.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::OutOfOrder => "out_of_order",
            Self::Duplicate => "duplicate",
            Self::OutOfBounds => "out_of_bounds",
            Self::TooOld => "too_old",
            Self::TooLarge => "too_large",
            Self::Conflict => "conflict",
            Self::Rejected => "rejected",
        }
    }

    /// Returns true if the hub has a sample of the series for that timestamp or a later one, so
    /// that no data is missing.
    pub(crate) const fn is_superseded(self) -> bool {
        matches!(self, Self::OutOfOrder | Self::Duplicate | Self::Conflict)
    }

    /// Finds the most severe reason that a text names, in the words of Prometheus, Thanos, Cortex
    /// and Mimir. The hub sends one text for all samples of a request.
    fn in_text(text: &str) -> Option<Self> {
        let text = text.to_ascii_lowercase().replace('-', " ");
        let reasons: [(Self, &[&str]); 4] = [
            (Self::OutOfBounds, &["out of bounds"]),
            (Self::TooOld, &["too old sample", "timestamp too old"]),
            (
                Self::Duplicate,
                &["duplicate sample", "sample duplicate timestamp"],
            ),
            (
                Self::OutOfOrder,
                &["out of order sample", "sample out of order"],
            ),
        ];
        let names = |phrases: &[&str]| phrases.iter().any(|phrase| text.contains(phrase));
        let found = reasons.into_iter().find(|(_, phrases)| names(phrases));
        found.map(|(reason, _)| reason)
    }
}

/// The meaning of the hub's response to a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WriteStatus {
    /// The hub accepted the whole request.
    Delivered,
    /// The hub refused the whole request because of some sample. Bisect it to find the sample.
    Refused(RefusalReason),
    /// The request was too large. Send smaller ones.
    TooLarge,
    /// A retry may succeed. The hub may request a wait before it.
    Retry(Option<Duration>),
    /// A retry would not help.
    Failed,
}

/// The whole response of a Prometheus 2 to a sample before its out-of-order window. It is the one
/// refusal that has the status of a server error.
const PROMETHEUS_TOO_OLD: &str = "too old sample";

/// Classifies a response by its status and its `Retry-After`. The text of the body only tells the
/// reasons of a refusal apart.
pub(crate) fn classify(status: u16, body: &str, retry_after: Option<Duration>) -> WriteStatus {
    match status {
        200..=299 => WriteStatus::Delivered,
        400 | 422 => {
            WriteStatus::Refused(RefusalReason::in_text(body).unwrap_or(RefusalReason::Rejected))
        }
        409 => {
            WriteStatus::Refused(RefusalReason::in_text(body).unwrap_or(RefusalReason::Conflict))
        }
        413 => WriteStatus::TooLarge,
        500 if body.trim() == PROMETHEUS_TOO_OLD => WriteStatus::Refused(RefusalReason::TooOld),
        429 | 500..=599 => WriteStatus::Retry(retry_after),
        _ => WriteStatus::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_classified() {
        use RefusalReason::{Conflict, Duplicate, OutOfBounds, OutOfOrder, Rejected, TooOld};
        use WriteStatus::{Delivered, Failed, Refused, Retry, TooLarge};
        for (status, body, expected) in [
            (200, "", Delivered),
            (204, "", Delivered),
            // Responses of Prometheus 2.42.
            (400, "out of order sample\n", Refused(OutOfOrder)),
            (400, "duplicate sample for timestamp\n", Refused(Duplicate)),
            (400, "out of bounds\n", Refused(OutOfBounds)),
            (500, "too old sample\n", Refused(TooOld)),
            (400, "snappy: corrupt input\n", Refused(Rejected)),
            (500, "lease is too old", Retry(None)),
            (500, "write too old sample: disk full", Retry(None)),
            (404, "remote write receiver needs to be enabled\n", Failed),
            (405, "Method Not Allowed\n", Failed),
            // Responses of Thanos and Mimir.
            (
                409,
                "store locally: out of order sample",
                Refused(OutOfOrder),
            ),
            (409, "forwarding request: conflict", Refused(Conflict)),
            (409, "", Refused(Conflict)),
            (
                400,
                "send: err-mimir-sample-out-of-order",
                Refused(OutOfOrder),
            ),
            (400, "err-mimir-max-series-per-user", Refused(Rejected)),
            (422, "err-mimir-label-invalid", Refused(Rejected)),
            (400, "err-mimir-sample-timestamp-too-old", Refused(TooOld)),
            (
                400,
                "err-mimir-sample-duplicate-timestamp",
                Refused(Duplicate),
            ),
            (400, "the service is out of order", Refused(Rejected)),
            (
                409,
                "2 errors: out of order sample; out of bounds",
                Refused(OutOfBounds),
            ),
            (413, "too large", TooLarge),
            (408, "", Failed),
            (429, "", Retry(None)),
            (500, "disk full", Retry(None)),
            (502, "out of order", Retry(None)),
            (503, "", Retry(None)),
            (504, "", Retry(None)),
            (501, "", Retry(None)),
            (301, "", Failed),
            (401, "", Failed),
            (403, "", Failed),
            (415, "", Failed),
        ] {
            assert_eq!(classify(status, body, None), expected, "{status} {body:?}");
        }
    }

    #[test]
    fn retry_after_applies_to_retried_responses() {
        let seven = Some(Duration::from_secs(7));
        assert_eq!(classify(429, "", seven), WriteStatus::Retry(seven));
        assert_eq!(classify(503, "", seven), WriteStatus::Retry(seven));
        assert_eq!(classify(500, "", seven), WriteStatus::Retry(seven));
        assert_eq!(classify(404, "", seven), WriteStatus::Failed);
    }

    #[test]
    fn superseded_samples_are_not_missing() {
        let superseded = RefusalReason::ALL
            .into_iter()
            .filter(|reason| reason.is_superseded());
        assert!(superseded.eq([
            RefusalReason::OutOfOrder,
            RefusalReason::Duplicate,
            RefusalReason::Conflict
        ]));
    }
}
