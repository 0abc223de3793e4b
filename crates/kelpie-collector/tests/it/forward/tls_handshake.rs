//! TLS handshakes with the hub that fail, over loopback.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kelpie_net::Network;

use super::fixture::{Fixture, lines};

/// A hub that answers every handshake with these bytes and closes the connection. Returns its URL
/// and the number of connections.
fn broken_hub(answer: &'static [u8]) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let connections = Arc::<AtomicUsize>::default();
    let counter = Arc::clone(&connections);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            counter.fetch_add(1, Ordering::Relaxed);
            let _ = respond(stream.unwrap(), answer);
        }
    });
    (url, connections)
}

/// Reads the start of a handshake, answers and closes.
fn respond(mut stream: TcpStream, answer: &[u8]) -> std::io::Result<()> {
    let _ = stream.read(&mut [0; 16 * 1024])?;
    stream.write_all(answer)
}

/// Runs a tick to this hub. Returns the number of connections and the failure.
async fn tick(answer: &'static [u8]) -> (usize, String) {
    let folder = tempfile::tempdir().unwrap();
    let authorities = folder.path().join("ca.pem");
    let key = rcgen::KeyPair::generate().unwrap();
    let authority = rcgen::CertificateParams::default().self_signed(&key);
    std::fs::write(&authorities, authority.unwrap().pem()).unwrap();
    let (url, connections) = broken_hub(answer);
    let source = one_sample_source();
    let mut fixture = Fixture::new();
    fixture.settings.from.url = source;
    fixture.settings.network = Network::default();
    fixture.settings.interval = Duration::from_secs(1);
    let to = fixture.settings.to.as_mut().unwrap();
    (to.url, to.ca_file) = (url, Some(authorities));
    let message = fixture.tick().await.result.unwrap_err();
    (connections.load(Ordering::Relaxed), message)
}

/// A source on loopback with one sample.
fn one_sample_source() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let text = lines("m", 1, Duration::ZERO);
        let length = text.len();
        let response = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{text}");
        let (stream, _) = listener.accept().unwrap();
        let _ = respond(stream, response.as_bytes());
    });
    url
}

#[tokio::test]
async fn cut_handshake_is_retried() {
    let (connections, message) = tick(b"").await;
    assert!(
        message.contains("closed the connection during the TLS handshake"),
        "{message}"
    );
    assert!(connections > 1, "{connections} connections");
}

#[tokio::test]
async fn handshake_without_tls_is_not_retried() {
    let (connections, message) = tick(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    assert!(message.contains("does not speak TLS"), "{message}");
    assert_eq!(connections, 1);
}
