//! Writes batches to the hub.

mod hub_pause;
mod request_size;
mod retry_after;
mod write_status;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use http::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
    RETRY_AFTER,
};
use http::{Method, StatusCode};
use kelpie_net::Network;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};
use tracing::debug;

use self::hub_pause::HubPause;
use self::request_size::RequestSizeLimit;
use self::retry_after::retry_after;
pub(crate) use self::write_status::RefusalReason;
use self::write_status::{WriteStatus, classify};
use crate::Batch;
use crate::http_error::{body_start, http_error};
use crate::metrics::CollectorMetrics;
use crate::peer::{HttpPeer, PeerConfig, PeerConfigError, PeerError};
use crate::queue::QueuedBatch;
use crate::request_metrics::RequestKind;
use crate::retry_budget::SharedRetryBudget;
use crate::tick::Tick;
use crate::time_limit::TimeLimit;

/// Limits the requests of a tick that only find out which samples the hub refuses.
const MAX_EXTRA_REQUESTS: u32 = 64;

/// The batches in a row whose retries may fail before the tick gives up on the hub. A single one
/// can be the fault of its samples.
const MAX_LOST_BATCHES: u32 = 3;

/// Limits the time for the body of a success, which is read only to reuse the connection.
const SUCCESS_BODY_TIMEOUT: Duration = Duration::from_secs(1);

/// The path for a URL without one.
const DEFAULT_PATH: &str = "/api/v1/write";

const VERSION_HEADER: HeaderName = HeaderName::from_static("x-prometheus-remote-write-version");

/// Sends batches to a hub by Prometheus remote write 1.0.
pub(crate) struct RemoteWriter {
    peer: HttpPeer,
    path: String,
    size_limit: RequestSizeLimit,
    pause: HubPause,
}

/// Limits the time of one request, which also has at most a third of an interval.
const MAX_REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The limits that all deliveries of a tick share.
pub(crate) struct DeliveryContext {
    /// The start of the tick by the wall clock, in Unix milliseconds.
    started_ms: i64,
    request_timeout: Duration,
    retry_budget: SharedRetryBudget,
    /// Requests that are left to find out which samples the hub refuses.
    extra_requests: AtomicU32,
    lost: Mutex<LostBatches>,
}

/// The last batches in a row that were lost despite retries.
#[derive(Debug, Default)]
struct LostBatches {
    count: u32,
    /// The failure of the last one.
    message: String,
}

/// The result of one attempt to deliver a batch, with a message for people.
struct WriteAttempt {
    status: WriteStatus,
    message: String,
}

impl DeliveryContext {
    pub(crate) fn new(interval: Duration, now_ms: i64) -> Self {
        Self {
            started_ms: now_ms,
            request_timeout: MAX_REQUEST_TIMEOUT.min(interval / 3),
            retry_budget: SharedRetryBudget::start(interval),
            extra_requests: AtomicU32::new(MAX_EXTRA_REQUESTS),
            lost: Mutex::default(),
        }
    }

    /// Returns the wall-clock time.
    fn wall_clock(&self) -> SystemTime {
        let started = Duration::from_millis(u64::try_from(self.started_ms).unwrap_or_default());
        SystemTime::UNIX_EPOCH + started + self.retry_budget.started.elapsed()
    }

    /// Reserves the two requests that the halves of a batch need. Returns false if none are left.
    fn may_halve(&self) -> bool {
        let take = |left: u32| left.checked_sub(2);
        let taken = self
            .extra_requests
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        taken.is_ok()
    }
}

impl RemoteWriter {
    pub(crate) fn new(config: &PeerConfig, network: &Network) -> Result<Self, PeerConfigError> {
        let peer = HttpPeer::new(config, network)?;
        let path = match peer.path() {
            "" => DEFAULT_PATH.to_owned(),
            path => path.to_owned(),
        };
        Ok(Self {
            peer,
            path,
            size_limit: RequestSizeLimit::new(),
            pause: HubPause::default(),
        })
    }

    /// Delivers a batch. If the hub refuses it, bisects it to find the refused samples. Larger
    /// parts go first, so that few requests deliver many samples.
    pub(crate) async fn deliver(&self, queued: QueuedBatch, tick: &Tick) {
        let Tick {
            delivery,
            stats,
            metrics,
            ..
        } = tick;
        // The permit is held until all parts of the batch are done.
        let QueuedBatch {
            batch,
            permit: _permit,
        } = queued;
        let mut pending = VecDeque::from([batch]);
        while let Some(batch) = pending.pop_front() {
            let size = batch.encoded().len();
            if !self.size_limit.allows(size)
                && let Some((first, second)) = batch.halves()
            {
                pending.push_front(second);
                pending.push_front(first);
                continue;
            }
            let samples = batch.len() as u64;
            let WriteAttempt { status, message } = self.attempt(&batch, delivery, metrics).await;
            let reason = match status {
                WriteStatus::Delivered => {
                    self.size_limit.grow();
                    tick.dedup.acknowledge(&batch);
                    metrics.sent.inc_by(samples);
                    stats.lock().accepted += samples;
                    continue;
                }
                WriteStatus::Failed | WriteStatus::Retry(_) => {
                    stats.lock().fail(format!("hub: {message}"));
                    continue;
                }
                WriteStatus::TooLarge => {
                    // A single sample says nothing about the limit for other requests.
                    if samples > 1 {
                        self.size_limit.shrink(size);
                    }
                    RefusalReason::TooLarge
                }
                WriteStatus::Refused(reason) => reason,
            };
            let is_divisible = match reason {
                RefusalReason::Conflict => false,
                RefusalReason::TooLarge => RequestSizeLimit::is_above_minimum(size),
                _ => true,
            };
            if samples > 1
                && is_divisible
                && delivery.may_halve()
                && let Some((first, second)) = batch.halves()
            {
                pending.extend([first, second]);
            } else {
                debug!(
                    samples,
                    reason = reason.name(),
                    "hub refused samples: {message}"
                );
                metrics.samples_refused(reason, samples);
                stats.lock().refuse(reason, samples, &message);
            }
        }
    }

