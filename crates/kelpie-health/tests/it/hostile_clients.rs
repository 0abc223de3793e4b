//! Slow, silent and malformed clients.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::serve::Listener;
use kelpie_health::{not_found, routes};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::fixture::{ScriptedCheck, failed, get, health, millis, send, serve};

/// Accepts in-memory connections, so that time can be paused.
struct MemoryListener {
    accepted: mpsc::UnboundedReceiver<DuplexStream>,
    /// The address of every client.
    client: SocketAddr,
}

impl Listener for MemoryListener {
    type Io = DuplexStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (DuplexStream, SocketAddr) {
        match self.accepted.recv().await {
            Some(stream) => (stream, self.client),
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.client)
    }
}

/// A server with one scripted check.
struct TestServer {
    incoming: mpsc::UnboundedSender<DuplexStream>,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<io::Result<()>>,
}

impl TestServer {
    fn start(check: ScriptedCheck) -> Self {
        let (health, _) = health(|checks| {
            checks.livez("a", check);
        });
        let (incoming, accepted) = mpsc::unbounded_channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let shutdown = async {
            let _ = stopped.await;
        };
        let router = routes(health).fallback(not_found);
        let listener = MemoryListener {
            accepted,
            client: SocketAddr::from(([127, 0, 0, 1], 1)),
        };
        let serving = tokio::spawn(kelpie_health::serve(listener, router, shutdown));
        Self {
            incoming,
            stop,
            serving,
        }
    }

    fn connect(&self) -> DuplexStream {
        self.connect_with(4_096)
    }

    /// Connects with a pipe buffer of `size` bytes.
    fn connect_with(&self, size: usize) -> DuplexStream {
        let (ours, theirs) = duplex(size);
        self.incoming.send(theirs).unwrap();
        ours
    }
}

const GET: &[u8] = b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n";

/// Reads until the server closes. Returns the bytes as text, and the time it took.
async fn read_to_end(stream: &mut DuplexStream) -> (String, Duration) {
    let started_at = Instant::now();
    let mut received = Vec::new();
    let _ = stream.read_to_end(&mut received).await;
    (String::from_utf8(received).unwrap(), started_at.elapsed())
}

/// Reads one response of a connection that stays open.
async fn read_response(stream: &mut DuplexStream) -> String {
    let mut received = Vec::new();
    while !received.ends_with(b"\r\n\r\nok\n") {
        assert_ne!(stream.read_buf(&mut received).await.unwrap(), 0, "closed");
    }
    String::from_utf8(received).unwrap()
}

#[tokio::test(start_paused = true)]
async fn silent_client_is_disconnected() {
    let server = TestServer::start(ScriptedCheck::returning(Ok(())));
    let mut silent = server.connect();
    let (received, took) = read_to_end(&mut silent).await;
    assert_eq!((received.as_str(), took.as_secs()), ("", 30));
}

