//! Checks that do as they are told, a server, and a client that speaks bytes.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use kelpie_health::{Builder, Check, Group, Health, Reason, Settings, Verdict, not_found, routes};
use prometheus_client::registry::Registry;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

/// A check whose runs follow a script: each takes so long and then says this. The last line of the
/// script is repeated.
#[derive(Clone)]
pub struct Actor {
    script: Arc<Mutex<Vec<(Duration, Verdict)>>>,
    started: watch::Sender<usize>,
    out: Arc<AtomicUsize>,
    most_out: Arc<AtomicUsize>,
}

/// Longer than any test.
pub const FOREVER: Duration = Duration::from_secs(1_000_000);

impl Actor {
    pub fn new(script: impl IntoIterator<Item = (Duration, Verdict)>) -> Self {
        let mut script: Vec<_> = script.into_iter().collect();
        script.reverse();
        Self {
            script: Arc::new(Mutex::new(script)),
            started: watch::Sender::new(0),
            out: Arc::default(),
            most_out: Arc::default(),
        }
    }

    pub fn says(verdict: Verdict) -> Self {
        Self::new([(Duration::ZERO, verdict)])
    }

    pub fn hangs() -> Self {
        Self::new([(FOREVER, Ok(()))])
    }

    /// Runs started so far.
    pub fn runs(&self) -> usize {
        *self.started.borrow()
    }

    /// Until that many runs have started.
    pub async fn started(&self, runs: usize) {
        let mut started = self.started.subscribe();
        started.wait_for(|seen| *seen >= runs).await.unwrap();
    }

    pub fn out(&self) -> usize {
        self.out.load(Ordering::SeqCst)
    }

    pub fn most_out(&self) -> usize {
        self.most_out.load(Ordering::SeqCst)
    }

    fn next_line(&self) -> (Duration, Verdict) {
        let mut script = self.script.lock().unwrap();
        match script.len() {
            1 => script[0].clone(),
            _ => script.pop().unwrap(),
        }
    }
}

impl Check for Actor {
    async fn run(&self) -> Verdict {
        let (takes, verdict) = self.next_line();
        let out = self.out.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_out.fetch_max(out, Ordering::SeqCst);
        let _leaves = Leaves(&self.out);
        self.started.send_modify(|runs| *runs += 1);
        if !takes.is_zero() {
            sleep(takes).await;
        }
        verdict
    }
}

struct Leaves<'a>(&'a AtomicUsize);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

pub fn bad(reason: &str) -> Verdict {
    Err(Reason::from(reason))
}

pub fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The checks of a test, and the registry their numbers are in.
pub fn health(register: impl FnOnce(&mut Builder)) -> (Health, Registry) {
    health_with(Settings::default(), register)
}

pub fn health_with(settings: Settings, register: impl FnOnce(&mut Builder)) -> (Health, Registry) {
    let mut registry = Registry::default();
    let mut builder = Health::builder(settings, &mut registry);
    register(&mut builder);
    (builder.build().unwrap(), registry)
}

/// What a probe says of each check, and how long it took in milliseconds.
pub async fn probe(health: &Health, group: Group) -> (Vec<String>, u128) {
    let began = Instant::now();
    let report = health.probe(group).await;
    let words = report.findings.iter().map(|found| match &found.verdict {
        Ok(()) => format!("{} ok", found.name),
        Err(reason) => format!("{}: {reason}", found.name),
    });
    (words.collect(), began.elapsed().as_millis())
}

/// Serves these checks on a port of its own until the test ends.
pub async fn serve(health: Health) -> SocketAddr {
    serve_router(routes(health).fallback(not_found)).await
}

pub async fn serve_router(router: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let forever = std::future::pending();
    tokio::spawn(kelpie_health::serve(listener, router, forever));
    address
}

/// Sends bytes, returns what comes back until the server closes; without the date.
pub async fn say(address: SocketAddr, bytes: impl AsRef<[u8]>) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // A server that refuses early may close before it has read all of it.
    let _ = stream.write_all(bytes.as_ref()).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8(answer).unwrap();
    let lines = answer.split_inclusive('\n');
    lines.filter(|line| !line.starts_with("date: ")).collect()
}

pub async fn request(address: SocketAddr, method: &str, target: &str) -> String {
    let head = format!("{method} {target} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    say(address, head).await
}

/// The status and the body of a GET.
pub async fn get(address: SocketAddr, target: &str) -> (u16, String) {
    let answer = request(address, "GET", target).await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), body.to_owned())
}
