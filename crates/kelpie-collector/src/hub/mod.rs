//! Where samples go.

mod allowance;
mod patience;
mod retry_after;
mod verdict;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use http::header::{
    CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER,
};
use http::{Method, StatusCode};
use kelpie_net::{Network, RequestError};
use tokio::time::{Instant, sleep, timeout};
use tracing::debug;

use self::allowance::Allowance;
use self::patience::{Patience, request_timeout};
use self::retry_after::retry_after;
pub(crate) use self::verdict::Refusal;
use self::verdict::{Verdict, verdict};
use crate::Batch;
use crate::metrics::Metrics;
use crate::queue::Queued;
use crate::said::said;
use crate::site::{Access, Site, SiteError, SiteFault};
use crate::tick::Tick;
use crate::underway::Kind;

/// Requests of a tick that only find out which samples the hub refuses.
const MOST_EXTRA: u32 = 64;

/// Of an answer's body.
const LARGEST_ANSWER: usize = 64 * 1024;

/// Where a URL without a path means to write.
const USUAL_PATH: &str = "/api/v1/write";

const VERSION: HeaderName = HeaderName::from_static("x-prometheus-remote-write-version");

/// Takes batches by remote write.
pub(crate) struct Hub {
    site: Site,
    path: String,
    allowance: Allowance,
}

/// What the deliveries of a tick share.
pub(crate) struct Course {
    began: Instant,
    /// The same by the wall's clock, in milliseconds since 1970.
    began_ms: i64,
    request_timeout: Duration,
    patience: Mutex<Patience>,
    extra: AtomicU32,
}

/// How an attempt to deliver a batch ended, and what there is to say about it.
struct Attempt {
    verdict: Verdict,
    said: String,
}

impl Course {
    pub(crate) fn new(interval: Duration, now_ms: i64) -> Self {
        Self {
            began: Instant::now(),
            began_ms: now_ms,
            request_timeout: request_timeout(interval),
            patience: Mutex::new(Patience::new(interval)),
            extra: AtomicU32::new(MOST_EXTRA),
        }
    }

    /// Now, as the servers tell time.
    fn wall(&self) -> SystemTime {
        let began = Duration::from_millis(u64::try_from(self.began_ms).unwrap_or_default());
        SystemTime::UNIX_EPOCH + began + self.began.elapsed()
    }

    fn pause(&self, times: u32, after: Option<Duration>) -> Option<Duration> {
        let mut patience = self.patience.lock().unwrap_or_else(PoisonError::into_inner);
        patience.pause(self.began.elapsed(), times, after, fastrand::f64())
    }

    /// Whether two more requests may be made to find out what is refused.
    fn may_halve(&self) -> bool {
        let take = |left: u32| left.checked_sub(2);
        let taken = self
            .extra
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        taken.is_ok()
    }
}

impl Hub {
    pub(crate) fn new(access: &Access, network: &Network) -> Result<Self, SiteError> {
        let site = Site::new(access, network)?;
        let path = match site.path() {
            "" => USUAL_PATH.to_owned(),
            path => path.to_owned(),
        };
        Ok(Self {
            site,
            path,
            allowance: Allowance::new(),
        })
    }

