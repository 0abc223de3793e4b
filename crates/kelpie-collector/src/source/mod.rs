//! Where samples come from.

mod federate;
mod matchers;
mod rule;

use std::ops::ControlFlow;
use std::time::Duration;

use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, HeaderValue};
use kelpie_net::{Network, Response};

pub use self::matchers::TooLong;
pub(crate) use self::matchers::deal;
pub use self::rule::RecordingRule;

use crate::queue::{Inlet, Stuck};
use crate::said::said;
use crate::site::{Access, Lent, Site, SiteError, SiteFault};
use crate::text::TextError;
use crate::tick::Tick;
use crate::underway::Underway;

/// Where a Prometheus federates. A URL that names it means the server.
const FEDERATE: &str = "/federate";

/// Of an answer that is no success.
const LARGEST_COMPLAINT: usize = 64 * 1024;

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
                    if note(tick, FEDERATE, read).is_break() {
                        return;
                    }
                }
            }
            Part::Rules => {
                for rule in &self.rules {
                    let read = self.evaluate(rule, tick, inlet).await;
                    let name = format!("recording rule {}", rule.name);
                    if note(tick, &name, read).is_break() {
                        return;
                    }
                }
            }
        }
    }

    /// An answer that is a success.
    async fn ask<'c>(
        &self,
        lent: &'c mut Lent,
        path: &str,
        accept: &'static str,
        asked: Underway,
    ) -> Result<Response<'c>, SourceFault> {
        let mut headers = self.site.headers()?;
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let answer = lent.connection.get(path, &headers).await;
        let answer = answer.map_err(|source| self.site.fault(source))?;
        asked.answered(answer.status);
        if !answer.status.is_success() {
            return Err(complaint(answer).await);
        }
        // Who compresses all the same is some proxy in between, and a bomb is no answer.
        match answer.header(&CONTENT_ENCODING) {
            None | Some("" | "identity") => Ok(answer),
            Some(how) => {
                let how: String = how.chars().take(20).collect();
                let text = format!("its answer is compressed ({how}), which was not asked for");
                Err(SourceFault::Answer(text))
            }
        }
    }
}

/// An answer that is no success, in words.
async fn complaint(mut answer: Response<'_>) -> SourceFault {
    let (status, headers) = (answer.status, std::mem::take(&mut answer.headers));
    let body = answer.collect(LARGEST_COMPLAINT).await.unwrap_or_default();
    let said = said(status, &headers, &String::from_utf8_lossy(&body));
    SourceFault::Status(match status.as_u16() {
        401 | 403 => format!("{said} (look at --from-token-file)"),
        _ => said,
    })
}

/// Names what has failed; breaks if there is no point in going on.
fn note(tick: &Tick, what: &str, read: Result<(), SourceFault>) -> ControlFlow<()> {
    let Err(fault) = read else {
        return ControlFlow::Continue(());
    };
    if let SourceFault::Stuck(_) = fault {
        tick.abort(fault.to_string());
        return ControlFlow::Break(());
    }
    let failure = format!("the source: {what}: {fault}");
    tick.ledger.lock().fail(failure);
    match fault {
        SourceFault::TooMuch(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    }
}

/// Batches that a pipeline has given, into the queue.
async fn push(batches: &mut Vec<crate::Batch>, inlet: &Inlet) -> Result<(), Stuck> {
    for batch in batches.drain(..) {
        inlet.push(batch).await?;
    }
    Ok(())
}
