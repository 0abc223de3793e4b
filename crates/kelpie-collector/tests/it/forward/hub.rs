//! A hub with the rules of a Prometheus, in this process.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use kelpie_net::ServedBody;
use prost::Message;
use tokio::time::Instant;

/// How much older than its newest sample a Prometheus takes one of a new series: half a block.
const BOUND_MS: i64 = 3_600_000;

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

/// What it says instead of following its rules, once.
#[derive(Clone, Debug)]
pub enum Reply {
    Status(u16, &'static str),
    RetryAfter(u16, &'static str),
    /// Closes the connection without a word.
    Reset,
    /// Never answers.
    Silence,
    /// Takes it, and then closes the connection without a word.
    TakenAndReset,
}

/// A request that came.
#[derive(Clone, Debug)]
pub struct Seen {
    pub at: Instant,
    pub path: String,
    pub headers: HeaderMap,
    pub samples: usize,
}

#[derive(Default)]
pub struct Hub(Mutex<State>);

#[derive(Default)]
pub struct State {
    /// Newest time and its value, of each series, as `name{…}`.
    pub series: BTreeMap<String, (i64, f64)>,
    pub requests: Vec<Seen>,
    pub script: VecDeque<Reply>,
    /// For all requests, once the script is over.
    pub always: Option<Reply>,
    /// More samples in a request are too many.
    pub most: Option<usize>,
    /// A request with a larger body is too large.
    pub most_bytes: Option<usize>,
    /// Connections that were opened.
    pub connections: usize,
    /// Samples that were stored, each time they were.
    pub stored: usize,
}

impl Hub {
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub async fn answer(&self, request: Request<Bytes>) -> Option<Response<ServedBody>> {
        let body = snap::raw::Decoder::new().decompress_vec(request.body());
        let body = WriteRequest::decode(body.unwrap().as_slice()).unwrap();
        let reply = {
            let mut state = self.lock();
            state.requests.push(Seen {
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
                let (status, text) = match state.most_bytes {
                    Some(most) if size > most => (413, "too large"),
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
            Some(Reply::TakenAndReset) => {
                self.lock().write(&body);
                None
            }
            Some(Reply::Silence) => std::future::pending().await,
        }
    }
}

impl State {
    /// As a Prometheus does it: all of a request or nothing.
    fn write(&mut self, request: &WriteRequest) -> (u16, &'static str) {
        if self.most.is_some_and(|most| request.series.len() > most) {
            return (413, "too large");
        }
        let newest = self.series.values().map(|(time, _)| *time).max();
        let bound = newest.map_or(i64::MIN, |newest| newest - BOUND_MS);
        let mut wanted = Vec::new();
        for series in &request.series {
            let name = named(&series.labels);
            let sample = &series.samples[0];
            let (time, value) = (sample.timestamp, sample.value);
            match self.series.get(&name) {
                _ if time < bound => return (400, "out of bounds\n"),
                Some((last, _)) if time < *last => return (400, "out of order sample\n"),
                Some((last, known)) if time == *last && known.to_bits() != value.to_bits() => {
                    return (400, "duplicate sample for timestamp\n");
                }
                _ => wanted.push((name, (time, value))),
            }
        }
        self.stored += wanted.len();
        self.series.extend(wanted);
        (204, "")
    }
}

/// `name{a="b"}`; labels have to be sorted and unique.
fn named(labels: &[Label]) -> String {
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

pub fn plain(status: u16, text: &str) -> Response<ServedBody> {
    let mut response = Response::new(ServedBody::whole(text.to_owned()));
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    response
}
