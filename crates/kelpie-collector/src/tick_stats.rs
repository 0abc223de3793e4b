//! Collects the results of a tick.

use crate::remote_write::RefusalReason;
use crate::tick_outcome::{TickOutcome, TickSuccess};
use crate::{FilterCause, SampleCounts};

/// Limits the distinct failures that are kept of a tick.
const MAX_FAILURES: usize = 8;
/// Limits the failures that a message names.
const MAX_NAMED_FAILURES: usize = 3;

/// The failure of a tick whose samples were all dropped because a clock is wrong. That is not the
/// same as having nothing to send.
const WRONG_CLOCK: &str = "nothing left to send: samples are older than a day or more than five \
    minutes ahead; compare the clock of this host with the source's";

/// The results of a tick so far.
#[derive(Debug, Default)]
pub(crate) struct TickStats {
    /// The samples up to the hub: read, filtered, unchanged and put into batches.
    pub(crate) counts: SampleCounts,
    /// Samples that the hub accepted.
    pub(crate) accepted: u64,
    refused: [u64; RefusalReason::ALL.len()],
    /// Refused samples that the hub is known to have, or newer ones.
    superseded: u64,
    /// The hub's first refusal message, and whether it was about superseded samples. A message
    /// about other samples replaces one about superseded ones.
    refusal: Option<(bool, String)>,
    /// Distinct failures in the order of their first occurrence.
    failures: Vec<String>,
}

impl TickStats {
    /// Records the failure of a federate request, a recording rule, a batch or the whole tick.
    pub(crate) fn fail(&mut self, failure: String) {
        if self.failures.len() < MAX_FAILURES && !self.failures.contains(&failure) {
            self.failures.push(failure);
        }
    }

    /// Records a refused request with this many samples. The reason may apply to only one of
    /// several samples, but the hub accepted none of the others either.
    pub(crate) fn refuse(&mut self, reason: RefusalReason, samples: u64, message: &str) {
        self.refused[reason as usize] += samples;
        let is_superseded =
            reason.is_superseded() && (samples == 1 || reason == RefusalReason::Conflict);
        if is_superseded {
            self.superseded += samples;
        }
        let is_worse = match &self.refusal {
            None => true,
            Some((was_superseded, _)) => *was_superseded && !is_superseded,
        };
        if is_worse {
            self.refusal = Some((is_superseded, message.to_owned()));
        }
    }

    /// Ends the tick.
    pub(crate) fn finish(self) -> TickOutcome {
        let result = self.result();
        let settled = self.accepted + self.refused.iter().sum::<u64>();
        TickOutcome {
            counts: self.counts,
            accepted: self.accepted,
            undelivered: self.counts.sent.saturating_sub(settled),
            result,
            refused: self.refused,
            refusal_message: self.refusal.map(|(_, message)| message),
            failures: self.failures,
        }
    }

    fn result(&self) -> Result<TickSuccess, String> {
        if !self.failures.is_empty() {
            let mut text = self.failures[..self.failures.len().min(MAX_NAMED_FAILURES)].join("; ");
            if self.failures.len() > MAX_NAMED_FAILURES {
                text.push_str("; and more");
            }
            return Err(text);
        }
        let present = self.counts.unchanged + self.accepted + self.superseded;
        let missing = self.refused.iter().sum::<u64>() - self.superseded;
        if missing > present {
            let message = self.refusal.as_ref().map_or("", |(_, message)| message);
            return Err(format!(
                "the hub refused more than half of the samples: {message}"
            ));
        }
        if present + missing > 0 {
            return Ok(TickSuccess::Sent);
        }
        let wrong_time =
            [FilterCause::Old, FilterCause::Future].map(|cause| self.counts.filtered(cause));
        if wrong_time.iter().any(|samples| *samples > 0) {
            return Err(WRONG_CLOCK.to_owned());
        }
        Ok(TickSuccess::Nothing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates the stats of a tick with these responses of the hub.
    fn stats(accepted: u64, refused: &[(RefusalReason, u64)]) -> TickStats {
        let mut stats = TickStats {
            accepted,
            ..TickStats::default()
        };
        for (reason, samples) in refused {
            for _ in 0..*samples {
                stats.refuse(*reason, 1, "the hub's text");
            }
        }
        stats
    }

    #[test]
    fn tick_succeeds_if_hub_has_half() {
        use RefusalReason::{Duplicate, OutOfBounds, OutOfOrder, TooOld};
        for (accepted, refused, succeeds) in [
            (10, vec![], true),
            (5, vec![(OutOfBounds, 5)], true),
            (5, vec![(OutOfBounds, 3), (TooOld, 3)], false),
            (0, vec![(OutOfBounds, 1)], false),
            (0, vec![(OutOfOrder, 5), (Duplicate, 5)], true),
            (0, vec![(OutOfOrder, 5), (OutOfBounds, 5)], true),
            (0, vec![(OutOfOrder, 5), (OutOfBounds, 6)], false),
        ] {
            let result = stats(accepted, &refused).finish().result;
            assert_eq!(result.is_ok(), succeeds, "{accepted} {refused:?}");
            if let Err(text) = result {
                assert!(text.contains("the hub's text"), "{text}");
            }
        }
    }

    #[test]
    fn samples_refused_together_count_as_missing() {
        let mut stats = stats(10, &[]);
        stats.refuse(RefusalReason::OutOfOrder, 11, "out of order sample");
        let message = stats.result().unwrap_err();
        assert!(message.contains("out of order sample"), "{message}");
    }

    #[test]
    fn superseded_samples_count_as_present() {
        let mut stats = stats(0, &[(RefusalReason::OutOfBounds, 5)]);
        stats.counts.unchanged = 4;
        assert!(stats.result().is_err());
        stats.refuse(RefusalReason::Conflict, 1, "conflict");
        assert_eq!(stats.result(), Ok(TickSuccess::Sent));
        assert_eq!(
            stats.finish().refusal_message.as_deref(),
            Some("the hub's text")
        );
    }

    #[test]
    fn empty_tick_succeeds_unless_something_failed() {
        let mut stats = TickStats::default();
        assert_eq!(stats.result(), Ok(TickSuccess::Nothing));
        stats.fail("rule r: no response".to_owned());
        assert_eq!(stats.result(), Err("rule r: no response".to_owned()));
    }

    #[test]
    fn failures_are_named_once() {
        let mut stats = stats(1_000, &[]);
        for number in 0..50 {
            stats.fail("a".to_owned());
            stats.fail(format!("b{number}"));
        }
        let message = stats.result().unwrap_err();
        assert_eq!(message, "a; b0; b1; and more");
        assert_eq!(stats.finish().failures.len(), MAX_FAILURES);
    }
}
