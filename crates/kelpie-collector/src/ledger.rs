//! The books of a tick.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::hub::Refusal;
use crate::outcome::{Outcome, Success};
use crate::{Cause, Tally};

/// Different failures that are kept of a tick.
const MOST_FAILURES: usize = 8;
/// Of them, as many as a message names.
const NAMED: usize = 3;

/// Whoever sends nothing because a clock is wrong has not nothing to send.
const OUT_OF_TIME: &str = "nothing is left to send: samples are older than a day or more than five \
    minutes ahead; compare the clock here with the source's";

/// What has happened in a tick so far.
#[derive(Debug, Default)]
pub(crate) struct Account {
    /// What was read, and what became of it before the hub.
    pub(crate) tally: Tally,
    /// Samples that the hub has taken.
    pub(crate) accepted: u64,
    refused: [u64; Refusal::ALL.len()],
    /// Of those that were refused: it has them, or newer ones.
    there: u64,
    /// What the hub said when it refused first; rather to samples that it may not have.
    objection: Option<(bool, String)>,
    /// Each once, in the order in which they happened.
    failures: Vec<String>,
}

/// An account that many write at once.
#[derive(Debug, Default)]
pub(crate) struct Ledger(Mutex<Account>);

impl Ledger {
    /// A panic elsewhere leaves it whole: every change is an addition.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Account> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tick is over, and nobody writes any more.
    pub(crate) fn close(&self) -> Outcome {
        std::mem::take(&mut *self.lock()).close()
    }
}

impl Account {
    /// A chunk, a rule or a batch has failed, or the whole tick.
    pub(crate) fn fail(&mut self, failure: String) {
        if self.failures.len() < MOST_FAILURES && !self.failures.contains(&failure) {
            self.failures.push(failure);
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

    fn close(self) -> Outcome {
        let result = self.judge();
        let answered = self.accepted + self.refused.iter().sum::<u64>();
        Outcome {
            tally: self.tally,
            accepted: self.accepted,
            undelivered: self.tally.sent.saturating_sub(answered),
            result,
            refused: self.refused,
            objection: self.objection.map(|(_, said)| said),
            failures: self.failures,
        }
    }

    fn judge(&self) -> Result<Success, String> {
        if !self.failures.is_empty() {
            let mut text = self.failures[..self.failures.len().min(NAMED)].join("; ");
            if self.failures.len() > NAMED {
                text.push_str("; and more");
            }
            return Err(text);
        }
        let known = self.tally.unchanged + self.accepted + self.there;
        let missing = self.refused.iter().sum::<u64>() - self.there;
        if missing > known {
            let said = self.objection.as_ref().map_or("", |(_, said)| said);
            return Err(format!(
                "the hub refuses more than half of the samples: {said}"
            ));
        }
        if known + missing > 0 {
            return Ok(Success::Sent);
        }
        let out_of_time = [Cause::Old, Cause::Future].map(|cause| self.tally.filtered(cause));
        if out_of_time.iter().any(|samples| *samples > 0) {
            return Err(OUT_OF_TIME.to_owned());
        }
        Ok(Success::Nothing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The books of a tick with these answers of the hub.
    fn account(accepted: u64, refused: &[(Refusal, u64)]) -> Account {
        let mut account = Account {
            accepted,
            ..Account::default()
        };
        for (refusal, samples) in refused {
            for _ in 0..*samples {
                account.refuse(*refusal, 1, "the hub's text");
            }
        }
        account
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
            let result = account(accepted, &refused).close().result;
            assert_eq!(result.is_ok(), succeeds, "{accepted} {refused:?}");
            if let Err(text) = result {
                assert!(text.contains("the hub's text"), "{text}");
            }
        }
    }

    #[test]
    fn what_is_refused_with_others_is_not_known_to_be_there() {
        let mut account = account(10, &[]);
        account.refuse(Refusal::OutOfOrder, 11, "out of order sample");
        let said = account.judge().unwrap_err();
        assert!(said.contains("out of order sample"), "{said}");
    }

    #[test]
    fn what_is_known_to_be_there_counts_with_what_was_accepted() {
        let mut account = account(0, &[(Refusal::OutOfBounds, 5)]);
        account.tally.unchanged = 4;
        assert!(account.judge().is_err());
        account.refuse(Refusal::Conflict, 1, "conflict");
        assert_eq!(account.judge(), Ok(Success::Sent));
        assert_eq!(account.close().objection(), Some("the hub's text"));
    }

    #[test]
    fn nothing_to_send_is_a_success_only_if_nothing_failed() {
        let mut account = Account::default();
        assert_eq!(account.judge(), Ok(Success::Nothing));
        account.fail("rule r: no answer".to_owned());
        assert_eq!(account.judge(), Err("rule r: no answer".to_owned()));
    }

    #[test]
    fn any_failure_fails_the_tick_and_is_named_once() {
        let mut account = account(1_000, &[]);
        for number in 0..50 {
            account.fail("a".to_owned());
            account.fail(format!("b{number}"));
        }
        let said = account.judge().unwrap_err();
        assert_eq!(said, "a; b0; b1; and more");
        assert_eq!(account.close().failures().len(), MOST_FAILURES);
    }
}
