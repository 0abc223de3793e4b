//! Accepting TLS connections.

use axum::serve::Listener;
use http::HeaderMap;
use kelpie_net::{ConnectError, Endpoint, HttpConnection, TlsFault, TlsListener, TlsServer};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::fixture::{Authority, OK, respond_to_all, within_10s};

async fn listen(server: &TlsServer) -> (u16, JoinSet<()>) {
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut listener = TlsListener::new(tcp, server.clone());
    let port = listener.local_addr().unwrap().port();
    let mut serving = JoinSet::new();
    serving.spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let (stream, _) = listener.accept().await;
            connections.spawn(respond_to_all(Box::new(stream), OK));
        }
    });
    (port, serving)
}

async fn get(port: u16, authority: &Authority) -> Result<u16, TlsFault> {
    let url = format!("https://127.0.0.1:{port}");
    let endpoint = Endpoint::new(&url, Some(authority.client(None))).unwrap();
    match within_10s(HttpConnection::open(&endpoint)).await {
        Ok(mut connection) => {
            let response = within_10s(connection.get("/", &HeaderMap::new()))
                .await
                .unwrap();
            Ok(response.status.as_u16())
        }
        Err(ConnectError::Tls { fault, .. }) => Err(fault),
        Err(other) => panic!("{other}"),
    }
}

#[tokio::test]
async fn stalled_handshakes_do_not_block_others() {
    let authority = Authority::new();
    let server = TlsServer::new(&authority.sign("127.0.0.1", false).identity(), None).unwrap();
    let (port, _serving) = listen(&server).await;
    let mut stalling = Vec::new();
    for number in 0..600 {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        if number % 2 == 0 {
            stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        }
        stalling.push(stream);
    }
    assert_eq!(get(port, &authority).await, Ok(200));
}

#[tokio::test]
async fn next_handshake_uses_replaced_certificate() {
    let (old, new) = (Authority::new(), Authority::new());
    let server = TlsServer::new(&old.sign("127.0.0.1", false).identity(), None).unwrap();
    let (port, _serving) = listen(&server).await;
    assert_eq!(get(port, &old).await, Ok(200));
    server.replace(&new.sign("127.0.0.1", false).identity());
    assert_eq!(get(port, &old).await, Err(TlsFault::UnknownCa));
    assert_eq!(get(port, &new).await, Ok(200));
}
