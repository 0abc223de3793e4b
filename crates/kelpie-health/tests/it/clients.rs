//! Clients that mean no good.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::serve::Listener;
use kelpie_health::{not_found, routes};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::stage::{Actor, bad, get, health, millis, say, serve};

/// Connections from memory, so that time can be virtual.
struct Memory(mpsc::UnboundedReceiver<DuplexStream>);

impl Listener for Memory {
    type Io = DuplexStream;
    type Addr = ();

    async fn accept(&mut self) -> (DuplexStream, ()) {
        match self.0.recv().await {
            Some(stream) => (stream, ()),
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<()> {
        Ok(())
    }
}

/// A server with a check that takes as long as it is told.
struct Door {
    knock: mpsc::UnboundedSender<DuplexStream>,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<io::Result<()>>,
}

impl Door {
    fn open(check: Actor) -> Self {
        let (health, _) = health(|checks| {
            checks.livez("a", check);
        });
        let (knock, callers) = mpsc::unbounded_channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let shutdown = async {
            let _ = stopped.await;
        };
        let router = routes(health).fallback(not_found);
        let serving = tokio::spawn(kelpie_health::serve(Memory(callers), router, shutdown));
        Self {
            knock,
            stop,
            serving,
        }
    }

    fn connect(&self) -> DuplexStream {
        self.connect_with(4_096)
    }

    /// With so much room in the pipe.
    fn connect_with(&self, room: usize) -> DuplexStream {
        let (ours, theirs) = duplex(room);
        self.knock.send(theirs).unwrap();
        ours
    }
}

const GET: &[u8] = b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n";

/// Until the server closes; what it said, and how long it took.
async fn rest(stream: &mut DuplexStream) -> (String, Duration) {
    let began = Instant::now();
    let mut said = Vec::new();
    let _ = stream.read_to_end(&mut said).await;
    (String::from_utf8(said).unwrap(), began.elapsed())
}

/// One answer of a connection that stays open.
async fn answer(stream: &mut DuplexStream) -> String {
    let mut said = Vec::new();
    while !said.ends_with(b"\r\n\r\nok\n") {
        assert_ne!(stream.read_buf(&mut said).await.unwrap(), 0, "closed");
    }
    String::from_utf8(said).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_client_that_says_nothing_is_let_go() {
    let door = Door::open(Actor::says(Ok(())));
    let mut silent = door.connect();
    let (said, took) = rest(&mut silent).await;
    assert_eq!((said.as_str(), took.as_secs()), ("", 30));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_trickles_is_let_go() {
    let door = Door::open(Actor::says(Ok(())));
    let mut slow = door.connect();
    slow.write_all(b"GET /livez HTTP/1.1\r\n").await.unwrap();
    let began = Instant::now();
    while slow.write_all(b"x").await.is_ok() {
        assert!(began.elapsed().as_secs() <= 31, "still there");
        sleep(millis(1_000)).await;
    }
    assert!(began.elapsed().as_secs() >= 30, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_connection_may_be_used_again_until_it_is_idle_for_long() {
    let door = Door::open(Actor::says(Ok(())));
    let mut client = door.connect();
    for _ in 0..5 {
        client.write_all(GET).await.unwrap();
        assert!(answer(&mut client).await.starts_with("HTTP/1.1 200 OK"));
        sleep(Duration::from_mins(1)).await;
    }
    let (said, took) = rest(&mut client).await;
    assert_eq!((said.as_str(), took.as_secs()), ("", 15));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_no_answer_is_let_go() {
    let door = Door::open(Actor::says(Ok(())));
    let mut deaf = door.connect_with(16);
    let asked = tokio::spawn(async move {
        let _ = deaf.write_all(GET).await;
        sleep(Duration::from_secs(100)).await;
        rest(&mut deaf).await.0
    });
    let said = asked.await.unwrap();
    assert_eq!(said, "HTTP/1.1 200 OK\r");
}

#[tokio::test(start_paused = true)]
async fn the_oldest_of_too_many_makes_room() {
    let door = Door::open(Actor::says(Ok(())));
    let mut held: Vec<_> = (0..1_024).map(|_| door.connect()).collect();
    sleep(millis(1)).await;
    let mut supervisor = door.connect();
    supervisor.write_all(GET).await.unwrap();
    assert!(answer(&mut supervisor).await.starts_with("HTTP/1.1 200"));
    let (_, took) = rest(&mut held[0]).await;
    assert_eq!(took, Duration::ZERO, "the first was let go");
    held[1].write_all(GET).await.unwrap();
    answer(&mut held[1]).await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_under_way_is_given_before_the_server_ends() {
    let actor = Actor::new([(millis(2_000), Ok(()))]);
    let door = Door::open(actor.clone());
    let mut client = door.connect();
    client.write_all(GET).await.unwrap();
    actor.started(1).await;
    door.stop.send(()).unwrap();
    let (said, took) = rest(&mut client).await;
    assert!(said.ends_with("ok\n"), "{said}");
    assert_eq!(took, millis(2_000));
    door.serving.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn nobody_keeps_a_server_from_ending() {
    let door = Door::open(Actor::says(Ok(())));
    let mut client = door.connect();
    client.write_all(b"GET /livez HTT").await.unwrap();
    sleep(millis(1)).await;
    let began = Instant::now();
    door.stop.send(()).unwrap();
    door.serving.await.unwrap().unwrap();
    assert_eq!(began.elapsed().as_secs(), 5);
    rest(&mut client).await;
    assert_eq!(began.elapsed().as_secs(), 5, "and it is let go");
}

#[tokio::test]
async fn what_is_too_long_is_refused() {
    let (health, _) = health(|checks| {
        checks.readyz("a", Actor::says(bad("x")));
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
    let flooded = say(address, format!("GET /readyz HTTP/1.1\r\n{flood}\r\n")).await;
    assert!(flooded.starts_with("HTTP/1.1 431 "), "{flooded}");
}

/// Requests that are nearly right, and whether they are as they should be to the last byte.
fn strange(random: &mut fastrand::Rng) -> (Vec<u8>, bool) {
    const METHODS: [&str; 9] = [
        "GET", "GET", "GET", "HEAD", "POST", "OPTIONS", "CONNECT", "x", "",
    ];
    const PARTS: [&str; 22] = [
        "/", "livez", "readyz", "a", "?", "verbose", "exclude", "=", "&", ";", "%", "%61", "%0a",
        "%ff", "+", "..", "//", "*", "ä", "\0", "http://x", "#",
    ];
    let mut target = ["/livez", "/readyz", ""][random.usize(..3)].to_owned();
    for _ in 0..random.usize(..12) {
        target += PARTS[random.usize(..PARTS.len())];
    }
    let method = METHODS[random.usize(..METHODS.len())];
    let head = format!("{method} {target} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    let mut bytes = head.clone().into_bytes();
    if random.u8(..) < 32 {
        let at = random.usize(..bytes.len());
        bytes[at] = random.u8(..);
    }
    if random.u8(..) < 16 {
        bytes.truncate(random.usize(..bytes.len()));
    }
    let whole = bytes == head.as_bytes();
    (bytes, whole)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_strange_requests_change_nothing() {
    let (health, _) = health(|checks| {
        checks.both("a", Actor::says(Ok(())));
        checks.readyz("b", Actor::says(bad("as ever")));
    });
    let address = serve(health).await;
    let clients = (0..8).map(|seed| tokio::spawn(be_strange(address, seed)));
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
    assert!(unanswered < 2_000, "those that were cut: {unanswered}");
    assert_eq!(seen, BTreeMap::new(), "and nothing else");
    let answer = get(address, "/livez").await;
    assert_eq!(answer, (200, "ok\n".into()));
}

/// Sends 1,250 requests; how often each status came back, none if the server closed in silence.
async fn be_strange(address: SocketAddr, seed: u64) -> BTreeMap<String, usize> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut statuses = BTreeMap::new();
    for _ in 0..1_250 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let (bytes, whole) = strange(&mut random);
        let _ = stream.write_all(&bytes).await;
        if !whole {
            // A request without its end would be waited for.
            let _ = stream.shutdown().await;
        }
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said).await;
        let status = said.get(9..12).unwrap_or_default();
        let status = String::from_utf8_lossy(status).into_owned();
        *statuses.entry(status).or_default() += 1;
    }
    statuses
}
