//! Memory of an idle connection. A process holds thousands of them.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "test code: failures should be loud"
)]

#[allow(dead_code, reason = "shared with the other tests")]
#[path = "it/fixture.rs"]
mod fixture;

use fixture::{Authority, Server, respond_to_all};
use http::HeaderMap;
use kelpie_net::HttpConnection;

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const CONNECTIONS: usize = 50;
const LARGEST: usize = 40 * 1024;

/// The server runs in the same process. It makes no progress while the client side is dropped, so
/// all memory freed then belongs to the client.
#[test]
fn idle_tls_connection_takes_under_40_kib() {
    let _profiler = dhat::Profiler::builder().testing().build();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let authority = Authority::new();
        let config = authority.sign("127.0.0.1", false).server(None);
        // A body as large as a list of leases, so that buffers grow as they do in production.
        let mut response = b"HTTP/1.1 200 OK\r\nContent-Length: 500000\r\n\r\n".to_vec();
        response.resize(response.len() + 500_000, b'x');
        let response: &'static [u8] = Box::leak(response.into_boxed_slice());
        let server = Server::tls(config, |wire| respond_to_all(wire, response)).await;
        let endpoint = server.https(authority.client(None));
        let opening = size_of_val(&HttpConnection::open(&endpoint));
        println!("a task has {opening} B for opening a connection");
        assert!(opening < 2_048, "{opening} B");
        let mut kept = Vec::new();
        // The first connection creates everything that is created once.
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

async fn used(server: &Server, authority: &Authority) -> HttpConnection {
    let endpoint = server.https(authority.client(None));
    let mut connection = HttpConnection::open(&endpoint).await.unwrap();
    for _ in 0..2 {
        let mut response = connection.get("/", &HeaderMap::new()).await.unwrap();
        while response.chunk().await.unwrap().is_some() {}
    }
    assert!(connection.is_usable());
    connection
}
