//! Reads samples from a Prometheus.

mod federate;
mod matchers;
mod recording_rule;

use std::ops::ControlFlow;
use std::time::Duration;

use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, HeaderValue};
use kelpie_net::{Network, Response};

pub use self::matchers::MatcherTooLong;
pub(crate) use self::matchers::assign_matchers;
pub use self::recording_rule::RecordingRule;

use crate::http_error::http_error;
use crate::peer::{HttpPeer, PeerConfig, PeerConfigError, PeerError, PooledConnection};
use crate::queue::{BatchSender, QueueFull};
use crate::request_metrics::RequestInFlight;
use crate::text::TextError;
use crate::tick::Tick;

/// The federate path. It is removed from a URL that ends with it.
const FEDERATE_PATH: &str = "/federate";

/// Limits the body of an error response.
const MAX_ERROR_BYTES: usize = 64 * 1024;

/// A Prometheus with the queries for it.
pub(crate) struct PrometheusSource {
    peer: HttpPeer,
    /// The path of the URL without `/federate`.
    base: String,
    /// The federate queries of each worker.
    worker_queries: Vec<Vec<String>>,
    rules: Vec<RecordingRule>,
}

/// The part of a tick's reading that runs as one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadTask {
    /// The federate queries of one worker, by its index.
    Federate(usize),
    /// All recording rules, one after the other.
    RecordingRules,
}

/// A failed [`ReadTask`], or a part of one.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SourceError {
    #[error("{0}")]
    Peer(#[from] PeerError),
    #[error("{0}")]
    Text(#[from] TextError),
    #[error("{0}")]
    Response(String),
    #[error("the responses of one tick are larger than --limit-bytes {0}")]
    TooMuch(u64),
    #[error(
        "the hub is too slow: the queue was full for {0:?}; stopped reading to unblock the source"
    )]
    QueueFull(Duration),
}

impl From<QueueFull> for SourceError {
    fn from(QueueFull: QueueFull) -> Self {
        Self::QueueFull(crate::queue::SEND_TIMEOUT)
    }
}

impl PrometheusSource {
    pub(crate) fn new(
        config: &PeerConfig,
        network: &Network,
        worker_queries: Vec<Vec<String>>,
        rules: Vec<RecordingRule>,
    ) -> Result<Self, PeerConfigError> {
        let peer = HttpPeer::new(config, network)?;
        let base = peer.path().trim_end_matches('/');
        let base = base.strip_suffix(FEDERATE_PATH).unwrap_or(base).to_owned();
        Ok(Self {
            peer,
            base,
            worker_queries,
            rules,
        })
    }

    /// Returns the tasks of a tick.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = ReadTask> {
        let rules = (!self.rules.is_empty()).then_some(ReadTask::RecordingRules);
        (0..self.worker_queries.len())
            .map(ReadTask::Federate)
            .chain(rules)
    }

    /// Runs a task, which reads samples into the queue. Failures are recorded in the stats and
    /// reading continues, unless the failure ends the whole tick.
    pub(crate) async fn read(&self, task: ReadTask, tick: &Tick, sender: &BatchSender) {
        match task {
            ReadTask::Federate(worker) => {
                for query in &self.worker_queries[worker] {
                    let read = self.federate(query, tick, sender).await;
                    if record_failure(tick, FEDERATE_PATH, read).is_break() {
                        return;
                    }
                }
            }
            ReadTask::RecordingRules => {
                for rule in &self.rules {
                    let read = self.evaluate(rule, tick, sender).await;
                    let name = format!("recording rule {}", rule.name);
                    if record_failure(tick, &name, read).is_break() {
                        return;
                    }
                }
            }
        }
    }

    /// Sends a GET request. Returns an error if the response is not a success.
    async fn get<'c>(
        &self,
        pooled: &'c mut PooledConnection,
        path: &str,
        accept: &'static str,
        request: RequestInFlight,
    ) -> Result<Response<'c>, SourceError> {
        let mut headers = self.peer.headers()?;
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let response = pooled.connection.get(path, &headers).await;
        let response = response.map_err(|source| self.peer.request_error(source))?;
        request.responded(response.status);
        if !response.status.is_success() {
            return Err(status_error(response).await);
        }
        // Only a proxy compresses unasked. Nothing is decompressed, so that there are no zip bombs.
        match response.header(&CONTENT_ENCODING) {
            None | Some("" | "identity") => Ok(response),
            Some(encoding) => {
                let encoding: String = encoding.chars().take(20).collect();
                let text =
                    format!("the response is compressed ({encoding}), which was not requested");
                Err(SourceError::Response(text))
            }
        }
    }
}

/// Describes a response that is not a success.
async fn status_error(mut response: Response<'_>) -> SourceError {
    let (status, headers) = (response.status, std::mem::take(&mut response.headers));
    let body = response.collect(MAX_ERROR_BYTES).await.unwrap_or_default();
    let error = http_error(status, &headers, &String::from_utf8_lossy(&body));
    SourceError::Response(match status.as_u16() {
        401 | 403 => format!("{error} (check --from-token-file)"),
        _ => error,
    })
}

/// Records a failure in the stats. Breaks if it ends the task.
fn record_failure(tick: &Tick, query: &str, read: Result<(), SourceError>) -> ControlFlow<()> {
    let Err(error) = read else {
        return ControlFlow::Continue(());
    };
    if let SourceError::QueueFull(_) = error {
        tick.abort(error.to_string());
        return ControlFlow::Break(());
    }
    let failure = format!("source: {query}: {error}");
    tick.stats.lock().fail(failure);
    match error {
        SourceError::TooMuch(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    }
}

/// Moves the batches of a pipeline into the queue.
async fn send_all(batches: &mut Vec<crate::Batch>, sender: &BatchSender) -> Result<(), QueueFull> {
    for batch in batches.drain(..) {
        sender.send(batch).await?;
    }
    Ok(())
}
