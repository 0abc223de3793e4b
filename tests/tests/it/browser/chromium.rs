//! A headless Chromium, driven over its debugging protocol.
//!
//! The protocol runs over a pipe, so that neither a port nor a websocket is needed.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use xtask::cache;

/// A call is answered within this time, or the test fails.
const PATIENCE: Duration = Duration::from_mins(1);

/// The descriptors 3 and 4 are those of the protocol.
const START: &str = "exec chromium --headless --no-sandbox --disable-gpu --disable-quic \
                     --no-first-run --disable-background-networking --disable-component-update \
                     --disable-sync --disable-dev-shm-usage --window-size=1440,1000 \
                     --user-data-dir=\"$1\" --remote-debugging-pipe about:blank \
                     3<&0 4>&1 0</dev/null 1>/dev/null 2>/dev/null";

/// One page of a browser of its own. The browser ends when it is dropped.
pub(super) struct Page {
    browser: Child,
    commands: ChildStdin,
    messages: Receiver<Value>,
    session: Option<String>,
    last_id: u64,
    /// Errors on the console, exceptions and violations of the Content-Security-Policy.
    pub(super) problems: Vec<String>,
    _profile: TempDir,
}

impl Page {
    /// Starts a browser and opens the page.
    pub(super) fn open(url: &str) -> Self {
        let profile = TempDir::with_prefix("kelpie-chromium-").unwrap();
        let mut browser = Command::new("sh")
            .args(["-c", START, "chromium"])
            .arg(profile.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (commands, answers) = (browser.stdin.take(), browser.stdout.take());
        let (sender, messages) = channel();
        thread::spawn(move || {
            let mut answers = BufReader::new(answers.unwrap());
            let mut text = Vec::new();
            while answers
                .read_until(0, &mut text)
                .is_ok_and(|count| count > 0)
            {
                text.pop();
                let message = serde_json::from_slice(&text);
                text.clear();
                if message.is_ok_and(|message| sender.send(message).is_err()) {
                    return;
                }
            }
        });
        let mut page = Self {
            browser,
            commands: commands.unwrap(),
            messages,
            session: None,
            last_id: 0,
            problems: Vec::new(),
            _profile: profile,
        };
        let target = page.call("Target.createTarget", &json!({ "url": "about:blank" }));
        let target = json!({ "targetId": target["targetId"], "flatten": true });
        let session = page.call("Target.attachToTarget", &target);
        page.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            page.call(domain, &json!({}));
        }
        page.call("Page.navigate", &json!({ "url": url }));
        page
    }

    /// Makes a call and returns its result.
    pub(super) fn call(&mut self, method: &str, params: &Value) -> Value {
        self.last_id += 1;
        let mut command = json!({ "id": self.last_id, "method": method, "params": params });
        if let Some(session) = &self.session {
            command["sessionId"] = json!(session);
        }
        let text = format!("{command}\0");
        let sent = self.commands.write_all(text.as_bytes());
        let hint = "is Chromium installed? (on Debian: apt-get install chromium)";
        sent.and_then(|()| self.commands.flush()).expect(hint);
        loop {
            let message = match self.messages.recv_timeout(PATIENCE) {
                Ok(message) => message,
                Err(RecvTimeoutError::Timeout) => panic!("{method} was not answered"),
                Err(RecvTimeoutError::Disconnected) => panic!("Chromium has ended; {hint}"),
            };
            if message["id"] == self.last_id {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].clone();
            }
            self.note(&message);
        }
    }

    fn note(&mut self, event: &Value) {
        let params = &event["params"];
        let problem = match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => &params["exceptionDetails"],
            Some("Runtime.consoleAPICalled") if params["type"] == "error" => &params["args"],
            // A violation of the policy is one. A lost connection is what some tests are about.
            Some("Log.entryAdded")
                if params["entry"]["level"] == "error"
                    && params["entry"]["source"] != "network" =>
            {
                &params["entry"]["text"]
            }
            _ => return,
        };
        self.problems.push(problem.to_string());
    }

    /// Evaluates an expression and returns its value. A promise is awaited.
    pub(super) fn value(&mut self, expression: &str) -> Value {
        let params = json!({
            "expression": expression, "returnByValue": true, "awaitPromise": true,
        });
        let result = self.call("Runtime.evaluate", &params);
        let details = &result["exceptionDetails"];
        assert!(details.is_null(), "{expression}: {details}");
        result["result"]["value"].clone()
    }

    /// Returns the text of the first element that matches.
    pub(super) fn text(&mut self, selector: &str) -> String {
        let expression = format!("document.querySelector({selector:?})?.innerText ?? ''");
        self.value(&expression)
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// Waits until an expression is true. Returns the time that it took.
    pub(super) fn until(&mut self, expression: &str, limit: Duration) -> Duration {
        let limit = limit.as_millis();
        let waited = self.value(&format!(
            "new Promise((done) => {{ \
               const start = performance.now(); \
               const look = () => {{ \
                 const waited = performance.now() - start; \
                 if ({expression}) done(waited); \
                 else if (waited > {limit}) done(null); \
                 else setTimeout(look, 10); \
               }}; \
               look(); \
             }})"
        ));
        let Some(waited) = waited.as_f64() else {
            let page = self.text("body");
            panic!("not true within {limit} ms: {expression}\n{page}");
        };
        Duration::from_secs_f64(waited / 1_000.0)
    }

    /// Fails if the page has logged an error, has thrown, or has violated its policy.
    pub(super) fn assert_no_problems(&mut self) {
        // Events that were sent before are read with it.
        self.value("0");
        assert!(self.problems.is_empty(), "{:#?}", self.problems);
    }

    /// Fails if axe-core finds a serious violation. The debugger runs it, so that the policy of the
    /// page stays as it is.
    pub(super) fn assert_accessible(&mut self) {
        let axe = cache::find(cache::AXE).unwrap().join("axe.min.js");
        let axe = std::fs::read_to_string(axe).unwrap();
        self.call("Runtime.evaluate", &json!({ "expression": axe }));
        let found = self.value(
            "axe.run().then(({ violations }) => violations \
             .filter(({ impact }) => impact === 'serious' || impact === 'critical') \
             .map(({ id, nodes }) => [id, ...nodes.map((node) => node.html)]))",
        );
        assert_eq!(found, json!([]), "{found:#}");
    }

    /// Writes a picture of the page into this folder, if the environment names one.
    pub(super) fn picture(&mut self, name: &str, is_dark: bool) {
        let Ok(folder) = std::env::var("KELPIE_PICTURES") else {
            return;
        };
        let scheme = if is_dark { "dark" } else { "light" };
        let scheme = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call("Emulation.setEmulatedMedia", &scheme);
        let picture = self.call("Page.captureScreenshot", &json!({ "format": "png" }));
        let picture = picture["data"].as_str().unwrap();
        let bytes = base64::Engine::decode(&base64::prelude::BASE64_STANDARD, picture).unwrap();
        std::fs::write(format!("{folder}/{name}.png"), bytes).unwrap();
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.browser.kill();
        let _ = self.browser.wait();
    }
}
