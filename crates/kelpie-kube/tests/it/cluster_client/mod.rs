//! The client for the seed against a server with a fixed response.

mod batch_reader;
mod errors;
mod rate_limit;
mod suppressed_logs;

use std::io::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use kelpie_kube::client::{ClientOptions, ClusterClient};
use tempfile::NamedTempFile;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// A server that responds to every request in the same way, and records the request lines.
struct FixedServer {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl FixedServer {
    async fn new(status: u16, body: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let recorded = Arc::clone(&requests);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, status, body, Arc::clone(&recorded)));
            }
        });
        Self { address, requests }
    }

    async fn client(&self, qps: f32, burst: u32) -> ClusterClient {
        client_for(self.address, qps, burst).await
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

async fn client_for(address: SocketAddr, qps: f32, burst: u32) -> ClusterClient {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(kubeconfig(address, "").as_bytes()).unwrap();
    let options = ClientOptions {
        kubeconfig: Some(file.path().to_owned()),
        qps,
        burst,
        user_agent: "kelpie-test".into(),
    };
    ClusterClient::connect(&options).await.unwrap()
}

/// Returns a kubeconfig for a server without TLS. `fields` are added to its cluster.
fn kubeconfig(address: SocketAddr, fields: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Config, current-context: c, users: [],
        clusters: [{{name: c, cluster: {{server: 'http://{address}'{fields}}}}}],
        contexts: [{{name: c, context: {{cluster: c, user: ''}}}}]}}"
    )
}

async fn serve(stream: TcpStream, status: u16, body: &str, requests: Arc<Mutex<Vec<String>>>) {
    let mut stream = BufReader::new(stream);
    while let Some(request) = read_request(&mut stream).await {
        requests.lock().unwrap().push(request);
        let length = body.len();
        let response = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{body}"
        );
        if stream.write_all(response.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Reads a request and returns its user agent and its request line.
async fn read_request(stream: &mut BufReader<TcpStream>) -> Option<String> {
    let (mut first, mut length) = (String::new(), 0);
    stream.read_line(&mut first).await.ok().filter(|n| *n > 0)?;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok().filter(|n| *n > 0)?;
        let line = line.trim_end().to_lowercase();
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.parse().ok()?;
        }
        if let Some(agent) = line.strip_prefix("user-agent: ") {
            first = format!("{agent}: {first}");
        }
        if line.is_empty() {
            break;
        }
    }
    stream.read_exact(&mut vec![0; length]).await.ok()?;
    Some(first.trim_end().to_owned())
}
