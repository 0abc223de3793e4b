//! Sources and hubs whose answers a test decides, and the collector.

use std::process::Output;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{Request, Response, StatusCode};
use kelpie_e2e::{Kelpie, kelpie, poll};
use kelpie_net::{ServedBody, serve_connection};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// How long anything may take that is expected to happen, on a loaded machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// A status and a body; 0 ends the connection without a word.
pub(crate) type Answer = (u16, String);

/// Decides on an answer.
type Decide = Box<dyn FnMut(&Request<bytes::Bytes>) -> Answer + Send>;

/// A plain HTTP server on loopback. It ends when dropped.
pub(crate) struct Scripted {
    url: String,
    answer: Arc<Mutex<Decide>>,
    _serving: JoinSet<()>,
}

impl Scripted {
    pub(crate) async fn start(
        answer: impl FnMut(&Request<bytes::Bytes>) -> Answer + Send + 'static,
    ) -> Self {
        let answer: Arc<Mutex<Decide>> = Arc::new(Mutex::new(Box::new(answer)));
        let kept = Arc::clone(&answer);
        let (url, serving) = serve(move |request| {
            let (status, body) = (kept.lock().unwrap())(request);
            response(status, body)
        })
        .await;
        Self {
            url,
            answer,
            _serving: serving,
        }
    }

    /// A source that gives this text to everybody who federates.
    pub(crate) async fn source(text: impl Into<String>) -> Self {
        let text = text.into();
        Self::start(move |_| (200, text.clone())).await
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn host(&self) -> &str {
        self.url.trim_start_matches("http://")
    }

    /// What it answers from now on.
    pub(crate) fn change(
        &self,
        answer: impl FnMut(&Request<bytes::Bytes>) -> Answer + Send + 'static,
    ) {
        *self.answer.lock().unwrap() = Box::new(answer);
    }
}

/// Answers plain HTTP on loopback until the tasks are dropped; with its URL.
pub(crate) async fn serve(
    answer: impl Fn(&Request<bytes::Bytes>) -> Option<Response<ServedBody>> + Send + Sync + 'static,
) -> (String, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer = Arc::new(answer);
    let mut serving = JoinSet::new();
    serving.spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let answer = Arc::clone(&answer);
            connections.spawn(async move {
                let served =
                    serve_connection(stream, |request| std::future::ready(answer(&request)));
                // A client may leave when it likes.
                let _ = served.await;
            });
        }
    });
    (url, serving)
}

fn response(status: u16, body: String) -> Option<Response<ServedBody>> {
    let status = StatusCode::from_u16(status).ok()?;
    let mut response = Response::new(ServedBody::whole(body));
    *response.status_mut() = status;
    Some(response)
}

/// The wall's clock, in milliseconds since 1970.
#[expect(
    clippy::disallowed_methods,
    reason = "real servers judge samples by the wall's clock"
)]
pub(crate) fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(now.as_millis()).unwrap()
}

/// `count` series of one name with a sample of this time each.
pub(crate) fn lines(name: &str, count: usize, time_ms: i64) -> String {
    let line = |number| format!("{name}{{n=\"{number}\"}} {number} {time_ms}");
    let lines: Vec<String> = (0..count).map(line).collect();
    lines.join("\n") + "\n"
}

/// One tick; the exit code and all that was said.
pub(crate) async fn once(from: &str, to: &str, more: &[&str]) -> (Option<i32>, String) {
    let fixed = ["addon", "collector", "--once", "--from", from, "--to", to];
    let output = kelpie::run(&[&fixed, more].concat()).await.unwrap();
    said(output)
}

pub(crate) fn said(output: Output) -> (Option<i32>, String) {
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(said).unwrap())
}

/// A collector that runs until it is dropped.
pub(crate) async fn collector(from: &str, to: &str, more: &[&str]) -> Kelpie {
    let fixed = [
        "addon",
        "collector",
        "--from",
        from,
        "--to",
        to,
        "--listen=127.0.0.1:0",
        "--log-level=debug",
    ];
    Kelpie::start(&[&fixed, more].concat()).await.unwrap()
}

/// Waits for so many more ticks that end so.
pub(crate) async fn until_ticks(collector: &Kelpie, result: &str, more: f64) {
    let name = format!("kelpie_collector_ticks_total{{result=\"{result}\"}}");
    let before = collector.metric(&name).await.unwrap();
    let waited = poll::until(&name, PATIENCE, async || {
        Ok((collector.metric(&name).await? >= before + more).then_some(()))
    });
    if let Err(error) = waited.await {
        panic!("{error:#}\n{}", collector.process().log_tail());
    }
}