    /// Sends a batch until the result is final or there is no time for another retry.
    async fn attempt(
        &self,
        batch: &Batch,
        delivery: &DeliveryContext,
        metrics: &CollectorMetrics,
    ) -> WriteAttempt {
        let mut retries = 0;
        loop {
            if let Err(message) = self.wait_for_hub(delivery).await {
                let status = WriteStatus::Failed;
                return WriteAttempt { status, message };
            }
            let attempt = self.post(batch, delivery, metrics).await;
            let WriteStatus::Retry(retry_after) = attempt.status else {
                *delivery.lost.lock() = LostBatches::default();
                return attempt;
            };
            let backoff = delivery.retry_budget.backoff(retries, retry_after);
            if let Some(pause) = backoff.or(retry_after) {
                let until = Instant::now() + pause;
                self.pause.extend(until, &attempt.message);
            }
            if backoff.is_none() {
                let mut lost = delivery.lost.lock();
                lost.count += 1;
                lost.message.clone_from(&attempt.message);
                return attempt;
            }
            debug!(?backoff, "retrying a write to the hub: {}", attempt.message);
            retries += 1;
        }
    }

    /// Waits for the end of the hub's pause. Returns a message if no request may be sent in this
    /// tick any more.
    async fn wait_for_hub(&self, delivery: &DeliveryContext) -> Result<(), String> {
        while let Some(pause) = self.pause.pending() {
            if !delivery.retry_budget.allows_wait(pause.until) {
                let message = pause.message;
                return Err(format!(
                    "waiting as the hub asked with Retry-After: {message}"
                ));
            }
            sleep_until(pause.until).await;
        }
        let lost = delivery.lost.lock();
        if lost.count >= MAX_LOST_BATCHES {
            return Err(lost.message.clone());
        }
        Ok(())
    }

    async fn post(
        &self,
        batch: &Batch,
        delivery: &DeliveryContext,
        metrics: &CollectorMetrics,
    ) -> WriteAttempt {
        let request = metrics.start_request(RequestKind::Write);
        let limit = TimeLimit::start(delivery.request_timeout);
        match self.exchange(batch, limit).await {
            Ok((status, headers, body)) => {
                request.responded(status);
                let after = headers.get(RETRY_AFTER).and_then(|text| text.to_str().ok());
                let after = after.and_then(|text| retry_after(text, delivery.wall_clock()));
                WriteAttempt {
                    status: classify(status.as_u16(), &body, after),
                    message: http_error(status, &headers, &body),
                }
            }
            Err(error) => WriteAttempt {
                status: if error.is_transient() {
                    WriteStatus::Retry(None)
                } else {
                    WriteStatus::Failed
                },
                message: error.to_string(),
            },
        }
    }

    /// Sends a batch once. Returns the status, the headers and the text of the response. Once the
    /// status is there, the body cannot fail the request.
    async fn exchange(
        &self,
        batch: &Batch,
        limit: TimeLimit,
    ) -> Result<(StatusCode, HeaderMap, String), PeerError> {
        let headers = self.headers()?;
        let mut pooled = limit.wait(self.peer.connect()).await??;
        let connection = &mut pooled.connection;
        let response = connection.send(Method::POST, &self.path, &headers, batch.encoded());
        let response = limit.wait(response).await?;
        let mut response = response.map_err(|source| self.peer.request_error(source))?;
        let (status, headers) = (response.status, std::mem::take(&mut response.headers));
        let deadline = if status.is_success() {
            limit.deadline.min(Instant::now() + SUCCESS_BODY_TIMEOUT)
        } else {
            limit.deadline
        };
        let body = body_start(&mut response, deadline).await;
        self.peer.release(pooled);
        Ok((status, headers, body))
    }

    fn headers(&self) -> Result<HeaderMap, PeerError> {
        let mut headers = self.peer.headers()?;
        let fixed = HeaderValue::from_static;
        // The text of an error is read as it is.
        headers.insert(ACCEPT_ENCODING, fixed("identity"));
        headers.insert(CONTENT_TYPE, fixed("application/x-protobuf"));
        headers.insert(CONTENT_ENCODING, fixed("snappy"));
        headers.insert(VERSION_HEADER, fixed("0.1.0"));
        Ok(headers)
    }
}
