//! Clients that send malformed requests.

use std::time::Duration;

use fastrand::Rng;
use futures_util::future::join_all;
use kelpie_e2e::{EtcdMember, Kelpie, plain_http};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::fixture::{TIMEOUT, start_kelpie};

const CLIENTS: usize = 20;
const REQUESTS_PER_CLIENT: usize = 500;

const METHODS: [&str; 10] = [
    "GET", "GET", "GET", "GET", "HEAD", "POST", "OPTIONS", "CONNECT", "get", "",
];
const PARTS: [&str; 24] = [
    "/",
    "livez",
    "readyz",
    "metrics",
    "read_index",
    "?",
    "verbose",
    "exclude",
    "=",
    "&",
    ";",
    "%",
    "%61",
    "%0a",
    "%ff",
    "+",
    "..",
    "//",
    "*",
    "ä",
    "\0",
    "http://x",
    "#",
    "\r\n",
];

#[tokio::test]
async fn malformed_requests_change_nothing() {
    let etcd = EtcdMember::start("etcd").await.unwrap();
    let kelpie = start_kelpie(&etcd, &[]).await;
    kelpie.until_status("/readyz", 200, TIMEOUT).await.unwrap();
    let rng_seed = fastrand::u64(..);
    println!("run {rng_seed}");

    // Clients that send half a request and wait must not block others.
    let mut held = Vec::new();
    for _ in 0..200 {
        let mut stream = TcpStream::connect(plain_http::host(kelpie.url()).unwrap())
            .await
            .unwrap();
        stream
            .write_all(b"GET /livez HTTP/1.1\r\nHo")
            .await
            .unwrap();
        held.push(stream);
    }
    let clients = (0..CLIENTS).map(|client| send_malformed(&kelpie, rng_seed + client as u64));
    let done = timeout(Duration::from_mins(2), join_all(clients)).await;
    let answered: usize = done.expect("a client hangs").into_iter().sum();

    println!(
        "{answered} of {} requests were answered",
        CLIENTS * REQUESTS_PER_CLIENT
    );
    assert!(answered > CLIENTS * REQUESTS_PER_CLIENT / 2, "{answered}");
    for target in ["/livez", "/readyz"] {
        let reply = kelpie.get(target).await.unwrap();
        assert_eq!(
            (reply.status, reply.body.as_str()),
            (200, "ok\n"),
            "{target}"
        );
    }
    drop(held);
    let log = kelpie.process().log();
    assert!(!log.contains("panicked"), "{}", kelpie.process().log_tail());
    let resident = kelpie.process().resident_bytes().unwrap();
    println!("{} KiB resident after the test", resident / 1024);
    assert!(resident < 60 << 20, "{resident} bytes");
    assert_eq!(kelpie.stop().await.unwrap().code, Some(0));
}

/// Sends malformed requests one after another and counts the responses.
async fn send_malformed(kelpie: &Kelpie, rng_seed: u64) -> usize {
    let mut rng = Rng::with_seed(rng_seed);
    let mut answered = 0;
    for _ in 0..REQUESTS_PER_CLIENT {
        let bytes = malformed_request(&mut rng);
        let mut stream = TcpStream::connect(plain_http::host(kelpie.url()).unwrap())
            .await
            .unwrap();
        // The server may close before it has read everything.
        let _ = stream.write_all(&bytes).await;
        match rng.usize(..10) {
            // The client disconnects before the response.
            0 => continue,
            _ => {
                let _ = stream.shutdown().await;
            }
        }
        let mut answer = Vec::new();
        let read = stream.read_to_end(&mut answer);
        let _ = timeout(TIMEOUT, read).await.expect("a request that hangs");
        answered += usize::from(answer.starts_with(b"HTTP/1."));
    }
    answered
}

fn malformed_request(rng: &mut Rng) -> Vec<u8> {
    let mut target = ["/livez", "/readyz", "/metrics", ""][rng.usize(..4)].to_owned();
    for _ in 0..rng.usize(..10) {
        target += PARTS[rng.usize(..PARTS.len())];
    }
    if rng.u8(..) < 8 {
        target += &"x".repeat(rng.usize(..100_000));
    }
    let method = METHODS[rng.usize(..METHODS.len())];
    let mut head = format!("{method} {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n");
    if rng.u8(..) < 16 {
        head += &"x: y\r\n".repeat(rng.usize(..2_000));
    }
    if rng.u8(..) < 16 {
        head += "Transfer-Encoding: chunked\r\nContent-Length: 7\r\n";
    }
    let mut bytes = (head + "\r\n").into_bytes();
    if rng.u8(..) < 32 {
        let at = rng.usize(..bytes.len());
        bytes[at] = rng.u8(..);
    }
    if rng.u8(..) < 16 {
        bytes.truncate(rng.usize(..bytes.len()));
    }
    bytes
}
