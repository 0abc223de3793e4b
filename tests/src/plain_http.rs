//! HTTP/1.1 by hand, without TLS: a test sees the exact bytes of a response.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

/// Limit for a response unless the caller sets one.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A response that was received completely.
#[derive(Debug, Clone)]
pub struct HttpResponse {
    /// The HTTP status, which may be an error.
    pub status: u16,
    /// The status line and headers, verbatim, without the empty line after them.
    pub head: String,
    /// The body, with chunked encoding removed.
    pub body: String,
    /// The duration from connecting to the last byte.
    pub took: Duration,
}

impl HttpResponse {
    /// The value of the first header of this name. Names are case-insensitive.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (header, value) = line.split_once(':')?;
            header.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

/// GETs `target` of the server at `url`.
pub async fn get(url: &str, target: &str) -> Result<HttpResponse> {
    request(url, "GET", target, "").await
}

/// GETs `target`. Returns `None` if the response is not complete in time.
pub async fn get_within(url: &str, target: &str, limit: Duration) -> Result<Option<HttpResponse>> {
    match timeout(limit, request(url, "GET", target, "")).await {
        Ok(response) => response.map(Some),
        Err(_) => Ok(None),
    }
}

/// Sends one request on a new connection and reads the complete response.
pub async fn request(url: &str, method: &str, target: &str, body: &str) -> Result<HttpResponse> {
    let host = host(url)?;
    let length = match body.len() {
        0 => String::new(),
        length => format!("Content-Length: {length}\r\n"),
    };
    let request = format!(
        "{method} {target} HTTP/1.1\r\nHost: {host}\r\n{length}Connection: close\r\n\r\n{body}"
    );
    let started = Instant::now();
    let bytes = timeout(TIMEOUT, send(url, request.as_bytes())).await;
    let bytes =
        bytes.with_context(|| format!("{method} {target}: no response within {TIMEOUT:?}"))??;
    let response = parse(&bytes, started.elapsed());
    response.with_context(|| format!("{method} {target} of {url}"))
}

/// A connection for several requests, as the kubelet uses it.
pub struct KeepAliveConnection {
    stream: BufReader<TcpStream>,
}

impl KeepAliveConnection {
    /// Connects to the server at `url`.
    pub async fn open(url: &str) -> Result<Self> {
        let stream = TcpStream::connect(host(url)?).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: BufReader::new(stream),
        })
    }

    /// GETs `target` and returns the status. The response must have a `Content-Length`.
    pub async fn get(&mut self, target: &str) -> Result<u16> {
        let request = format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n");
        self.stream.write_all(request.as_bytes()).await?;
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let read = self.stream.read_line(&mut head).await?;
            ensure!(
                read > 0,
                "{target}: the server closed the connection after {head:?}"
            );
        }
        let response = parse(head.as_bytes(), Duration::ZERO)?;
        let length = response.header("content-length").context("no length")?;
        let mut body = vec![0; length.parse()?];
        self.stream.read_exact(&mut body).await?;
        Ok(response.status)
    }
}

/// Sends these bytes and returns everything that the server sends before it closes the connection.
pub async fn send(url: &str, bytes: &[u8]) -> Result<Vec<u8>> {
    let mut stream = TcpStream::connect(host(url)?)
        .await
        .with_context(|| format!("connecting to {url}"))?;
    // A server may respond and close before it has read everything.
    let _ = stream.write_all(bytes).await;
    let mut response = Vec::new();
    if let Err(error) = stream.read_to_end(&mut response).await
        && response.is_empty()
    {
        return Err(error.into());
    }
    Ok(response)
}

/// Returns the host and port of a URL, as in `127.0.0.1:2379`.
pub fn host(url: &str) -> Result<&str> {
    let rest = url.strip_prefix("http://");
    let rest = rest.with_context(|| format!("{url} is not plain HTTP"))?;
    Ok(rest.trim_end_matches('/'))
}

fn parse(bytes: &[u8], took: Duration) -> Result<HttpResponse> {
    let text = String::from_utf8_lossy(bytes);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        bail!("incomplete response: {text:?}");
    };
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
    let mut response = HttpResponse {
        status: status.with_context(|| format!("no status in {head:?}"))?,
        head: head.to_owned(),
        body: String::new(),
        took,
    };
    let chunked = response.header("transfer-encoding") == Some("chunked");
    response.body = if chunked {
        unchunk(body)?
    } else {
        body.to_owned()
    };
    Ok(response)
}

fn unchunk(mut rest: &str) -> Result<String> {
    let mut body = String::new();
    loop {
        let (size, after) = rest.split_once("\r\n").context("a chunk without a size")?;
        let size = usize::from_str_radix(size, 16)?;
        if size == 0 {
            return Ok(body);
        }
        body += after.get(..size).context("a truncated chunk")?;
        rest = after.get(size + 2..).context("a truncated chunk")?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_responses_are_errors() {
        let read = |text: &str| parse(text.as_bytes(), Duration::ZERO);
        let response = read("HTTP/1.1 405 No\r\nAllow: GET\r\n\r\nbody").unwrap();
        assert_eq!((response.status, response.body.as_str()), (405, "body"));
        assert_eq!(response.header("allow"), Some("GET"));
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let chunks = read(&format!("{head}3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n")).unwrap();
        assert_eq!(chunks.body, "abcd");
        assert!(read(&format!("{head}3\r\nab")).is_err());
        assert!(read("HTTP/1.1 200").is_err());
    }
}
