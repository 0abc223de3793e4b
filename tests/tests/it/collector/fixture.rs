//! Fixture for the tests of `kelpie addon collector`: scripted sources and hubs.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use kelpie_e2e::{Kelpie, kelpie, poll};
use kelpie_net::{ResponseBody, serve_connection};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::fixture::exit_code_and_text;
pub(crate) use crate::fixture::{TIMEOUT, now_ms};

/// Status code and body. Status 0 closes the connection without a response.
pub(crate) type ScriptedResponse = (u16, String);

/// Chooses the response to a request.
type Script = Box<dyn FnMut(&Request<Bytes>) -> ScriptedResponse + Send>;

/// A plain HTTP server on loopback with scripted responses. It stops when dropped.
pub(crate) struct ScriptedServer {
    url: String,
    script: Arc<Mutex<Script>>,
    _serving: JoinSet<()>,
}

impl ScriptedServer {
    pub(crate) async fn start(
        script: impl FnMut(&Request<Bytes>) -> ScriptedResponse + Send + 'static,
    ) -> Self {
        let script: Arc<Mutex<Script>> = Arc::new(Mutex::new(Box::new(script)));
        let current = Arc::clone(&script);
        let (url, serving) = serve(move |request| {
            let (status, body) = (current.lock().unwrap())(request);
            response(status, body)
        })
        .await;
        Self {
            url,
            script,
            _serving: serving,
        }
    }

    /// Starts a source that answers every request with this text.
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

    /// Replaces the script.
    pub(crate) fn set_script(
        &self,
        script: impl FnMut(&Request<Bytes>) -> ScriptedResponse + Send + 'static,
    ) {
        *self.script.lock().unwrap() = Box::new(script);
    }
}

/// Serves plain HTTP on loopback until the returned tasks are dropped. Returns the URL with them.
pub(crate) async fn serve(
    respond: impl Fn(&Request<Bytes>) -> Option<Response<ResponseBody>> + Send + Sync + 'static,
) -> (String, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let respond = Arc::new(respond);
    let mut serving = JoinSet::new();
    serving.spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let respond = Arc::clone(&respond);
            connections.spawn(async move {
                let served =
                    serve_connection(stream, |request| std::future::ready(respond(&request)));
                // The client may disconnect at any time.
                let _ = served.await;
            });
        }
    });
    (url, serving)
}

fn response(status: u16, body: String) -> Option<Response<ResponseBody>> {
    let status = StatusCode::from_u16(status).ok()?;
    let mut response = Response::new(ResponseBody::full(body));
    *response.status_mut() = status;
    Some(response)
}

/// Returns an exposition with `count` series of one name, each with a sample of this time.
pub(crate) fn exposition(name: &str, count: usize, time_ms: i64) -> String {
    let line = |number| format!("{name}{{n=\"{number}\"}} {number} {time_ms}");
    let lines: Vec<String> = (0..count).map(line).collect();
    lines.join("\n") + "\n"
}

/// Runs the collector with `--once`, and returns its exit code and output.
pub(crate) async fn run_once(from: &str, to: &str, flags: &[&str]) -> (Option<i32>, String) {
    let fixed = ["addon", "collector", "--once", "--from", from, "--to", to];
    let output = kelpie::run(&[&fixed, flags].concat()).await.unwrap();
    exit_code_and_text(output)
}

/// Starts a collector that runs until it is dropped.
pub(crate) async fn collector(from: &str, to: &str, flags: &[&str]) -> Kelpie {
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
    Kelpie::start(&[&fixed, flags].concat()).await.unwrap()
}

/// Waits until this many more ticks have ended with `result`.
pub(crate) async fn until_ticks(collector: &Kelpie, result: &str, more: f64) {
    let name = format!("kelpie_collector_ticks_total{{result=\"{result}\"}}");
    let before = collector.metric(&name).await.unwrap();
    let waited = poll::until(&name, TIMEOUT, async || {
        Ok((collector.metric(&name).await? >= before + more).then_some(()))
    });
    if let Err(error) = waited.await {
        panic!("{error:#}\n{}", collector.process().log_tail());
    }
}