    /// Delivers a batch, or finds out by halves which samples of it the hub refuses. The larger
    /// halves go first, so that few requests clear many samples.
    pub(crate) async fn deliver(&self, queued: Queued, tick: &Tick) {
        let Tick {
            course,
            ledger,
            metrics,
            ..
        } = tick;
        // Its place in the queue is free when all of it is done.
        let Queued {
            batch,
            place: _place,
        } = queued;
        let mut open = VecDeque::from([batch]);
        while let Some(batch) = open.pop_front() {
            let size = batch.encoded().len();
            if !self.allowance.covers(size)
                && let Some((first, second)) = batch.halves()
            {
                open.push_front(second);
                open.push_front(first);
                continue;
            }
            let samples = batch.len() as u64;
            let Attempt { verdict, said } = self.attempt(&batch, course, metrics).await;
            let refusal = match verdict {
                Verdict::Delivered => {
                    self.allowance.grow();
                    tick.seen.acknowledge(&batch);
                    metrics.sent(samples);
                    ledger.lock().accepted += samples;
                    continue;
                }
                Verdict::Failed | Verdict::Retry(_) => {
                    ledger.lock().fail(format!("the hub: {said}"));
                    continue;
                }
                Verdict::TooLarge => {
                    // A single sample cannot be made smaller, and others may well be.
                    if samples > 1 {
                        self.allowance.shrink(size);
                    }
                    Refusal::TooLarge
                }
                Verdict::Refused(refusal) => refusal,
                Verdict::Superseded => Refusal::Conflict,
            };
            if samples > 1
                && refusal != Refusal::Conflict
                && course.may_halve()
                && let Some((first, second)) = batch.halves()
            {
                open.extend([first, second]);
            } else {
                debug!(samples, reason = refusal.name(), "the hub refuses: {said}");
                metrics.refused(refusal, samples);
                ledger.lock().refuse(refusal, samples, &said);
            }
        }
    }

    /// Until there is a verdict other than to try again, or no time for that.
    async fn attempt(&self, batch: &Batch, course: &Course, metrics: &Metrics) -> Attempt {
        let mut times = 0;
        loop {
            let attempt = self.post(batch, course, metrics).await;
            let Verdict::Retry(after) = attempt.verdict else {
                return attempt;
            };
            let Some(pause) = course.pause(times, after) else {
                return attempt;
            };
            debug!(?pause, "the hub is asked again: {}", attempt.said);
            sleep(pause).await;
            times += 1;
        }
    }

    async fn post(&self, batch: &Batch, course: &Course, metrics: &Metrics) -> Attempt {
        let asked = metrics.begin(Kind::Write);
        let limit = course.request_timeout;
        match timeout(limit, self.exchange(batch)).await {
            Ok(Ok((status, headers, body))) => {
                asked.answered(status);
                let after = headers.get(RETRY_AFTER).and_then(|text| text.to_str().ok());
                let after = after.and_then(|text| retry_after(text, course.wall()));
                Attempt {
                    verdict: verdict(status.as_u16(), &body, after),
                    said: said(status, &headers, &body),
                }
            }
            Ok(Err(fault)) => Attempt {
                verdict: if fault.may_pass() {
                    Verdict::Retry(None)
                } else {
                    Verdict::Failed
                },
                said: fault.to_string(),
            },
            Err(_) => Attempt {
                verdict: Verdict::Retry(None),
                said: format!("no answer within {limit:?}"),
            },
        }
    }

    /// Status, headers and text of an answer.
    async fn exchange(&self, batch: &Batch) -> Result<(StatusCode, HeaderMap, String), SiteFault> {
        let headers = self.headers()?;
        let mut lent = self.site.connect().await?;
        let fault = |source| self.site.fault(source);
        let connection = &mut lent.connection;
        let answer = connection.send(Method::POST, &self.path, &headers, batch.encoded());
        let mut answer = answer.await.map_err(fault)?;
        let (status, headers) = (answer.status, std::mem::take(&mut answer.headers));
        let body = match answer.collect(LARGEST_ANSWER).await {
            Ok(body) => String::from_utf8_lossy(&body).into_owned(),
            // The status is what counts.
            Err(RequestError::BodyTooLarge { .. }) => String::new(),
            Err(source) => return Err(fault(source)),
        };
        self.site.give_back(lent);
        Ok((status, headers, body))
    }

    fn headers(&self) -> Result<HeaderMap, SiteFault> {
        let mut headers = self.site.headers()?;
        let fixed = HeaderValue::from_static;
        headers.insert(CONTENT_TYPE, fixed("application/x-protobuf"));
        headers.insert(CONTENT_ENCODING, fixed("snappy"));
        headers.insert(VERSION, fixed("0.1.0"));
        Ok(headers)
    }
}
