//! What an idle connection costs: a process holds thousands of them.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "test code: failures should be loud"
)]

#[allow(dead_code, reason = "shared with the other tests")]
#[path = "it/server.rs"]
mod server;

use http::HeaderMap;
use kelpie_net::Connection;
use server::{Authority, Server, answer_all};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const CONNECTIONS: usize = 50;
const LARGEST: usize = 40 * 1024;

/// The server lives in the same process. It cannot take part while the client's side is dropped, so
/// what goes then is the client's alone.
#[test]
fn an_idle_tls_connection_takes_less_than_40_kib() {
    let _profiler = dhat::Profiler::builder().testing().build();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let authority = Authority::new();
        let config = authority.sign("127.0.0.1", false).server(None);
        // A body as large as a list of leases, so that buffers have grown as they do in life.
        let mut answer = b"HTTP/1.1 200 OK\r\nContent-Length: 500000\r\n\r\n".to_vec();
        answer.resize(answer.len() + 500_000, b'x');
        let answer: &'static [u8] = Box::leak(answer.into_boxed_slice());
        let server = Server::tls(config, |wire| answer_all(wire, answer)).await;
        let endpoint = server.https(authority.client(None));
        let opening = size_of_val(&Connection::open(&endpoint));
        println!("a task has {opening} B for opening a connection");
        assert!(opening < 2_048, "{opening} B");
        let mut kept = Vec::new();
        // Whatever is made once is made now.
        kept.push(used(&server, &authority).await);
        let before = dhat::HeapStats::get().curr_bytes;
        for _ in 0..CONNECTIONS {
            kept.push(used(&server, &authority).await);
        }
        let both = (dhat::HeapStats::get().curr_bytes - before) / CONNECTIONS;
        drop(kept.split_off(1));
        let after = dhat::HeapStats::get().curr_bytes;
        let client = (before + both * CONNECTIONS - after) / CONNECTIONS;
        println!("per connection: {client} B, with the server's side {both} B");
        assert!(client < LARGEST, "{client} B");
    });
}

async fn used(server: &Server, authority: &Authority) -> Connection {
    let endpoint = server.https(authority.client(None));
    let mut connection = Connection::open(&endpoint).await.unwrap();
    for _ in 0..2 {
        let mut response = connection.get("/", &HeaderMap::new()).await.unwrap();
        while response.chunk().await.unwrap().is_some() {}
    }
    assert!(connection.is_usable());
    connection
}
