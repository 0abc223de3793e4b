//! Where samples come from.

mod federate;
mod matchers;
mod rule;

use std::time::Duration;

use kelpie_net::Network;

pub use self::matchers::TooLong;
pub(crate) use self::matchers::deal;
pub use self::rule::RecordingRule;

use crate::queue::{Inlet, Stuck};
use crate::site::{Access, Site, SiteError, SiteFault};
use crate::text::TextError;
use crate::tick::Tick;

/// Where a Prometheus federates. A URL that names it means the server.
const FEDERATE: &str = "/federate";

/// A Prometheus, and what is wanted of it.
pub(crate) struct Source {
    site: Site,
    /// Of the server, without `/federate`.
    base: String,
    /// The federate queries of each worker.
    hands: Vec<Vec<String>>,
    rules: Vec<RecordingRule>,
}

/// A part of a tick's reading, for one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The federate queries of one worker.
    Hand(usize),
    /// All recording rules.
    Rules,
}

/// Why a part of the reading failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SourceFault {
    #[error("{0}")]
    Site(#[from] SiteFault),
    #[error("{0}")]
    Status(String),
    #[error("{0}")]
    Text(#[from] TextError),
    #[error("{0}")]
    Answer(String),
    #[error("what it sends in a tick is larger than --limit-bytes {0}")]
    TooMuch(u64),
    #[error(
        "the hub is too slow: the queue to it was full for {0:?}, and the source must not wait"
    )]
    Stuck(Duration),
}

impl From<Stuck> for SourceFault {
    fn from(Stuck: Stuck) -> Self {
        Self::Stuck(crate::queue::PATIENCE)
    }
}

impl Source {
    pub(crate) fn new(
        access: &Access,
        network: &Network,
        hands: Vec<Vec<String>>,
        rules: Vec<RecordingRule>,
    ) -> Result<Self, SiteError> {
        let site = Site::new(access, network)?;
        let base = site.path();
        let base = base.strip_suffix(FEDERATE).unwrap_or(base).to_owned();
        Ok(Self {
            site,
            base,
            hands,
            rules,
        })
    }

    /// What is to be read in a tick, each by a task of its own.
    pub(crate) fn parts(&self) -> impl Iterator<Item = Part> {
        let rules = (!self.rules.is_empty()).then_some(Part::Rules);
        (0..self.hands.len()).map(Part::Hand).chain(rules)
    }

    /// Reads a part into the queue. What fails is named in the ledger, and the rest goes on, but for
    /// what ends the whole tick.
    pub(crate) async fn read(&self, part: Part, tick: &Tick, inlet: &Inlet) {
        match part {
            Part::Hand(worker) => {
                for query in &self.hands[worker] {
                    let read = self.federate(query, tick, inlet).await;
                    if let Err(fault) = read
                        && self.failed("/federate", &fault, tick)
                    {
                        return;
                    }
                }
            }
            Part::Rules => {
                for rule in &self.rules {
                    let read = self.evaluate(rule, tick, inlet).await;
                    let name = format!("recording rule {}", rule.name);
                    if let Err(fault) = read
                        && self.failed(&name, &fault, tick)
                    {
                        return;
                    }
                }
            }
        }
    }

    /// True if there is no point in going on.
    #[expect(clippy::unused_self, reason = "the source is who has failed")]
    fn failed(&self, what: &str, fault: &SourceFault, tick: &Tick) -> bool {
        if let SourceFault::Stuck(_) = fault {
            tick.abort(fault.to_string());
            return true;
        }
        tick.ledger
            .lock()
            .fail(format!("the source: {what}: {fault}"));
        matches!(fault, SourceFault::TooMuch(_))
    }
}

/// Batches that a pipeline has given, into the queue.
async fn push(batches: &mut Vec<crate::Batch>, inlet: &Inlet) -> Result<(), Stuck> {
    for batch in batches.drain(..) {
        inlet.push(batch).await?;
    }
    Ok(())
}
