//! The outcome of a tick.

use crate::SampleCounts;
use crate::remote_write::RefusalReason;

/// The outcome of a tick. Every sample that was put into a batch was accepted, refused, or not
/// delivered.
#[derive(Clone, Debug)]
pub struct TickOutcome {
    /// The samples up to the hub: read, filtered, unchanged and put into batches.
    pub counts: SampleCounts,
    /// Samples that the hub accepted.
    pub accepted: u64,
    /// Samples that could not be delivered, or not before the tick ended.
    pub undelivered: u64,
    /// The result of the tick. An error has no numbers that change with every tick.
    pub result: Result<TickSuccess, String>,
    pub(crate) refused: [u64; RefusalReason::ALL.len()],
    /// The hub's message about the samples that it refused.
    pub refusal_message: Option<String>,
    /// The distinct failures of the tick.
    pub failures: Vec<String>,
}

/// The ways in which a tick succeeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TickSuccess {
    /// The hub has everything that was to be sent.
    Sent,
    /// No series matched, so there was nothing to send.
    Nothing,
}

impl TickSuccess {
    /// Returns the message for the status. It is the same at every tick, so that the status is
    /// written only once.
    pub const fn message(self) -> &'static str {
        match self {
            Self::Sent => "metrics reach the hub",
            Self::Nothing => "there are no metrics to send",
        }
    }
}

impl TickOutcome {
    /// Returns the number of samples that the hub refused, for any reason.
    pub fn refused(&self) -> u64 {
        self.refused.iter().sum()
    }

    /// Returns the message for the status and the log.
    pub fn message(&self) -> &str {
        match &self.result {
            Ok(success) => success.message(),
            Err(failure) => failure,
        }
    }
}
