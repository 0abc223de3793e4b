//! A bare HTTP client, which shows responses as they are.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use http::{HeaderMap, HeaderValue, Method, header};
use kelpie_e2e::Credentials;
use kelpie_net::{Alpn, Endpoint, HttpConnection, Roots, TlsClient};
use serde_json::{Value, json};
use tokio::time::timeout;

/// Limit for a request, which takes milliseconds on an idle machine.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Limit for the size of a response.
const MAX_BYTES: usize = 4 * 1024 * 1024;

pub(super) const MERGE: &str = "application/merge-patch+json";
pub(super) const JSON: &str = "application/json";

/// A client of one API server, with the identity of one user.
#[derive(Clone)]
pub(super) struct RawClient {
    endpoint: Endpoint,
    headers: HeaderMap,
}

/// A response with its body.
#[derive(Debug, Clone)]
pub(super) struct RawResponse {
    pub(super) status: u16,
    pub(super) content_type: String,
    pub(super) bytes: Vec<u8>,
    /// The body as JSON; a string if it is not JSON.
    pub(super) body: Value,
}

impl RawResponse {
    /// The status and the body, for the record of a behaviour.
    pub(super) fn record(&self) -> Value {
        json!({ "status": self.status, "body": self.body })
    }

    /// Returns the body of a successful response. Any other status is an error.
    pub(super) fn ok(self) -> Result<Value> {
        ensure!(self.status < 300, "{} {}", self.status, self.body);
        Ok(self.body)
    }
}

impl RawClient {
    pub(super) fn new(url: &str, ca_certificate: &str, user: &Credentials) -> Result<Self> {
        let Credentials::Token(token) = user else {
            bail!("only tokens are supported");
        };
        let roots = Roots::from_pem(ca_certificate.as_bytes())?;
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

    /// Returns a client with another `Accept` header.
    pub(super) fn accepting(&self, accept: &'static str) -> Self {
        let mut other = self.clone();
        let accept = HeaderValue::from_static(accept);
        other.headers.insert(header::ACCEPT, accept);
        other
    }

    pub(super) async fn get(&self, path: &str) -> Result<RawResponse> {
        self.send(Method::GET, path, "", None).await
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<RawResponse> {
        self.send(Method::POST, path, JSON, Some(body)).await
    }

    pub(super) async fn put(&self, path: &str, body: &Value) -> Result<RawResponse> {
        self.send(Method::PUT, path, JSON, Some(body)).await
    }

    pub(super) async fn merge(&self, path: &str, body: &Value) -> Result<RawResponse> {
        self.send(Method::PATCH, path, MERGE, Some(body)).await
    }

    pub(super) async fn patch(&self, path: &str, kind: &str, body: &Value) -> Result<RawResponse> {
        self.send(Method::PATCH, path, kind, Some(body)).await
    }

    pub(super) async fn delete(&self, path: &str, options: &Value) -> Result<RawResponse> {
        let body = (!options.is_null()).then_some(options);
        self.send(Method::DELETE, path, JSON, body).await
    }

    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        content: &str,
        body: Option<&Value>,
    ) -> Result<RawResponse> {
        let what = format!("{method} {path}");
        let mut headers = self.headers.clone();
        if body.is_some() {
            headers.insert(header::CONTENT_TYPE, HeaderValue::try_from(content)?);
        }
        let body = body.map(Value::to_string).unwrap_or_default();
        let exchange = async {
            let mut connection = HttpConnection::open(&self.endpoint).await?;
            let response = connection.send(method, path, &headers, body.into()).await?;
            let status = response.status.as_u16();
            let content_type = response.header(&header::CONTENT_TYPE);
            let content_type = content_type.unwrap_or_default().to_owned();
            let bytes = response.collect(MAX_BYTES).await?.to_vec();
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let body = serde_json::from_slice(&bytes).unwrap_or(Value::String(text));
            anyhow::Ok(RawResponse {
                status,
                content_type,
                bytes,
                body,
            })
        };
        timeout(TIMEOUT, exchange)
            .await
            .with_context(|| format!("{what}: no response within {TIMEOUT:?}"))?
            .context(what)
    }

    /// Watches until `enough` events have arrived or the watch ends. Too few events in time are an
    /// error.
    pub(super) async fn watch(&self, path: &str, enough: usize) -> Result<Vec<Value>> {
        let mut connection = HttpConnection::open(&self.endpoint).await?;
        let reading = async {
            let mut response = connection.get(path, &self.headers).await?;
            let (mut events, mut buffer) = (Vec::new(), Vec::new());
            let status = response.status.as_u16();
            while events.len() < enough
                && let Some(piece) = response.chunk().await?
            {
                buffer.extend_from_slice(&piece);
                while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = buffer.drain(..=end).collect();
                    events.push(serde_json::from_slice(&line)?);
                }
            }
            if status != 200 {
                let body: Value = serde_json::from_slice(&buffer).unwrap_or_default();
                events.push(json!({ "status": status, "body": body }));
            }
            events.truncate(enough);
            anyhow::Ok(events)
        };
        timeout(TIMEOUT, reading)
            .await
            .with_context(|| format!("{path}: fewer than {enough} events within {TIMEOUT:?}"))?
    }
}