#[tokio::test(start_paused = true)]
async fn slow_request_is_disconnected() {
    let server = TestServer::start(ScriptedCheck::returning(Ok(())));
    let mut slow = server.connect();
    slow.write_all(b"GET /livez HTTP/1.1\r\n").await.unwrap();
    let started_at = Instant::now();
    while slow.write_all(b"x").await.is_ok() {
        assert!(started_at.elapsed().as_secs() <= 31, "still connected");
        sleep(millis(1_000)).await;
    }
    assert!(
        started_at.elapsed().as_secs() >= 30,
        "{:?}",
        started_at.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn idle_connection_closes_after_75_seconds() {
    let server = TestServer::start(ScriptedCheck::returning(Ok(())));
    let mut client = server.connect();
    for _ in 0..5 {
        client.write_all(GET).await.unwrap();
        assert!(
            read_response(&mut client)
                .await
                .starts_with("HTTP/1.1 200 OK")
        );
        sleep(Duration::from_mins(1)).await;
    }
    let (received, took) = read_to_end(&mut client).await;
    assert_eq!((received.as_str(), took.as_secs()), ("", 15));
}

#[tokio::test(start_paused = true)]
async fn client_that_reads_nothing_is_disconnected() {
    let server = TestServer::start(ScriptedCheck::returning(Ok(())));
    let mut client = server.connect_with(16);
    let reading = tokio::spawn(async move {
        let _ = client.write_all(GET).await;
        sleep(Duration::from_secs(100)).await;
        read_to_end(&mut client).await.0
    });
    let received = reading.await.unwrap();
    assert_eq!(received, "HTTP/1.1 200 OK\r");
}

#[tokio::test(start_paused = true)]
async fn oldest_connection_makes_room() {
    let server = TestServer::start(ScriptedCheck::returning(Ok(())));
    let mut held: Vec<_> = (0..64).map(|_| server.connect()).collect();
    sleep(millis(1)).await;
    let mut supervisor = server.connect();
    supervisor.write_all(GET).await.unwrap();
    assert!(
        read_response(&mut supervisor)
            .await
            .starts_with("HTTP/1.1 200")
    );
    let (_, took) = read_to_end(&mut held[0]).await;
    assert_eq!(took, Duration::ZERO, "the first was disconnected");
    held[1].write_all(GET).await.unwrap();
    read_response(&mut held[1]).await;
}

#[tokio::test(start_paused = true)]
async fn shutdown_completes_requests_in_flight() {
    let check = ScriptedCheck::new([(millis(2_000), Ok(()))]);
    let server = TestServer::start(check.clone());
    let mut client = server.connect();
    client.write_all(GET).await.unwrap();
    check.wait_for_runs(1).await;
    server.stop.send(()).unwrap();
    let (received, took) = read_to_end(&mut client).await;
    assert!(received.ends_with("ok\n"), "{received}");
    assert_eq!(took, millis(2_000));
    server.serving.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn stalled_client_cannot_delay_shutdown() {
    let server = TestServer::start(ScriptedCheck::returning(Ok(())));
    let mut client = server.connect();
    client.write_all(b"GET /livez HTT").await.unwrap();
    sleep(millis(1)).await;
    let started_at = Instant::now();
    server.stop.send(()).unwrap();
    server.serving.await.unwrap().unwrap();
    assert_eq!(started_at.elapsed().as_secs(), 5);
    read_to_end(&mut client).await;
    assert_eq!(started_at.elapsed().as_secs(), 5, "and it is disconnected");
}

#[tokio::test]
async fn oversized_requests_are_rejected() {
    let (health, _) = health(|checks| {
        checks.readyz("a", ScriptedCheck::returning(failed("x")));
    });
    let address = serve(health).await;
    let excludes = "exclude=b&".repeat(6_000) + "exclude=a";
    let answer = get(address, &format!("/readyz?{excludes}")).await;
    assert_eq!(answer, (200, "ok\n".into()), "60 KB of excludes count");
    let (status, _) = get(address, &format!("/readyz?{}", "x".repeat(70_000))).await;
    assert_eq!(status, 414);
    let (status, _) = get(address, &format!("/readyz/{}", "x".repeat(70_000))).await;
    assert_eq!(status, 414);
    let flood = "x: y\r\n".repeat(200);
    let flooded = send(address, format!("GET /readyz HTTP/1.1\r\n{flood}\r\n")).await;
    assert!(flooded.starts_with("HTTP/1.1 431 "), "{flooded}");
}

/// Returns a nearly valid request. The flag is false if its bytes were corrupted or truncated.
fn malformed_request(rng: &mut fastrand::Rng) -> (Vec<u8>, bool) {
    const METHODS: [&str; 9] = [
        "GET", "GET", "GET", "HEAD", "POST", "OPTIONS", "CONNECT", "x", "",
    ];
    const PARTS: [&str; 22] = [
        "/", "livez", "readyz", "a", "?", "verbose", "exclude", "=", "&", ";", "%", "%61", "%0a",
        "%ff", "+", "..", "//", "*", "ä", "\0", "http://x", "#",
    ];
    let mut target = ["/livez", "/readyz", ""][rng.usize(..3)].to_owned();
    for _ in 0..rng.usize(..12) {
        target += PARTS[rng.usize(..PARTS.len())];
    }
    let method = METHODS[rng.usize(..METHODS.len())];
    let head = format!("{method} {target} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    let mut bytes = head.clone().into_bytes();
    if rng.u8(..) < 32 {
        let at = rng.usize(..bytes.len());
        bytes[at] = rng.u8(..);
    }
    if rng.u8(..) < 16 {
        bytes.truncate(rng.usize(..bytes.len()));
    }
    let intact = bytes == head.as_bytes();
    (bytes, intact)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_requests_change_nothing() {
    let (health, _) = health(|checks| {
        checks.both("a", ScriptedCheck::returning(Ok(())));
        checks.readyz("b", ScriptedCheck::returning(failed("always")));
    });
    let address = serve(health).await;
    let clients = (0..8).map(|rng_seed| tokio::spawn(send_malformed(address, rng_seed)));
    let mut seen = BTreeMap::<String, usize>::new();
    for client in clients.collect::<Vec<_>>() {
        for (status, times) in client.await.unwrap() {
            *seen.entry(status).or_default() += times;
        }
    }
    for status in ["200", "400", "404", "405", "503"] {
        assert!(seen.remove(status).is_some_and(|times| times > 100));
    }
    let unanswered = seen.remove("").unwrap_or_default();
    assert!(unanswered < 2_000, "truncated requests: {unanswered}");
    assert_eq!(seen, BTreeMap::new(), "and nothing else");
    let answer = get(address, "/livez").await;
    assert_eq!(answer, (200, "ok\n".into()));
}

/// Sends 1,250 requests and counts the statuses. The key is empty if the server just closed.
async fn send_malformed(address: SocketAddr, rng_seed: u64) -> BTreeMap<String, usize> {
    let mut rng = fastrand::Rng::with_seed(rng_seed);
    let mut statuses = BTreeMap::new();
    for _ in 0..1_250 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let (bytes, intact) = malformed_request(&mut rng);
        let _ = stream.write_all(&bytes).await;
        if !intact {
            // The server would wait for the end of a truncated request.
            let _ = stream.shutdown().await;
        }
        let mut received = Vec::new();
        let _ = stream.read_to_end(&mut received).await;
        let status = received.get(9..12).unwrap_or_default();
        let status = String::from_utf8_lossy(status).into_owned();
        *statuses.entry(status).or_default() += 1;
    }
    statuses
}

#[tokio::test]
async fn state_page_is_for_the_same_host_only() {
    for (client, expected) in [
        ("127.0.0.1:1", "HTTP/1.1 200"),
        ("[::1]:1", "HTTP/1.1 200"),
        ("[::ffff:127.0.0.1]:1", "HTTP/1.1 200"),
        ("10.0.0.7:1", "HTTP/1.1 403"),
        ("[fd00::7]:1", "HTTP/1.1 403"),
    ] {
        let (incoming, accepted) = mpsc::unbounded_channel();
        let client_address = client.parse().unwrap();
        let listener = MemoryListener {
            accepted,
            client: client_address,
        };
        let state = Router::new().route("/livez", axum::routing::get(async || "state"));
        let pages = kelpie_health::loopback_only(state);
        tokio::spawn(kelpie_health::serve(
            listener,
            pages,
            std::future::pending(),
        ));
        let (mut stream, other) = duplex(4_096);
        incoming.send(other).unwrap();
        let request = b"GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        stream.write_all(request).await.unwrap();
        let (response, _) = read_to_end(&mut stream).await;
        assert!(response.starts_with(expected), "{client}: {response}");
        assert_eq!(
            response.contains("kubectl port-forward"),
            expected.ends_with("403")
        );
    }
}
