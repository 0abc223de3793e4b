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
}

impl RefusalReason {
    pub(crate) const ALL: [Self; 6] = [
        Self::OutOfOrder,
        Self::Duplicate,
        Self::OutOfBounds,
        Self::TooOld,
        Self::TooLarge,
        Self::Conflict,
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
        }
    }

    /// Returns true if the hub has a sample of the series for that timestamp or a later one, so
    /// that no data is missing.
    pub(crate) const fn is_superseded(self) -> bool {
        matches!(self, Self::OutOfOrder | Self::Duplicate | Self::Conflict)
    }

    /// Finds the most severe reason that a text names. The hub sends one text for all samples of a
    /// request.
    fn in_text(text: &str) -> Option<Self> {
        let text = text.to_ascii_lowercase().replace('-', " ");
        let names = |phrase: &str| text.contains(phrase);
        if names("out of bounds") {
            Some(Self::OutOfBounds)
        } else if names("too old") {
            Some(Self::TooOld)
        } else if names("duplicate sample") {
            Some(Self::Duplicate)
        } else if names("out of order") {
            Some(Self::OutOfOrder)
        } else {
            None
        }
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

/// Classifies a response by its status, the text of its body and its `Retry-After`.
pub(crate) fn classify(status: u16, body: &str, retry_after: Option<Duration>) -> WriteStatus {
    let reason = match status {
        400 | 409 | 422 | 500 => RefusalReason::in_text(body),
        _ => None,
    };
    match (status, reason) {
        (200..=299, _) => WriteStatus::Delivered,
        (_, Some(reason)) => WriteStatus::Refused(reason),
        (409, None) => WriteStatus::Refused(RefusalReason::Conflict),
        (413, _) => WriteStatus::TooLarge,
        (429 | 503, _) => WriteStatus::Retry(retry_after),
        (501, _) => WriteStatus::Failed,
        (408 | 500..=599, _) => WriteStatus::Retry(None),
        _ => WriteStatus::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_classified() {
        use RefusalReason::{Conflict, Duplicate, OutOfBounds, OutOfOrder, TooOld};
        use WriteStatus::{Delivered, Failed, Refused, Retry, TooLarge};
        for (status, body, expected) in [
            (200, "", Delivered),
            (204, "", Delivered),
            // Responses of Prometheus 2.42.
            (400, "out of order sample\n", Refused(OutOfOrder)),
            (400, "duplicate sample for timestamp\n", Refused(Duplicate)),
            (400, "out of bounds\n", Refused(OutOfBounds)),
            (500, "too old sample\n", Refused(TooOld)),
            (400, "snappy: corrupt input\n", Failed),
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
            (
                409,
                "2 errors: out of order sample; out of bounds",
                Refused(OutOfBounds),
            ),
            (413, "too large", TooLarge),
            (408, "", Retry(None)),
            (429, "", Retry(None)),
            (500, "disk full", Retry(None)),
            (502, "out of order", Retry(None)),
            (503, "", Retry(None)),
            (504, "", Retry(None)),
            (501, "", Failed),
            (301, "", Failed),
            (401, "", Failed),
            (403, "", Failed),
            (415, "", Failed),
        ] {
            assert_eq!(classify(status, body, None), expected, "{status} {body:?}");
        }
    }

    #[test]
    fn retry_after_applies_to_429_and_503() {
        let seven = Some(Duration::from_secs(7));
        assert_eq!(classify(429, "", seven), WriteStatus::Retry(seven));
        assert_eq!(classify(503, "", seven), WriteStatus::Retry(seven));
        assert_eq!(classify(500, "", seven), WriteStatus::Retry(None));
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
