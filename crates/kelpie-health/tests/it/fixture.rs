//! Scripted checks, a server, and a client that sends raw bytes.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use kelpie_health::{
    CheckGroup, CheckResult, FailureReason, Health, HealthBuilder, HealthCheck, HealthSettings,
    not_found, routes,
};
use prometheus_client::registry::Registry;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

/// A check whose runs follow a script of durations and results. The last entry is repeated.
#[derive(Clone)]
pub struct ScriptedCheck {
    script: Arc<Mutex<Vec<(Duration, CheckResult)>>>,
    started: watch::Sender<usize>,
    running: Arc<AtomicUsize>,
    max_running: Arc<AtomicUsize>,
}

/// Longer than any test.
pub const FOREVER: Duration = Duration::from_secs(1_000_000);

impl ScriptedCheck {
    pub fn new(script: impl IntoIterator<Item = (Duration, CheckResult)>) -> Self {
        let mut script: Vec<_> = script.into_iter().collect();
        script.reverse();
        Self {
            script: Arc::new(Mutex::new(script)),
            started: watch::Sender::new(0),
            running: Arc::default(),
            max_running: Arc::default(),
        }
    }

    pub fn returning(result: CheckResult) -> Self {
        Self::new([(Duration::ZERO, result)])
    }

    pub fn hanging() -> Self {
        Self::new([(FOREVER, Ok(()))])
    }

    /// Returns the number of runs started so far.
    pub fn runs(&self) -> usize {
        *self.started.borrow()
    }

    /// Waits until that many runs have started.
    pub async fn wait_for_runs(&self, runs: usize) {
        let mut started = self.started.subscribe();
        started.wait_for(|started| *started >= runs).await.unwrap();
    }

    pub fn running(&self) -> usize {
        self.running.load(Ordering::SeqCst)
    }

    pub fn max_running(&self) -> usize {
        self.max_running.load(Ordering::SeqCst)
    }

    fn next_entry(&self) -> (Duration, CheckResult) {
        let mut script = self.script.lock().unwrap();
        match script.len() {
            1 => script[0].clone(),
            _ => script.pop().unwrap(),
        }
    }
}

impl HealthCheck for ScriptedCheck {
    async fn run(&self) -> CheckResult {
        let (duration, result) = self.next_entry();
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.max_running.fetch_max(running, Ordering::SeqCst);
        let _guard = RunningGuard(&self.running);
        self.started.send_modify(|runs| *runs += 1);
        if !duration.is_zero() {
            sleep(duration).await;
        }
        result
    }
}

struct RunningGuard<'a>(&'a AtomicUsize);

impl Drop for RunningGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

pub fn failed(reason: &str) -> CheckResult {
    Err(FailureReason::from(reason))
}

pub fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Builds the checks of a test, and the registry of their metrics.
pub fn health(register: impl FnOnce(&mut HealthBuilder)) -> (Health, Registry) {
    health_with(HealthSettings::default(), register)
}

pub fn health_with(
    settings: HealthSettings,
    register: impl FnOnce(&mut HealthBuilder),
) -> (Health, Registry) {
    let mut registry = Registry::default();
    let mut builder = Health::builder(settings, &mut registry);
    register(&mut builder);
    (builder.build().unwrap(), registry)
}

/// Returns the result of each check in a probe as text, and the duration in milliseconds.
pub async fn probe(health: &Health, group: CheckGroup) -> (Vec<String>, u128) {
    let started_at = Instant::now();
    let report = health.probe(group).await;
    let results = report.checks.iter().map(|check| match &check.result {
        Ok(()) => format!("{} ok", check.name),
        Err(reason) => format!("{}: {reason}", check.name),
    });
    (results.collect(), started_at.elapsed().as_millis())
}

/// Serves the checks on a free port until the test ends.
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

/// Sends bytes and returns the response up to the end of the connection, without the date header.
pub async fn send(address: SocketAddr, bytes: impl AsRef<[u8]>) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // A server that rejects the request early may close before it has read everything.
    let _ = stream.write_all(bytes.as_ref()).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8(answer).unwrap();
    let lines = answer.split_inclusive('\n');
    lines.filter(|line| !line.starts_with("date: ")).collect()
}

pub async fn request(address: SocketAddr, method: &str, target: &str) -> String {
    let head = format!("{method} {target} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    send(address, head).await
}

/// Returns the status and the body of a GET.
pub async fn get(address: SocketAddr, target: &str) -> (u16, String) {
    let answer = request(address, "GET", target).await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), body.to_owned())
}
