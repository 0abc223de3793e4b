//! The seed's half against a server that says what a test wants.

mod limit;
mod refusal;
mod silence;
mod survey;

use std::io::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use kelpie_kube::seed::{Seed, SeedOptions};
use tempfile::NamedTempFile;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// A server that answers every request in one way and remembers the first lines of all.
struct Server {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    async fn new(status: u16, body: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, status, body, Arc::clone(&seen)));
            }
        });
        Self { address, requests }
    }

    async fn seed(&self, qps: f32, burst: u32) -> Seed {
        seed_at(self.address, qps, burst).await
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

async fn seed_at(address: SocketAddr, qps: f32, burst: u32) -> Seed {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(kubeconfig(address, "").as_bytes()).unwrap();
    let options = SeedOptions {
        kubeconfig: Some(file.path().to_owned()),
        qps,
        burst,
        user_agent: "kelpie-test".into(),
    };
    Seed::connect(&options).await.unwrap()
}

/// A kubeconfig for a server without TLS; `more` goes into its cluster.
fn kubeconfig(address: SocketAddr, more: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Config, current-context: c, users: [],
        clusters: [{{name: c, cluster: {{server: 'http://{address}'{more}}}}}],
        contexts: [{{name: c, context: {{cluster: c, user: ''}}}}]}}"
    )
}

async fn serve(stream: TcpStream, status: u16, body: &str, seen: Arc<Mutex<Vec<String>>>) {
    let mut stream = BufReader::new(stream);
    while let Some(request) = read_request(&mut stream).await {
        seen.lock().unwrap().push(request);
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{body}"
        );
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// The first line of a request and its user agent; the rest is skipped.
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
