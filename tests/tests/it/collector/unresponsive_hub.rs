//! A hub that accepts connections and never answers. The source must not be affected: Prometheus
//! holds locks while a federate response is being read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::Response;
use kelpie_e2e::{Kelpie, MetricsServer, plain_http, poll};
use kelpie_net::ResponseBody;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::fixture::{ScriptedServer, TIMEOUT, collector, now_ms, serve, until_ticks};
use super::samples_arrive_once::source;

/// Longer than the 30 s for which the collector lets a source wait, even on a loaded machine.
const LONG_TIMEOUT: Duration = Duration::from_mins(3);

/// Lines in each chunk of a body.
const LINES: usize = 100;

/// A source that counts its readers. It stops when dropped.
struct CountingSource {
    url: String,
    readers: Arc<Readers>,
    _serving: JoinSet<()>,
}

#[derive(Default)]
struct Readers {
    /// Bodies that were started.
    started: AtomicUsize,
    /// Bodies that are being read.
    open: AtomicUsize,
    /// Largest value of `open` so far.
    peak: AtomicUsize,
}

/// Counts a body as open until it is dropped.
struct OpenBody(Arc<Readers>);

impl OpenBody {
    fn new(readers: &Arc<Readers>) -> Self {
        readers.started.fetch_add(1, Ordering::SeqCst);
        let open = readers.open.fetch_add(1, Ordering::SeqCst) + 1;
        readers.peak.fetch_max(open, Ordering::SeqCst);
        Self(Arc::clone(readers))
    }
}

impl Drop for OpenBody {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

impl CountingSource {
    /// Every body has this many chunks, which cannot be compressed if `has_noise` is true.
    async fn start(chunks: usize, has_noise: bool) -> Self {
        let readers = Arc::<Readers>::default();
        let counters = Arc::clone(&readers);
        let (url, serving) = serve(move |_| {
            let body = body(OpenBody::new(&counters), chunks, has_noise);
            Some(Response::new(body))
        })
        .await;
        Self {
            url,
            readers,
            _serving: serving,
        }
    }

    fn started(&self) -> usize {
        self.readers.started.load(Ordering::SeqCst)
    }

    fn open(&self) -> usize {
        self.readers.open.load(Ordering::SeqCst)
    }

    fn peak(&self) -> usize {
        self.readers.peak.load(Ordering::SeqCst)
    }
}

fn body(open: OpenBody, chunks: usize, has_noise: bool) -> ResponseBody {
    let time = now_ms();
    ResponseBody::from_stream(stream::unfold((0, open), move |(chunk, open)| async move {
        let more = chunk < chunks;
        more.then(|| (Ok(text(chunk, time, has_noise)), (chunk + 1, open)))
    }))
}

fn text(chunk: usize, time: i64, has_noise: bool) -> Bytes {
    let line = |line: usize| {
        let noise: String = if has_noise {
            std::iter::repeat_with(fastrand::alphanumeric)
                .take(1_000)
                .collect()
        } else {
            "quiet ".repeat(20)
        };
        format!("m{{n=\"{chunk}-{line}\",noise=\"{noise}\"}} 1 {time}\n")
    };
    (0..LINES).map(line).collect::<String>().into()
}

/// Starts a hub that accepts connections and never answers. Returns its URL with it.
async fn unresponsive_hub() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    (listener, url)
}

async fn ticks(collector: &Kelpie) -> f64 {
    let mut ticks = 0.0;
    for result in ["success", "failure"] {
        let name = format!("kelpie_collector_ticks_total{{result=\"{result}\"}}");
        ticks += collector.metric(&name).await.unwrap();
    }
    ticks
}

/// Waits until the first request to the hub has timed out, while the first tick is still running.
async fn until_hub_request_timed_out(collector: &Kelpie) {
    let name = "kelpie_collector_write_requests_total{code=\"error\"}";
    let waited = poll::until("a request without a response", TIMEOUT, async || {
        // The series does not exist before the first timeout.
        Ok(collector.metric(name).await.ok())
    });
    waited.await.unwrap();
    assert_eq!(ticks(collector).await.to_bits(), 0_f64.to_bits());
}

#[tokio::test]
async fn body_that_fits_queue_is_read_at_once() {
    // Far more than socket buffers hold, but small when compressed.
    let source = CountingSource::start(600, false).await;
    let (_hub, to) = unresponsive_hub().await;
    let collector = collector(&source.url, &to, &["--match=m"]).await;
    poll::until("the end of the body", LONG_TIMEOUT, async || {
        Ok((source.started() == 1 && source.open() == 0).then_some(()))
    })
    .await
    .unwrap();
    until_hub_request_timed_out(&collector).await;
    poll::until("all samples", TIMEOUT, async || {
        let read = collector.metric("kelpie_collector_samples_read_total");
        Ok((read.await? > 59_999.0).then_some(()))
    })
    .await
    .unwrap();
    assert_eq!((source.started(), source.open()), (1, 0));
}

#[tokio::test]
async fn prometheus_finishes_while_hub_hangs() {
    let exporter = ScriptedServer::source("a 1\n").await;
    let source: MetricsServer = source(&exporter).await;
    let (_hub, to) = unresponsive_hub().await;
    let collector = collector(&source.url(), &to, &["--match={job=~\".+\"}"]).await;
    until_hub_request_timed_out(&collector).await;
    let own = plain_http::get(&source.url(), "/metrics")
        .await
        .unwrap()
        .body;
    let federated = r#"prometheus_http_request_duration_seconds_count{handler="/federate"} 1"#;
    assert!(own.lines().any(|line| line == federated), "{own}");
}

#[tokio::test]
async fn failed_ticks_never_read_two_bodies() {
    let source = CountingSource::start(1, false).await;
    let (_hub, to) = unresponsive_hub().await;
    let collector = collector(&source.url, &to, &["--match=m", "--interval=2s"]).await;
    until_ticks(&collector, "failure", 3.0).await;
    let log = collector.log();
    assert!(log.contains("no response within"), "{log}");
    assert!(source.started() >= 2);
    assert_eq!(source.peak(), 1);
    assert_eq!(collector.get("/livez").await.unwrap().status, 200);
}

#[tokio::test]
async fn oversized_body_is_closed_and_memory_bounded() {
    let source = CountingSource::start(usize::MAX, true).await;
    let (_hub, to) = unresponsive_hub().await;
    let collector = collector(&source.url, &to, &["--match=m"]).await;
    let failed = "kelpie_collector_ticks_total{result=\"failure\"}";
    let mut largest = 0;
    poll::until("the end of the tick", LONG_TIMEOUT, async || {
        largest = largest.max(collector.process().anonymous_bytes()?);
        assert!(source.started() <= 1, "a second body was requested");
        Ok((collector.metric(failed).await? > 0.0).then_some(()))
    })
    .await
    .unwrap();
    poll::until("a closed body", TIMEOUT, async || {
        Ok((source.open() == 0).then_some(()))
    })
    .await
    .unwrap();
    let log = collector.log();
    assert!(log.contains("the hub is too slow"), "{log}");
    assert!(largest < 64 << 20, "{largest} bytes");
    // The hub accepted nothing, so every sample that was read counts as undelivered.
    let metric = async |name: &str| {
        let name = format!("kelpie_collector_samples_{name}_total");
        collector.metric(&name).await.unwrap()
    };
    let read = metric("read").await;
    assert!(read > 5_000.0, "{read}");
    assert_eq!(read.to_bits(), metric("undelivered").await.to_bits());
}
