//! The JSON API of a member, for the changes that tests make to it.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::etcd::EtcdMember;
use crate::plain_http;

/// Number of concurrent writes: enough to keep the member busy, few enough to hold in memory.
const WRITERS: usize = 8;

/// Time limit of a call. Defragmenting half a gigabyte takes ten seconds on a slow disk.
const TIMEOUT: Duration = Duration::from_mins(2);

impl EtcdMember {
    /// Calls one method of the API. Any status but 200 is an error with the response.
    pub async fn call(&self, path: &str, body: &Value) -> Result<Value> {
        self.call_with(path, body, "").await
    }

    /// Calls one method with an additional header line, such as `Authorization: token`.
    pub async fn call_with(&self, path: &str, body: &Value, header: &str) -> Result<Value> {
        self.post(path, &body.to_string(), header).await
    }

    async fn post(&self, path: &str, body: &str, header: &str) -> Result<Value> {
        let header = match header {
            "" => String::new(),
            line => format!("{line}\r\n"),
        };
        // With HTTP/1.0 the response is not chunked, and the connection closes after it.
        let request = format!(
            "POST {path} HTTP/1.0\r\n{header}Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let response = timeout(TIMEOUT, plain_http::send(self.url(), request.as_bytes())).await;
        let response =
            response.with_context(|| format!("{path}: no response within {TIMEOUT:?}"))??;
        let text = String::from_utf8(response)?;
        let (head, body) = text.split_once("\r\n\r\n").context("no response")?;
        ensure!(head.contains(" 200 "), "{path}: {head}\n{body}");
        Ok(serde_json::from_str(body)?)
    }

    /// Writes one key to the store.
    pub async fn put(&self, key: &str, value: &[u8]) -> Result<()> {
        let value = BASE64_STANDARD.encode(value);
        let put = json!({"key": BASE64_STANDARD.encode(key), "value": value});
        self.call("/v3/kv/put", &put).await.map(|_| ())
    }

    /// Writes `count` keys of `size` bytes each, several concurrently.
    pub async fn fill(&self, count: usize, size: usize) -> Result<()> {
        // Encoded once, because encoding is most of the cost of a write here.
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

    /// Raises the alarm `CORRUPT` or `NOSPACE` for the member with this decimal ID.
    pub async fn raise(&self, alarm: &str, member: &str) -> Result<()> {
        self.alarm("ACTIVATE", alarm, member).await
    }

    /// Clears an alarm of a member.
    pub async fn clear(&self, alarm: &str, member: &str) -> Result<()> {
        self.alarm("DEACTIVATE", alarm, member).await
    }

    async fn alarm(&self, action: &str, alarm: &str, member: &str) -> Result<()> {
        let request = json!({"action": action, "memberID": member, "alarm": alarm});
        self.call("/v3/maintenance/alarm", &request)
            .await
            .map(|_| ())
    }

    /// Defragments the store and waits until that is done.
    pub async fn defragment(&self) -> Result<()> {
        let nothing = json!({});
        let done = self.call("/v3/maintenance/defragment", &nothing);
        done.await.map(|_| ())
    }

    /// Returns the member's status: leader, raft index, errors.
    pub async fn status(&self) -> Result<Value> {
        self.call("/v3/maintenance/status", &json!({})).await
    }

    /// Enables authentication. `root` may do everything, and `probe` may read everything. Both have
    /// the given password.
    pub async fn enable_auth(&self, password: &str) -> Result<()> {
        let everything = json!({
            "permType": "READ",
            "key": BASE64_STANDARD.encode("\0"),
            "range_end": BASE64_STANDARD.encode("\0"),
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

    /// Logs in as `name` and returns a token for the header `Authorization`.
    pub async fn token(&self, name: &str, password: &str) -> Result<String> {
        let request = json!({"name": name, "password": password});
        let response = self.call("/v3/auth/authenticate", &request).await?;
        Ok(response["token"].as_str().context("no token")?.to_owned())
    }
}
