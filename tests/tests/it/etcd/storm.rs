//! Clients that do everything wrong.

use std::time::Duration;

use fastrand::Rng;
use futures_util::future::join_all;
use kelpie_e2e::{Etcd, Kelpie, wire};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::stage::{PATIENCE, beside};

const CLIENTS: usize = 20;
const EACH: usize = 500;

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
async fn ten_thousand_strange_requests_leave_the_probe_as_it_was() {
    let etcd = Etcd::start("etcd").await.unwrap();
    let kelpie = beside(&etcd, &[]).await;
    kelpie.until("/readyz", 200, PATIENCE).await.unwrap();
    let seed = fastrand::u64(..);
    println!("seed {seed}");

    // Clients that send half a request and wait hold nobody up.
    let mut held = Vec::new();
    for _ in 0..200 {
        let mut stream = TcpStream::connect(wire::host(kelpie.url()).unwrap())
            .await
            .unwrap();
        stream
            .write_all(b"GET /livez HTTP/1.1\r\nHo")
            .await
            .unwrap();
        held.push(stream);
    }
    let clients = (0..CLIENTS).map(|client| misbehave(&kelpie, seed + client as u64));
    let done = timeout(Duration::from_mins(2), join_all(clients)).await;
    let answered: usize = done.expect("a client hangs").into_iter().sum();

    println!("{answered} of {} requests were answered", CLIENTS * EACH);
    assert!(answered > CLIENTS * EACH / 2, "{answered}");
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
    let resident = kelpie.process().resident().unwrap();
    println!("{} KiB resident after the storm", resident / 1024);
    assert!(resident < 60 << 20, "{resident} bytes");
    assert_eq!(kelpie.stop().await.unwrap().code, Some(0));
}

/// Sends strange requests one after another and counts the answers.
async fn misbehave(kelpie: &Kelpie, seed: u64) -> usize {
    let mut random = Rng::with_seed(seed);
    let mut answered = 0;
    for _ in 0..EACH {
        let bytes = strange(&mut random);
        let mut stream = TcpStream::connect(wire::host(kelpie.url()).unwrap())
            .await
            .unwrap();
        // The server may have seen enough before the end.
        let _ = stream.write_all(&bytes).await;
        match random.usize(..10) {
            // Gone before the answer.
            0 => continue,
            _ => {
                let _ = stream.shutdown().await;
            }
        }
        let mut answer = Vec::new();
        let read = stream.read_to_end(&mut answer);
        let _ = timeout(PATIENCE, read).await.expect("a request that hangs");
        answered += usize::from(answer.starts_with(b"HTTP/1."));
    }
    answered
}

fn strange(random: &mut Rng) -> Vec<u8> {
    let mut target = ["/livez", "/readyz", "/metrics", ""][random.usize(..4)].to_owned();
    for _ in 0..random.usize(..10) {
        target += PARTS[random.usize(..PARTS.len())];
    }
    if random.u8(..) < 8 {
        target += &"x".repeat(random.usize(..100_000));
    }
    let method = METHODS[random.usize(..METHODS.len())];
    let mut head = format!("{method} {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n");
    if random.u8(..) < 16 {
        head += &"x: y\r\n".repeat(random.usize(..2_000));
    }
    if random.u8(..) < 16 {
        head += "Transfer-Encoding: chunked\r\nContent-Length: 7\r\n";
    }
    let mut bytes = (head + "\r\n").into_bytes();
    if random.u8(..) < 32 {
        let at = random.usize(..bytes.len());
        bytes[at] = random.u8(..);
    }
    if random.u8(..) < 16 {
        bytes.truncate(random.usize(..bytes.len()));
    }
    bytes
}
