//! What became of a tick.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use crate::Tally;
use crate::hub::Refusal;

/// Different failures that are kept of a tick; more are only counted.
const MOST_FAILURES: usize = 8;
/// Of them, as many as a message names.
const NAMED: usize = 3;

/// What became of a tick.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// What was read, and what became of it before the hub.
    pub tally: Tally,
    /// Samples that the hub has taken.
    pub accepted: u64,
    /// Samples that could not be delivered.
    pub undelivered: u64,
    refused: [u64; Refusal::ALL.len()],
    /// Of those that were refused: it has them, or newer ones.
    there: u64,
    /// What the hub said when it refused first; rather to samples that it may not have.
    objection: Option<(bool, String)>,
    /// Each once, in the order in which they happened.
    failures: Vec<String>,
    /// Failures beyond those.
    more: u64,
}

/// How a tick succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Success {
    /// The hub has what was there to be sent.
    Sent,
    /// Nothing matched.
    Nothing,
}

impl Success {
    /// For the status: the same at every tick, so that it is written once.
    pub const fn message(self) -> &'static str {
        match self {
            Self::Sent => "metrics reach the hub",
            Self::Nothing => "there are no metrics to send",
        }
    }
}

impl Outcome {
    /// A chunk, a rule or a batch has failed, or the whole tick.
    pub(crate) fn fail(&mut self, failure: String) {
        if self.failures.contains(&failure) {
            return;
        }
        if self.failures.len() < MOST_FAILURES {
            self.failures.push(failure);
        } else {
            self.more += 1;
        }
    }

    /// The hub has refused a request with so many samples. What is true of one of several need not
    /// be of the others, which it has not taken either.
    pub(crate) fn refuse(&mut self, refusal: Refusal, samples: u64, said: &str) {
        self.refused[refusal as usize] += samples;
        let is_there = refusal.is_there() && (samples == 1 || refusal == Refusal::Conflict);
        if is_there {
            self.there += samples;
        }
        let is_worse = match &self.objection {
            None => true,
            Some((was_there, _)) => *was_there && !is_there,
        };
        if is_worse {
            self.objection = Some((is_there, said.to_owned()));
        }
    }

    pub(crate) fn refused_for(&self, refusal: Refusal) -> u64 {
        self.refused[refusal as usize]
    }

    /// Samples that the hub has refused, for whatever reason.
    pub fn refused(&self) -> u64 {
        self.refused.iter().sum()
    }

    /// What the hub said about the samples that it refused.
    pub fn objection(&self) -> Option<&str> {
        self.objection.as_ref().map(|(_, said)| said.as_str())
    }

    /// What failed, each once.
    pub fn failures(&self) -> &[String] {
        &self.failures
    }

    /// Whether the tick succeeded; else why not, without numbers that change with every tick.
    pub fn judge(&self) -> Result<Success, String> {
        if !self.failures.is_empty() {
            let mut text = self.failures[..self.failures.len().min(NAMED)].join("; ");
            if self.failures.len() > NAMED {
                text.push_str("; and more");
            }
            return Err(text);
        }
        let known = self.tally.unchanged + self.accepted + self.there;
        let missing = self.refused() - self.there;
        if missing > known {
            let said = self.objection().unwrap_or_default();
            return Err(format!(
                "the hub refuses more than half of the samples: {said}"
            ));
        }
        Ok(if known + missing == 0 {
            Success::Nothing
        } else {
            Success::Sent
        })
    }
}

/// An outcome that many write at once.
#[derive(Debug, Default)]
pub(crate) struct Ledger(Mutex<Outcome>);

impl Ledger {
    /// A panic elsewhere leaves it whole: every change is an addition.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Outcome> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(accepted: u64, refused: &[(Refusal, u64)]) -> Outcome {
        let mut outcome = Outcome {
            accepted,
            ..Outcome::default()
        };
        for (refusal, samples) in refused {
            for _ in 0..*samples {
                outcome.refuse(*refusal, 1, "the hub's text");
            }
        }
        outcome
    }

    #[test]
    fn a_tick_succeeds_if_the_hub_has_at_least_half_of_its_samples() {
        use Refusal::{Duplicate, OutOfBounds, OutOfOrder, TooOld};
        for (accepted, refused, succeeds) in [
            (10, vec![], true),
            (5, vec![(OutOfBounds, 5)], true),
            (5, vec![(OutOfBounds, 3), (TooOld, 3)], false),
            (0, vec![(OutOfBounds, 1)], false),
            (0, vec![(OutOfOrder, 5), (Duplicate, 5)], true),
            (0, vec![(OutOfOrder, 5), (OutOfBounds, 5)], true),
            (0, vec![(OutOfOrder, 5), (OutOfBounds, 6)], false),
        ] {
            let judged = outcome(accepted, &refused).judge();
            assert_eq!(judged.is_ok(), succeeds, "{accepted} {refused:?}");
            if let Err(text) = judged {
                assert!(text.contains("the hub's text"), "{text}");
            }
        }
    }

    #[test]
    fn what_is_refused_with_others_is_not_known_to_be_there() {
        let mut outcome = outcome(10, &[]);
        outcome.refuse(Refusal::OutOfOrder, 11, "out of order sample");
        let said = outcome.judge().unwrap_err();
        assert!(said.contains("out of order sample"), "{said}");
    }

    #[test]
    fn what_is_known_to_be_there_counts_with_what_was_accepted() {
        let mut outcome = outcome(0, &[(Refusal::OutOfBounds, 5)]);
        outcome.tally.unchanged = 4;
        assert!(outcome.judge().is_err());
        outcome.refuse(Refusal::Conflict, 1, "conflict");
        assert_eq!(outcome.judge(), Ok(Success::Sent));
        assert_eq!(outcome.objection(), Some("the hub's text"));
    }

    #[test]
    fn nothing_to_send_is_a_success_only_if_nothing_failed() {
        let mut outcome = Outcome::default();
        assert_eq!(outcome.judge(), Ok(Success::Nothing));
        outcome.fail("rule r: no answer".to_owned());
        assert_eq!(outcome.judge(), Err("rule r: no answer".to_owned()));
    }

    #[test]
    fn any_failure_fails_the_tick_and_is_named_once() {
        let mut outcome = outcome(1_000, &[]);
        for number in 0..50 {
            outcome.fail("a".to_owned());
            outcome.fail(format!("b{number}"));
        }
        let said = outcome.judge().unwrap_err();
        assert_eq!(said, "a; b0; b1; and more");
        assert_eq!(outcome.failures().len(), MOST_FAILURES);
    }
}
