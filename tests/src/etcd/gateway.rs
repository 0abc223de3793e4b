//! Asking a member by JSON, for what a test needs done to it.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::etcd::Etcd;
use crate::wire;

/// Requests that fill the store at the same time: enough to keep the member busy, few enough to
/// hold them in memory.
const WRITERS: usize = 8;

/// A defragmentation of half a gigabyte takes ten seconds on a slow disk.
const PATIENCE: Duration = Duration::from_mins(2);

impl Etcd {
    /// Calls one method of the API; anything but 200 is an error with what was answered.
    pub async fn call(&self, path: &str, body: &Value) -> Result<Value> {
        self.call_with(path, body, "").await
    }

    /// The same with one header line more, as in `Authorization: token`.
    pub async fn call_with(&self, path: &str, body: &Value, header: &str) -> Result<Value> {
        self.post(path, &body.to_string(), header).await
    }

    async fn post(&self, path: &str, body: &str, header: &str) -> Result<Value> {
        let header = match header {
            "" => String::new(),
            line => format!("{line}\r\n"),
        };
        // Version 1.0: an answer without chunks, and the connection closes after it.
        let request = format!(
            "POST {path} HTTP/1.0\r\n{header}Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = timeout(PATIENCE, wire::send(self.url(), request.as_bytes())).await;
        let answer = answer.with_context(|| format!("{path}: silence for {PATIENCE:?}"))??;
        let text = String::from_utf8(answer)?;
        let (head, body) = text.split_once("\r\n\r\n").context("no answer")?;
        ensure!(head.contains(" 200 "), "{path}: {head}\n{body}");
        Ok(serde_json::from_str(body)?)
    }

    /// Writes one key.
    pub async fn put(&self, key: &str, value: &[u8]) -> Result<()> {
        let value = BASE64_STANDARD.encode(value);
        let put = json!({"key": BASE64_STANDARD.encode(key), "value": value});
        self.call("/v3/kv/put", &put).await.map(|_| ())
    }

    /// Writes `count` keys of `size` bytes each, several at a time.
    pub async fn fill(&self, count: usize, size: usize) -> Result<()> {
        // Encoded once: that is most of what a write of this size costs here.
        let value = BASE64_STANDARD.encode(vec![b'x'; size]);
        let mut writers = Vec::new();
        for writer in 0..WRITERS {
            let value = &value;
            writers.push(async move {
                for number in (writer..count).step_by(WRITERS) {
                    let key = BASE64_STANDARD.encode(format!("fill/{number}"));
                    let put = format!(r#"{{"key": "{key}", "value": "{value}"}}"#);
                    self.post("/v3/kv/put", &put, "").await?;
                }
                Ok::<(), anyhow::Error>(())
            });
        }
        futures_util::future::try_join_all(writers)
            .await
            .map(|_| ())
    }

    /// Raises an alarm of the kind `CORRUPT` or `NOSPACE` for the member of this id (decimal).
    pub async fn raise(&self, alarm: &str, member: &str) -> Result<()> {
        self.alarm("ACTIVATE", alarm, member).await
    }

    /// Takes an alarm back.
    pub async fn clear(&self, alarm: &str, member: &str) -> Result<()> {
        self.alarm("DEACTIVATE", alarm, member).await
    }

    async fn alarm(&self, action: &str, alarm: &str, member: &str) -> Result<()> {
        let asked = json!({"action": action, "memberID": member, "alarm": alarm});
        self.call("/v3/maintenance/alarm", &asked).await.map(|_| ())
    }

    /// Compacts the store into a new file and waits until that is done.
    pub async fn defragment(&self) -> Result<()> {
        let nothing = json!({});
        let done = self.call("/v3/maintenance/defragment", &nothing);
        done.await.map(|_| ())
    }

    /// What the member says of itself: leader, raft index, errors.
    pub async fn status(&self) -> Result<Value> {
        self.call("/v3/maintenance/status", &json!({})).await
    }

    /// Turns authentication on: `root` may do everything, `probe` may read everything; the password
    /// of both is the given one.
    pub async fn enable_auth(&self, password: &str) -> Result<()> {
        let everything = json!({
            "permType": "READ", "key": BASE64_STANDARD.encode("\0"), "range_end": BASE64_STANDARD.encode("\0"),
        });
        for (path, body) in [
            ("role/add", json!({"name": "root"})),
            ("user/add", json!({"name": "root", "password": password})),
            ("user/grant", json!({"user": "root", "role": "root"})),
            ("user/add", json!({"name": "probe", "password": password})),
            ("role/add", json!({"name": "reader"})),
            ("role/grant", json!({"name": "reader", "perm": everything})),
            ("user/grant", json!({"user": "probe", "role": "reader"})),
            ("enable", json!({})),
        ] {
            self.call(&format!("/v3/auth/{path}"), &body).await?;
        }
        Ok(())
    }

    /// A token of `name` for the header `Authorization`.
    pub async fn token(&self, name: &str, password: &str) -> Result<String> {
        let asked = json!({"name": name, "password": password});
        let answer = self.call("/v3/auth/authenticate", &asked).await?;
        Ok(answer["token"].as_str().context("no token")?.to_owned())
    }
}
