//! What the hub's answer means.

use std::time::Duration;

/// What a hub has against samples, as its text tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Refusal {
    /// It has a newer sample of the series.
    OutOfOrder,
    /// It has another value for the same time.
    Duplicate,
    /// Too far from what it takes for the present: one sample from the future is enough for that.
    OutOfBounds,
    /// Behind the window in which it takes samples out of order.
    TooOld,
    /// The request with only this sample is too large for it.
    TooLarge,
    /// It has something else there, and does not say what.
    Conflict,
}

impl Refusal {
    pub(crate) const ALL: [Self; 6] = [
        Self::OutOfOrder,
        Self::Duplicate,
        Self::OutOfBounds,
        Self::TooOld,
        Self::TooLarge,
        Self::Conflict,
    ];

    /// As metrics and logs name it.
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

    /// The hub has a sample of that series for that time or a later one: nothing is missing there.
    pub(crate) const fn is_there(self) -> bool {
        matches!(self, Self::OutOfOrder | Self::Duplicate | Self::Conflict)
    }

    /// Of what a text may name, the worst for us: who sends several samples gets
    /// one text for all of them.
    fn of(text: &str) -> Option<Self> {
        let text = text.to_ascii_lowercase().replace('-', " ");
        let said = |words: &str| text.contains(words);
        if said("out of bounds") {
            Some(Self::OutOfBounds)
        } else if said("too old") {
            Some(Self::TooOld)
        } else if said("duplicate sample") {
            Some(Self::Duplicate)
        } else if said("out of order") {
            Some(Self::OutOfOrder)
        } else {
            None
        }
    }
}

/// What to do about an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// All of it is there.
    Delivered,
    /// The hub has something else there, and does not say what.
    Superseded,
    /// Some sample is refused, and with it the whole request: find it by halves.
    Refused(Refusal),
    /// Smaller requests.
    TooLarge,
    /// Once more; not before this time has passed, if the hub says so.
    Retry(Option<Duration>),
    /// It would not help.
    Failed,
}

/// The verdict on a status, with the text of its body and its `Retry-After`.
pub(crate) fn verdict(status: u16, body: &str, retry_after: Option<Duration>) -> Verdict {
    let refusal = match status {
        400 | 409 | 422 | 500 => Refusal::of(body),
        _ => None,
    };
    match (status, refusal) {
        (200..=299, _) => Verdict::Delivered,
        (_, Some(refusal)) => Verdict::Refused(refusal),
        (409, None) => Verdict::Superseded,
        (413, _) => Verdict::TooLarge,
        (429 | 503, _) => Verdict::Retry(retry_after),
        (501, _) => Verdict::Failed,
        (408 | 500..=599, _) => Verdict::Retry(None),
        _ => Verdict::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_has_its_verdict() {
        use Refusal::{Duplicate, OutOfBounds, OutOfOrder, TooOld};
        use Verdict::{Delivered, Failed, Refused, Retry, Superseded, TooLarge};
        for (status, body, expected) in [
            (200, "", Delivered),
            (204, "", Delivered),
            // What a Prometheus 2.42 says.
            (400, "out of order sample\n", Refused(OutOfOrder)),
            (400, "duplicate sample for timestamp\n", Refused(Duplicate)),
            (400, "out of bounds\n", Refused(OutOfBounds)),
            (500, "too old sample\n", Refused(TooOld)),
            (400, "snappy: corrupt input\n", Failed),
            (404, "remote write receiver needs to be enabled\n", Failed),
            (405, "Method Not Allowed\n", Failed),
            // What Thanos and Mimir say.
            (
                409,
                "store locally: out of order sample",
                Refused(OutOfOrder),
            ),
            (409, "forwarding request: conflict", Superseded),
            (409, "", Superseded),
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
            assert_eq!(verdict(status, body, None), expected, "{status} {body:?}");
        }
    }

    #[test]
    fn retry_after_counts_on_429_and_503() {
        let seven = Some(Duration::from_secs(7));
        assert_eq!(verdict(429, "", seven), Verdict::Retry(seven));
        assert_eq!(verdict(503, "", seven), Verdict::Retry(seven));
        assert_eq!(verdict(500, "", seven), Verdict::Retry(None));
    }

    #[test]
    fn what_the_hub_has_newer_or_at_that_time_is_not_missing_there() {
        let there = Refusal::ALL
            .into_iter()
            .filter(|refusal| refusal.is_there());
        assert!(there.eq([Refusal::OutOfOrder, Refusal::Duplicate, Refusal::Conflict]));
    }
}
