//! A hub in this process that follows the rules of a Prometheus.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, Request, Response, StatusCode};
use kelpie_net::{BodyAborted, ResponseBody};
use prost::Message;
use tokio::time::{Instant, sleep};

/// The age at which a Prometheus refuses a sample of a new series, relative to its newest sample:
/// half a block.
const MAX_AGE_MS: i64 = 3_600_000;

#[derive(Clone, PartialEq, Message)]
struct WriteRequest {
    #[prost(message, repeated, tag = "1")]
    series: Vec<TimeSeries>,
}

#[derive(Clone, PartialEq, Message)]
struct TimeSeries {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<Label>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<Sample>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(double, tag = "1")]
    value: f64,
    #[prost(int64, tag = "2")]
    timestamp: i64,
}

/// A scripted reply that replaces the rules.
#[derive(Clone, Debug)]
pub enum Reply {
    Status(u16, &'static str),
    RetryAfter(u16, &'static str),
    /// Closes the connection without a response.
    Reset,
    /// Keeps the connection open but never responds.
    Silence,
    /// Stores the samples, then closes the connection without a response.
    StoreAndReset,
    /// Closes the connection within the body.
    CutBody(u16, &'static str),
    /// Sends this text and never ends the body.
    HungBody(u16, &'static str),
    /// Sends this text, and spaces up to this many bytes.
    LongBody(u16, &'static str, usize),
    /// Stores the samples and answers with a header of this many bytes.
    LongHead(usize),
}

/// A request that arrived.
#[derive(Clone, Debug)]
pub struct ReceivedRequest {
    pub at: Instant,
    pub path: String,
    pub headers: HeaderMap,
    pub samples: usize,
}

#[derive(Default)]
pub struct FakeHub(Mutex<FakeHubState>);

#[derive(Default)]
pub struct FakeHubState {
    /// The newest timestamp and value of each series, by `name{…}`.
    pub series: BTreeMap<String, (i64, f64)>,
    pub requests: Vec<ReceivedRequest>,
    pub script: VecDeque<Reply>,
    /// The reply to all requests after the script.
    pub always: Option<Reply>,
    /// Limits the samples of a request.
    pub max_samples: Option<usize>,
    /// Limits the bytes of a request.
    pub max_bytes: Option<usize>,
    /// Answers 500 to every request with this series.
    pub refuse_series: Option<String>,
    /// Answers 400 with a text of its own to every request with this series.
    pub limited_series: Option<String>,
    /// The number of opened connections.
    pub connections: usize,
    /// The number of stored samples. A sample counts each time that it is stored.
    pub stored: usize,
}

impl FakeHub {
    pub fn lock(&self) -> MutexGuard<'_, FakeHubState> {
        self.0.lock().unwrap()
    }

    pub async fn respond(&self, request: Request<Bytes>) -> Option<Response<ResponseBody>> {
        let body = snap::raw::Decoder::new().decompress_vec(request.body());
        let body = WriteRequest::decode(body.unwrap().as_slice()).unwrap();
        let reply = {
            let mut state = self.lock();
            state.requests.push(ReceivedRequest {
                at: Instant::now(),
                path: request.uri().to_string(),
                headers: request.headers().clone(),
                samples: body.series.len(),
            });
            state.script.pop_front().or_else(|| state.always.clone())
        };
        match reply {
            None => {
                let mut state = self.lock();
                let size = request.body().len();
                let (status, text) = match state.max_bytes {
                    Some(max) if size > max => (413, "too large"),
                    _ => state.write(&body),
                };
                Some(plain(status, text))
            }
            Some(Reply::Status(status, text)) => Some(plain(status, text)),
            Some(Reply::RetryAfter(status, when)) => {
                let mut response = plain(status, "later");
                let when = when.parse().unwrap();
                response.headers_mut().insert("retry-after", when);
                Some(response)
            }
            Some(Reply::Reset) => None,
            Some(Reply::StoreAndReset) => {
                self.lock().write(&body);
                None
            }
            Some(Reply::Silence) => std::future::pending().await,
            Some(Reply::CutBody(status, text)) => Some(streamed(status, text, true)),
            Some(Reply::HungBody(status, text)) => Some(streamed(status, text, false)),
            Some(Reply::LongBody(status, text, size)) => {
                Some(plain(status, &format!("{text}{}", " ".repeat(size))))
            }
            Some(Reply::LongHead(size)) => {
                let (status, text) = self.lock().write(&body);
                let mut response = plain(status, text);
                let long = "x".repeat(size).parse().unwrap();
                response.headers_mut().insert("x-long", long);
                Some(response)
            }
        }
    }
}

impl FakeHubState {
    /// Stores all samples of a request or none, like a Prometheus.
    fn write(&mut self, request: &WriteRequest) -> (u16, &'static str) {
        if self
            .max_samples
            .is_some_and(|max| request.series.len() > max)
        {
            return (413, "too large");
        }
        let newest = self.series.values().map(|(time, _)| *time).max();
        let oldest = newest.map_or(i64::MIN, |newest| newest - MAX_AGE_MS);
        let mut accepted = Vec::new();
        for series in &request.series {
            let name = series_name(&series.labels);
            if self.refuse_series.as_ref() == Some(&name) {
                return (500, "poisoned");
            }
            if self.limited_series.as_ref() == Some(&name) {
                return (
                    400,
                    "per-metric series limit exceeded (err-mimir-max-series-per-metric)",
                );
            }
            let sample = &series.samples[0];
            let (time, value) = (sample.timestamp, sample.value);
            match self.series.get(&name) {
                _ if time < oldest => return (400, "out of bounds\n"),
                Some((last, _)) if time < *last => return (400, "out of order sample\n"),
                Some((last, known)) if time == *last && known.to_bits() != value.to_bits() => {
                    return (400, "duplicate sample for timestamp\n");
                }
                _ => accepted.push((name, (time, value))),
            }
        }
        self.stored += accepted.len();
        self.series.extend(accepted);
        (204, "")
    }
}

/// Formats `name{a="b"}`. Labels must be sorted and unique.
fn series_name(labels: &[Label]) -> String {
    assert!(
        labels.windows(2).all(|pair| pair[0].name < pair[1].name),
        "{labels:?}"
    );
    let (mut name, mut rest) = (String::new(), Vec::new());
    for label in labels {
        if label.name == "__name__" {
            name.clone_from(&label.value);
        } else {
            rest.push(format!("{}={:?}", label.name, label.value));
        }
    }
    format!("{name}{{{}}}", rest.join(","))
}

/// Creates a response whose body is cut after `text`, or hangs there.
fn streamed(status: u16, text: &'static str, is_cut: bool) -> Response<ResponseBody> {
    let chunks = stream::unfold(0, move |part| async move {
        match part {
            0 => Some((Ok(Bytes::from_static(text.as_bytes())), 1)),
            _ if is_cut => {
                // Data that arrives together with the abort would be lost.
                sleep(Duration::from_millis(1)).await;
                Some((Err(BodyAborted), 2))
            }
            _ => std::future::pending().await,
        }
    });
    let mut response = Response::new(ResponseBody::from_stream(chunks));
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    response
}

pub fn plain(status: u16, text: &str) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::full(text.to_owned()));
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    response
}
