//! HTTP as it is: what was sent, and what came back.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use http::{HeaderMap, HeaderValue, Method, header};
use kelpie_e2e::Credentials;
use kelpie_net::{Alpn, Connection, Endpoint, Roots, TlsClient};
use serde_json::{Value, json};
use tokio::time::timeout;

/// For what takes milliseconds on an idle machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Larger is no answer of these tests.
const LARGEST: usize = 4 * 1024 * 1024;

pub(super) const MERGE: &str = "application/merge-patch+json";
pub(super) const JSON: &str = "application/json";

/// An API server and who asks it.
#[derive(Clone)]
pub(super) struct Client {
    endpoint: Endpoint,
    headers: HeaderMap,
}

/// What came back.
#[derive(Debug, Clone)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) content_type: String,
    pub(super) bytes: Vec<u8>,
    /// The body as JSON; its text if it is none.
    pub(super) body: Value,
}

impl Reply {
    /// Status and body, for the record.
    pub(super) fn shown(&self) -> Value {
        json!({ "status": self.status, "body": self.body })
    }

    /// The body of a success; anything else ends the test.
    pub(super) fn ok(self) -> Result<Value> {
        ensure!(self.status < 300, "{} {}", self.status, self.body);
        Ok(self.body)
    }
}

impl Client {
    pub(super) fn new(url: &str, authority: &str, who: &Credentials) -> Result<Self> {
        let Credentials::Token(token) = who else {
            bail!("only tokens are shown here");
        };
        let roots = Roots::from_pem(authority.as_bytes())?;
        let tls = TlsClient::new(&roots, None, Alpn::Http1)?;
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static(JSON));
        let bearer = HeaderValue::try_from(format!("Bearer {token}"))?;
        headers.insert(header::AUTHORIZATION, bearer);
        Ok(Self {
            endpoint: Endpoint::new(url, Some(tls))?,
            headers,
        })
    }

    /// The same with other content types welcome.
    pub(super) fn accepting(&self, accept: &'static str) -> Self {
        let mut other = self.clone();
        let accept = HeaderValue::from_static(accept);
        other.headers.insert(header::ACCEPT, accept);
        other
    }

    pub(super) async fn get(&self, path: &str) -> Result<Reply> {
        self.send(Method::GET, path, "", None).await
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<Reply> {
        self.send(Method::POST, path, JSON, Some(body)).await
    }

    pub(super) async fn put(&self, path: &str, body: &Value) -> Result<Reply> {
        self.send(Method::PUT, path, JSON, Some(body)).await
    }

    pub(super) async fn merge(&self, path: &str, body: &Value) -> Result<Reply> {
        self.send(Method::PATCH, path, MERGE, Some(body)).await
    }

    pub(super) async fn patch(&self, path: &str, kind: &str, body: &Value) -> Result<Reply> {
        self.send(Method::PATCH, path, kind, Some(body)).await
    }

    pub(super) async fn delete(&self, path: &str, options: &Value) -> Result<Reply> {
        let body = (!options.is_null()).then_some(options);
        self.send(Method::DELETE, path, JSON, body).await
    }

    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        content: &str,
        body: Option<&Value>,
    ) -> Result<Reply> {
        let what = format!("{method} {path}");
        let mut headers = self.headers.clone();
        if body.is_some() {
            headers.insert(header::CONTENT_TYPE, HeaderValue::try_from(content)?);
        }
        let body = body.map(Value::to_string).unwrap_or_default();
        let exchange = async {
            let mut connection = Connection::open(&self.endpoint).await?;
            let answer = connection.send(method, path, &headers, body.into()).await?;
            let status = answer.status.as_u16();
            let content_type = answer.header(&header::CONTENT_TYPE);
            let content_type = content_type.unwrap_or_default().to_owned();
            let bytes = answer.collect(LARGEST).await?.to_vec();
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let body = serde_json::from_slice(&bytes).unwrap_or(Value::String(text));
            anyhow::Ok(Reply {
                status,
                content_type,
                bytes,
                body,
            })
        };
        timeout(PATIENCE, exchange)
            .await
            .with_context(|| format!("{what}: no answer for {PATIENCE:?}"))?
            .context(what)
    }

    /// Watches until `enough` events have come, the watch ends, or nothing comes any more.
    pub(super) async fn watch(&self, path: &str, enough: usize) -> Result<Vec<Value>> {
        let mut connection = Connection::open(&self.endpoint).await?;
        let reading = async {
            let mut answer = connection.get(path, &self.headers).await?;
            let (mut events, mut rest) = (Vec::new(), Vec::new());
            let status = answer.status.as_u16();
            while events.len() < enough
                && let Some(piece) = answer.chunk().await?
            {
                rest.extend_from_slice(&piece);
                while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = rest.drain(..=end).collect();
                    events.push(serde_json::from_slice(&line)?);
                }
            }
            if status != 200 {
                let body: Value = serde_json::from_slice(&rest).unwrap_or_default();
                events.push(json!({ "status": status, "body": body }));
            }
            events.truncate(enough);
            anyhow::Ok(events)
        };
        timeout(PATIENCE, reading)
            .await
            .with_context(|| format!("{path}: fewer than {enough} events for {PATIENCE:?}"))?
    }
}
