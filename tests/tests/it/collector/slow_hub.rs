//! A hub that takes connections and never answers. The source must not feel it: while a federate
//! body is open, a Prometheus keeps its locks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::Response;
use kelpie_e2e::{Kelpie, MetricsServer, poll, wire};
use kelpie_net::ServedBody;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::arrival::source;
use super::stage::{PATIENCE, Scripted, collector, now_ms, serve, until_ticks};

/// Longer than the collector lets a source wait, which is 30 s, on a loaded machine.
const LONG_PATIENCE: Duration = Duration::from_mins(3);

/// Lines in a piece of a body.
const LINES: usize = 100;

/// A source that knows who reads from it. It ends when dropped.
struct Watched {
    url: String,
    readers: Arc<Readers>,
    _serving: JoinSet<()>,
}

#[derive(Default)]
struct Readers {
    /// Bodies that were begun.
    begun: AtomicUsize,
    /// Bodies that are not at their end, and whose reader is there.
    open: AtomicUsize,
    /// As many as there ever were of those.
    most: AtomicUsize,
}

/// A body that somebody reads.
struct Open(Arc<Readers>);

impl Open {
    fn new(readers: &Arc<Readers>) -> Self {
        readers.begun.fetch_add(1, Ordering::SeqCst);
        let open = readers.open.fetch_add(1, Ordering::SeqCst) + 1;
        readers.most.fetch_max(open, Ordering::SeqCst);
        Self(Arc::clone(readers))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Watched {
    /// Every body has so many pieces. They cannot be compressed if `has_noise`.
    async fn start(pieces: usize, has_noise: bool) -> Self {
        let readers = Arc::<Readers>::default();
        let kept = Arc::clone(&readers);
        let (url, serving) = serve(move |_| {
            let body = body(Open::new(&kept), pieces, has_noise);
            Some(Response::new(body))
        })
        .await;
        Self {
            url,
            readers,
            _serving: serving,
        }
    }

    fn begun(&self) -> usize {
        self.readers.begun.load(Ordering::SeqCst)
    }

    fn open(&self) -> usize {
        self.readers.open.load(Ordering::SeqCst)
    }

    fn most(&self) -> usize {
        self.readers.most.load(Ordering::SeqCst)
    }
}

fn body(open: Open, pieces: usize, has_noise: bool) -> ServedBody {
    let time = now_ms();
    ServedBody::pieces(stream::unfold((0, open), move |(piece, open)| async move {
        let more = piece < pieces;
        more.then(|| (Ok(text(piece, time, has_noise)), (piece + 1, open)))
    }))
}

fn text(piece: usize, time: i64, has_noise: bool) -> Bytes {
    let line = |line: usize| {
        let noise: String = if has_noise {
            std::iter::repeat_with(fastrand::alphanumeric)
                .take(1_000)
                .collect()
        } else {
            "quiet ".repeat(20)
        };
        format!("m{{n=\"{piece}-{line}\",noise=\"{noise}\"}} 1 {time}\n")
    };
    (0..LINES).map(line).collect::<String>().into()
}

/// A hub that takes connections, and nothing else; with its URL.
async fn silent_hub() -> (TcpListener, String) {
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

/// The hub has kept a request for as long as one may take, and the tick goes on.
async fn until_the_hub_was_waited_for(collector: &Kelpie) {
    let name = "kelpie_collector_write_requests_total{code=\"0\"}";
    let waited = poll::until("a request without an answer", PATIENCE, async || {
        // There is no such line before the first.
        Ok(collector.metric(name).await.ok())
    });
    waited.await.unwrap();
    assert_eq!(ticks(collector).await.to_bits(), 0_f64.to_bits());
}

#[tokio::test]
async fn a_body_that_fits_the_queue_is_read_in_its_own_time() {
    // Far more than sockets keep, and little once it is compressed.
    let source = Watched::start(600, false).await;
    let (_hub, to) = silent_hub().await;
    let collector = collector(&source.url, &to, &["--match=m"]).await;
    poll::until("the end of the body", LONG_PATIENCE, async || {
        Ok((source.begun() == 1 && source.open() == 0).then_some(()))
    })
    .await
    .unwrap();
    until_the_hub_was_waited_for(&collector).await;
    poll::until("all samples", PATIENCE, async || {
        let read = collector.metric("kelpie_collector_samples_read_total");
        Ok((read.await? > 59_999.0).then_some(()))
    })
    .await
    .unwrap();
    assert_eq!((source.begun(), source.open()), (1, 0));
}

#[tokio::test]
async fn a_real_prometheus_has_answered_while_the_hub_is_still_waited_for() {
    let exporter = Scripted::source("a 1\n").await;
    let source: MetricsServer = source(&exporter).await;
    let (_hub, to) = silent_hub().await;
    let collector = collector(&source.url(), &to, &["--match={job=~\".+\"}"]).await;
    until_the_hub_was_waited_for(&collector).await;
    let own = wire::get(&source.url(), "/metrics").await.unwrap().body;
    let federated = r#"prometheus_http_request_duration_seconds_count{handler="/federate"} 1"#;
    assert!(own.lines().any(|line| line == federated), "{own}");
}

#[tokio::test]
async fn ticks_that_end_at_a_silent_hub_never_read_two_bodies_at_once() {
    let source = Watched::start(1, false).await;
    let (_hub, to) = silent_hub().await;
    let collector = collector(&source.url, &to, &["--match=m", "--interval=2s"]).await;
    until_ticks(&collector, "failure", 3.0).await;
    let log = collector.log();
    assert!(log.contains("no answer within"), "{log}");
    assert!(source.begun() >= 2);
    assert_eq!(source.most(), 1);
    assert_eq!(collector.get("/livez").await.unwrap().status, 200);
}

#[tokio::test]
async fn a_body_that_does_not_fit_is_closed_after_half_a_minute_and_costs_no_memory() {
    let source = Watched::start(usize::MAX, true).await;
    let (_hub, to) = silent_hub().await;
    let collector = collector(&source.url, &to, &["--match=m"]).await;
    let failed = "kelpie_collector_ticks_total{result=\"failure\"}";
    let mut largest = 0;
    poll::until("the end of the tick", LONG_PATIENCE, async || {
        largest = largest.max(collector.process().allocated()?);
        assert!(source.begun() <= 1, "a second body was asked for");
        Ok((collector.metric(failed).await? > 0.0).then_some(()))
    })
    .await
    .unwrap();
    poll::until("a closed body", PATIENCE, async || {
        Ok((source.open() == 0).then_some(()))
    })
    .await
    .unwrap();
    let log = collector.log();
    assert!(log.contains("the hub is too slow"), "{log}");
    assert!(largest < 64 << 20, "{largest} bytes");
    // Nobody has taken anything, and all that was read is accounted for.
    let metric = async |name: &str| {
        let name = format!("kelpie_collector_samples_{name}_total");
        collector.metric(&name).await.unwrap()
    };
    let read = metric("read").await;
    assert!(read > 5_000.0, "{read}");
    assert_eq!(read.to_bits(), metric("undelivered").await.to_bits());
}
