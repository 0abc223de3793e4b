//! The client library logs nothing, least of all response bodies. Callers report failures.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex};

use futures_util::StreamExt;
use kelpie_core::prober::ResourceRef;
use kelpie_kube::resources::KubeconfigSecret;
use kelpie_kube::watch::{Selection, WatchEvent};
use tokio::net::TcpListener;
use tracing::Level;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::MakeWriter;

use super::{FixedServer, client_for};

/// Captures the logs of this thread while its guard is alive.
#[derive(Clone, Default)]
struct CapturedLog(Arc<Mutex<Vec<u8>>>);

impl CapturedLog {
    fn start() -> (Self, DefaultGuard) {
        let log = Self::default();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(Level::INFO)
            .with_writer(log.clone())
            .finish();
        let guard = tracing::subscriber::set_default(subscriber);
        (log, guard)
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl io::Write for CapturedLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for CapturedLog {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// Makes every kind of call on a server that responds only with errors.
async fn call_all(address: SocketAddr, status: u16) {
    let client = client_for(address, 100.0, 100).await;
    assert!(client.version().await.is_err());
    let target = ResourceRef {
        api_version: "example.org/v1".into(),
        kind: "Widget".into(),
        name: "widget".into(),
    };
    assert!(
        client
            .actuators()
            .scale()
            .read("ns", &target)
            .await
            .is_err()
    );
    let mut secrets = pin!(client.watch::<KubeconfigSecret>(Selection {
        name: Some("kubeconfig"),
        ..Selection::default()
    }));
    assert!(matches!(secrets.next().await, Some(WatchEvent::Error(_))));
    assert_eq!(client.response_counts(), [(status, 3)].into());
}

#[tokio::test]
async fn failing_server_leaves_no_logs() {
    let (log, _guard) = CapturedLog::start();
    let failing = FixedServer::new(500, "a secret").await;
    call_all(failing.address, 500).await;
    let garbage = FixedServer::new(200, r#"{"a secret": tru}"#).await;
    call_all(garbage.address, 200).await;
    let forbidden = FixedServer::new(403, "a secret").await;
    call_all(forbidden.address, 403).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gone = listener.local_addr().unwrap();
    drop(listener);
    call_all(gone, 0).await;
    assert_eq!(log.text(), "");
}

/// Proves that the test above can fail: without suppression the library does log.
#[tokio::test]
async fn unsuppressed_library_logs() {
    let (log, _guard) = CapturedLog::start();
    let failing = FixedServer::new(500, "a secret").await;
    let url = format!("http://{}", failing.address);
    let mut config = kube::Config::new(url.parse().unwrap());
    config.default_retry = false;
    let client = kube::Client::try_from(config).unwrap();
    assert!(client.apiserver_version().await.is_err());
    assert!(log.text().contains("ERROR"), "{}", log.text());
}
