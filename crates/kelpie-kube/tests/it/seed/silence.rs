//! Failures are ours to report: the client library logs nothing, least of all bodies.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex};

use futures_util::StreamExt;
use kelpie_core::ResourceRef;
use kelpie_kube::seed::Change;
use tokio::net::TcpListener;
use tracing::Level;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::MakeWriter;

use super::{Server, seed_at};

/// Everything that is logged on this thread while it is alive.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
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

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// Makes every kind of call on a server that cannot help.
async fn call_all(address: SocketAddr, status: u16) {
    let seed = seed_at(address, 100.0, 100).await;
    assert!(seed.version().await.is_err());
    let target = ResourceRef {
        api_version: "example.org/v1".into(),
        kind: "Rig".into(),
        name: "rig".into(),
    };
    assert!(seed.targets().read("ns", &target).await.is_err());
    let mut secrets = pin!(seed.secrets("kubeconfig", None));
    assert!(matches!(secrets.next().await, Some(Change::Failed(_))));
    assert_eq!(seed.answers(), [(status, 3)].into());
}

#[tokio::test]
async fn a_server_that_fails_or_is_gone_leaves_no_lines_of_the_library() {
    let (log, _guard) = Log::start();
    let failing = Server::new(500, "a secret").await;
    call_all(failing.address, 500).await;
    let garbage = Server::new(200, r#"{"a secret": tru}"#).await;
    call_all(garbage.address, 200).await;
    let forbidden = Server::new(403, "a secret").await;
    call_all(forbidden.address, 403).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gone = listener.local_addr().unwrap();
    drop(listener);
    call_all(gone, 0).await;
    assert_eq!(log.text(), "");
}

/// Without our silence it does log: the test above can fail.
#[tokio::test]
async fn the_library_itself_is_not_silent() {
    let (log, _guard) = Log::start();
    let failing = Server::new(500, "a secret").await;
    let url = format!("http://{}", failing.address);
    let mut config = kube::Config::new(url.parse().unwrap());
    config.default_retry = false;
    let client = kube::Client::try_from(config).unwrap();
    assert!(client.apiserver_version().await.is_err());
    assert!(log.text().contains("ERROR"), "{}", log.text());
}
