//! Reads samples from a Prometheus.

mod federate;
mod matchers;
mod recording_rule;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, HeaderValue};
use kelpie_net::{Network, Response};
use tokio::time::{Instant, sleep};
use tracing::debug;

pub use self::matchers::MatcherTooLong;
pub(crate) use self::matchers::assign_matchers;
pub use self::recording_rule::RecordingRule;

use crate::http_error::{body_start, http_error};
use crate::peer::{HttpPeer, PeerConfig, PeerConfigError, PeerError, PooledConnection};
use crate::queue::{BatchSender, QueueFull};
use crate::request_metrics::RequestInFlight;
use crate::retry_budget::SharedRetryBudget;
use crate::text::TextError;
use crate::tick::Tick;
use crate::time_limit::TimeLimit;

/// The federate path. It is removed from a URL that ends with it.
const FEDERATE_PATH: &str = "/federate";

/// Limits the time to the head of a response, and between two parts of a body. A source computes
/// the whole result before the head. It also has at most a fifth of an interval.
const MAX_RESPONSE_TIMEOUT: Duration = Duration::from_mins(1);

/// Limits the time for the body of an error.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(1);

/// Limits the retries of one query.
const MAX_RETRIES: u32 = 2;

/// The HTTP API of a Prometheus, or of what answers queries in its place.
struct PrometheusApi {
    peer: HttpPeer,
    /// The path of the URL without `/federate`.
    base: String,
}

/// A Prometheus with the queries for it.
pub(crate) struct PrometheusSource {
    api: Arc<PrometheusApi>,
    /// The API that evaluates recording rules.
    query_api: Arc<PrometheusApi>,
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

/// A query of a [`ReadTask`].
#[derive(Clone, Copy, Debug)]
enum Query<'a> {
    /// The query of a federate request.
    Federate(&'a str),
    RecordingRule(&'a RecordingRule),
}

/// The limits that all requests of a tick to the source share.
pub(crate) struct ReadingContext {
    response_timeout: Duration,
    retry_budget: SharedRetryBudget,
}

impl ReadingContext {
    pub(crate) fn new(interval: Duration) -> Self {
        Self {
            response_timeout: MAX_RESPONSE_TIMEOUT.min(interval / 5),
            retry_budget: SharedRetryBudget::start(interval),
        }
    }
}

/// A failed [`ReadTask`], or a part of one.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SourceError {
    #[error("{0}")]
    Peer(#[from] PeerError),
    /// The body was cut. Its complete lines are on their way to the hub.
    #[error("{0}")]
    CutBody(PeerError),
    #[error("the body stalled for {0:?}")]
    StalledBody(Duration),
    #[error("{1}")]
    Status(StatusCode, String),
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

impl SourceError {
    /// Returns true if a retry may succeed and repeats nothing that was read.
    fn is_transient(&self) -> bool {
        match self {
            Self::Peer(error) => error.is_transient(),
            Self::Status(status, _) => {
                status.is_server_error() || *status == StatusCode::TOO_MANY_REQUESTS
            }
            _ => false,
        }
    }
}

impl From<QueueFull> for SourceError {
    fn from(QueueFull: QueueFull) -> Self {
        Self::QueueFull(crate::queue::SEND_TIMEOUT)
    }
}

impl PrometheusSource {
    /// Creates a source. Recording rules are evaluated by `queries`, or without it by the source
    /// itself.
    pub(crate) fn new(
        config: &PeerConfig,
        queries: Option<&PeerConfig>,
        network: &Network,
        worker_queries: Vec<Vec<String>>,
        rules: Vec<RecordingRule>,
    ) -> Result<Self, PeerConfigError> {
        let api = Arc::new(PrometheusApi::new(config, network)?);
        let query_api = match queries {
            Some(config) => Arc::new(PrometheusApi::new(config, network)?),
            None => Arc::clone(&api),
        };
        Ok(Self {
            api,
            query_api,
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
                    let read = self.run(Query::Federate(query), tick, sender).await;
                    if record_failure(tick, FEDERATE_PATH, read).is_break() {
                        return;
                    }
                }
            }
            ReadTask::RecordingRules => {
                for rule in &self.rules {
                    let read = self.run(Query::RecordingRule(rule), tick, sender).await;
                    let name = format!("recording rule {}", rule.name);
                    if record_failure(tick, &name, read).is_break() {
                        return;
                    }
                }
            }
        }
    }

    /// Runs a query, again if that may help and there is time for it.
    async fn run(
        &self,
        query: Query<'_>,
        tick: &Tick,
        sender: &BatchSender,
    ) -> Result<(), SourceError> {
        let mut retries = 0;
        loop {
            let read = match query {
                Query::Federate(query) => self.federate(query, tick, sender).await,
                Query::RecordingRule(rule) => self.evaluate(rule, tick, sender).await,
            };
            let Err(error) = read else {
                return Ok(());
            };
            if !error.is_transient() || retries == MAX_RETRIES {
                return Err(error);
            }
            let Some(backoff) = tick.reading.retry_budget.backoff(retries, None) else {
                return Err(error);
            };
            debug!(?backoff, "retrying a request to the source: {error}");
            sleep(backoff).await;
            retries += 1;
        }
    }
}

impl PrometheusApi {
    fn new(config: &PeerConfig, network: &Network) -> Result<Self, PeerConfigError> {
        let peer = HttpPeer::new(config, network)?;
        let base = peer.path().trim_end_matches('/');
        let base = base.strip_suffix(FEDERATE_PATH).unwrap_or(base).to_owned();
        Ok(Self { peer, base })
    }

    /// Sends a GET request. Returns an error if the response is not a success.
    async fn get<'c>(
        &self,
        pooled: &'c mut PooledConnection,
        path: &str,
        accept: &'static str,
        request: RequestInFlight,
        limit: TimeLimit,
    ) -> Result<Response<'c>, SourceError> {
        let mut headers = self.peer.headers()?;
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let response = limit.wait(pooled.connection.get(path, &headers)).await?;
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
    let body = body_start(&mut response, Instant::now() + ERROR_BODY_TIMEOUT).await;
    let error = http_error(status, &headers, &body);
    let text = match status.as_u16() {
        401 | 403 => format!("{error} (check --from-token-file)"),
        _ => error,
    };
    SourceError::Status(status, text)
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
