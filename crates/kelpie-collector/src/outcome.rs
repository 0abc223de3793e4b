//! What became of a tick.

use serde::Serialize;

use crate::Tally;
use crate::hub::Refusal;

/// What became of a tick. Every sample that was put into a batch was accepted, refused, or not
/// delivered.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was read, and what became of it before the hub.
    pub tally: Tally,
    /// Samples that the hub has taken.
    pub accepted: u64,
    /// Samples that could not be delivered, or not before the tick was over.
    pub undelivered: u64,
    /// Whether the tick succeeded; else why not, without numbers that change with every tick.
    pub result: Result<Success, String>,
    pub(crate) refused: [u64; Refusal::ALL.len()],
    pub(crate) objection: Option<String>,
    pub(crate) failures: Vec<String>,
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
    pub(crate) fn refused_for(&self, refusal: Refusal) -> u64 {
        self.refused[refusal as usize]
    }

    /// Samples that the hub has refused, for whatever reason.
    pub fn refused(&self) -> u64 {
        self.refused.iter().sum()
    }

    /// What the hub said about the samples that it refused.
    pub fn objection(&self) -> Option<&str> {
        self.objection.as_deref()
    }

    /// What failed, each once.
    pub fn failures(&self) -> &[String] {
        &self.failures
    }

    /// What there is to say about it.
    pub fn message(&self) -> &str {
        match &self.result {
            Ok(success) => success.message(),
            Err(why) => why,
        }
    }
}
