//! A source, a hub and a collector between them, in virtual time.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::{Request, Response};
use kelpie_collector::{
    Collector, CollectorSettings, PeerConfig, RecordingRule, TickOutcome, TransformRules,
};
use kelpie_core::Time;
use kelpie_net::{BodyAborted, Network, ResponseBody, serve_connection};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::io::duplex;
use tokio::time::{Instant, sleep};

use super::fake_hub::{FakeHub, plain};

pub const MINUTE: Duration = Duration::from_mins(1);
pub const INTERVAL: Duration = Duration::from_mins(5);

/// The start of every test in Unix milliseconds.
pub const START: i64 = 1_700_000_000_000;

/// The response of the source to a federate request.
pub enum Body {
    /// A complete body with this text.
    Text(String),
    /// A body that is aborted after this text.
    Broken(String),
    /// A body that never ends, of incompressible lines.
    Endless,
    /// A body in parts, with this time between two of them.
    Paced(Duration, Vec<String>),
    /// A body that stalls after this text.
    Stalled(String),
    Status(u16, &'static str),
    /// A body with this content encoding.
    Encoded(&'static str),
    /// No response at all.
    Silence,
}

#[derive(Default)]
pub struct FakeSource {
    /// The responses by a part of the query. The first match wins.
    pub federate: Mutex<Vec<(&'static str, Arc<Body>)>>,
    /// Responses to the first federate requests, whatever their query.
    pub script: Mutex<VecDeque<Body>>,
    /// The responses to instant queries.
    pub queries: Mutex<BTreeMap<String, (u16, String)>>,
    pub requests: Mutex<Vec<String>>,
    /// The number of response bodies that are being read.
    pub open: Arc<AtomicUsize>,
}

pub struct Fixture {
    pub source: Arc<FakeSource>,
    pub hub: Arc<FakeHub>,
    /// Refuses connections to the hub.
    pub hub_down: Arc<AtomicBool>,
    pub source_down: Arc<AtomicBool>,
    pub settings: CollectorSettings,
    pub registry: Registry,
    pub started: Instant,
}

impl Fixture {
    pub fn new() -> Self {
        let source = Arc::new(FakeSource::default());
        let hub = Arc::new(FakeHub::default());
        let (source_down, hub_down) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let world = (
            Arc::clone(&source),
            Arc::clone(&hub),
            Arc::clone(&source_down),
            Arc::clone(&hub_down),
        );
        let network = Network::in_process(move |host, _| {
            let is_hub = host == "hub";
            let is_down = if is_hub { &world.3 } else { &world.2 };
            if is_down.load(Ordering::Relaxed) {
                let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
                return Box::pin(std::future::ready(Err(refused)));
            }
            if is_hub {
                world.1.lock().connections += 1;
            }
            let (client, server) = duplex(64 * 1024);
            let (source, hub) = (Arc::clone(&world.0), Arc::clone(&world.1));
            tokio::spawn(async move {
                let served = serve_connection(server, |request| {
                    let (source, hub) = (Arc::clone(&source), Arc::clone(&hub));
                    async move {
                        if is_hub {
                            hub.respond(request).await
                        } else {
                            source.respond(&request).await
                        }
                    }
                });
                let _ = served.await;
            });
            Box::pin(std::future::ready(Ok(client)))
        });
        let access = |url: &str| PeerConfig {
            url: url.to_owned(),
            ..PeerConfig::default()
        };
        Self {
            source,
            hub,
            hub_down,
            source_down,
            settings: CollectorSettings {
                from: access("http://source"),
                from_queries: None,
                to: Some(access("http://hub")),
                matchers: vec!["{a=\"b\"}".to_owned()],
                recording_rules: Vec::new(),
                rules: TransformRules::new(),
                cluster: None,
                interval: INTERVAL,
                limit_bytes: 1 << 30,
                workers: 1,
                degrade_after: 5 * MINUTE,
                network,
            },
            registry: Registry::default(),
            started: Instant::now(),
        }
    }

    /// Sets the response to all federate requests.
    pub fn body(&self, body: Body) {
        self.bodies(vec![("", body)]);
    }

    pub fn text(&self, text: impl Into<String>) {
        self.body(Body::Text(text.into()));
    }

    /// Sets the responses by a part of the query.
    pub fn bodies(&self, bodies: Vec<(&'static str, Body)>) {
        let bodies = bodies.into_iter();
        *self.source.federate.lock().unwrap() =
            bodies.map(|(part, body)| (part, Arc::new(body))).collect();
    }

    pub fn rule(&mut self, name: &str, query: &str, status: u16, response: &str) {
        self.settings.recording_rules.push(RecordingRule {
            name: name.to_owned(),
            query: query.to_owned(),
        });
        let mut queries = self.source.queries.lock().unwrap();
        queries.insert(query.to_owned(), (status, response.to_owned()));
    }

    pub fn collector(&mut self) -> Collector {
        let started = self.started;
        let clock =
            move || Time::from_micros(START * 1_000).after(Instant::now().duration_since(started));
        let settings = self.settings.clone();
        Collector::new(settings, clock, |_| {}, &mut self.registry).unwrap()
    }

    /// Runs one tick of a new collector.
    pub async fn tick(&mut self) -> TickOutcome {
        self.collector().tick().await
    }

    pub fn metric(&self, name: &str) -> u64 {
        let mut text = String::new();
        encode(&mut text, &self.registry).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        assert!(line.is_some(), "{name} is not in {text}");
        line.unwrap().trim().parse().unwrap()
    }

    /// Asserts that every sample that was read is in one of the other counters.
    pub fn assert_accounted(&self) {
        let mut text = String::new();
        encode(&mut text, &self.registry).unwrap();
        let sum = |name: &str| -> u64 {
            let name = format!("kelpie_collector_samples_{name}_total");
            let lines = text.lines().filter(|line| line.starts_with(&name));
            lines
                .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
                .sum()
        };
        let fates = ["filtered", "unchanged", "sent", "refused", "undelivered"];
        let read = sum("read");
        assert!(read > 0, "{text}");
        assert_eq!(read, fates.map(sum).iter().sum::<u64>(), "{text}");
    }

    /// Returns the number of samples of every request to the hub so far.
    pub fn sent(&self) -> Vec<usize> {
        let state = self.hub.lock();
        state.requests.iter().map(|dedup| dedup.samples).collect()
    }
}

impl FakeSource {
    async fn respond(&self, request: &Request<Bytes>) -> Option<Response<ResponseBody>> {
        let (path, query) = (request.uri().path(), request.uri().query().unwrap());
        self.requests
            .lock()
            .unwrap()
            .push(request.uri().to_string());
        if path == "/api/v1/query" {
            let queries = self.queries.lock().unwrap();
            let (status, text) = &queries[query.strip_prefix("query=").unwrap()];
            return Some(plain(*status, text));
        }
        assert_eq!(path, "/federate");
        let scripted = self.script.lock().unwrap().pop_front();
        let body = if let Some(body) = scripted {
            Arc::new(body)
        } else {
            let bodies = self.federate.lock().unwrap();
            let found = bodies.iter().find(|(part, _)| query.contains(part));
            Arc::clone(&found.unwrap().1)
        };
        match &*body {
            Body::Text(text) => Some(plain(200, text)),
            Body::Status(status, text) => Some(plain(*status, text)),
            Body::Encoded(how) => {
                let mut response = plain(200, "\u{1f}\u{8b}");
                let how = how.parse().unwrap();
                response.headers_mut().insert("content-encoding", how);
                Some(response)
            }
            Body::Silence => std::future::pending().await,
            Body::Broken(text) => {
                let chunks = stream::unfold(Some(Bytes::from(text.clone())), |first| async {
                    // Data that arrives together with the abort would be lost.
                    sleep(Duration::from_secs(1)).await;
                    match first {
                        Some(first) => Some((Ok(first), None)),
                        None => Some((Err(BodyAborted), None)),
                    }
                });
                Some(Response::new(ResponseBody::from_stream(chunks)))
            }
            Body::Paced(pause, parts) => {
                let (pause, parts) = (*pause, parts.clone().into_iter());
                let chunks =
                    stream::unfold((parts, true), move |(mut parts, is_first)| async move {
                        if !is_first {
                            sleep(pause).await;
                        }
                        parts.next().map(|part| (Ok(part.into()), (parts, false)))
                    });
                Some(Response::new(ResponseBody::from_stream(chunks)))
            }
            Body::Stalled(text) => {
                let open = Open::new(&self.open);
                let first = Bytes::from(text.clone());
                let chunks = stream::unfold((Some(first), open), |(first, open)| async move {
                    match first {
                        Some(first) => Some((Ok(first), (None, open))),
                        None => std::future::pending().await,
                    }
                });
                Some(Response::new(ResponseBody::from_stream(chunks)))
            }
            Body::Endless => {
                let open = Open::new(&self.open);
                let chunks = stream::unfold((0_u32, open), |(number, open)| async move {
                    Some((Ok(chunk(number)), (number + 1, open)))
                });
                Some(Response::new(ResponseBody::from_stream(chunks)))
            }
        }
    }
}

/// Counts as an open body until it is dropped.
struct Open(Arc<AtomicUsize>);

impl Open {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns some lines with long labels.
fn chunk(number: u32) -> Bytes {
    let mut text = String::new();
    for line in 0..8 {
        let noise: String = std::iter::repeat_with(fastrand::alphanumeric)
            .take(2_000)
            .collect();
        let _ = writeln!(
            text,
            "m{{n=\"{number}-{line}\",noise=\"{noise}\"}} 1 {START}"
        );
    }
    text.into()
}

/// Returns `count` series of this metric, each with one sample of this age.
pub fn lines(name: &str, count: usize, age: Duration) -> String {
    let time = START - i64::try_from(age.as_millis()).unwrap();
    let mut text = String::new();
    for number in 0..count {
        let _ = writeln!(text, "{name}{{n=\"{number}\"}} {number} {time}");
    }
    text
}

/// Returns a body that takes longer than an interval, without a stall.
pub fn endless_lines() -> Body {
    let parts = (0..100).map(|part| lines(&format!("m{part}"), 1, Duration::ZERO));
    Body::Paced(INTERVAL / 10, parts.collect())
}
