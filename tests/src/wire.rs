//! HTTP/1.1 by hand, without TLS: the bytes of an answer as they came.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

/// How long an answer may take unless a test says otherwise.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a server answered.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// Status line and headers, as they came, without the empty line after them.
    pub head: String,
    /// The body, without the framing of chunks.
    pub body: String,
    /// From the first byte sent to the last one received, connecting included.
    pub took: Duration,
}

impl Reply {
    /// The value of the first header of this name, in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

/// GETs `target` of the server at `url`.
pub async fn get(url: &str, target: &str) -> Result<Reply> {
    request(url, "GET", target, "").await
}

/// GETs `target`; nothing if the whole answer is not there in time.
pub async fn get_within(url: &str, target: &str, patience: Duration) -> Result<Option<Reply>> {
    match timeout(patience, request(url, "GET", target, "")).await {
        Ok(reply) => reply.map(Some),
        Err(_) => Ok(None),
    }
}

/// Sends one request on a connection of its own and reads the whole answer.
pub async fn request(url: &str, method: &str, target: &str, body: &str) -> Result<Reply> {
    let host = host(url)?;
    let length = match body.len() {
        0 => String::new(),
        length => format!("Content-Length: {length}\r\n"),
    };
    let request = format!(
        "{method} {target} HTTP/1.1\r\nHost: {host}\r\n{length}Connection: close\r\n\r\n{body}"
    );
    let started = Instant::now();
    let answer = timeout(PATIENCE, send(url, request.as_bytes())).await;
    let answer =
        answer.with_context(|| format!("{method} {target}: silence for {PATIENCE:?}"))??;
    let reply = parse(&answer, started.elapsed());
    reply.with_context(|| format!("{method} {target} of {url}"))
}

/// A connection that is used again and again, as kubelet does.
pub struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    /// Connects to the server at `url`.
    pub async fn open(url: &str) -> Result<Self> {
        let stream = TcpStream::connect(host(url)?).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: BufReader::new(stream),
        })
    }

    /// GETs `target` and gives the status; the answer must say how long it is.
    pub async fn get(&mut self, target: &str) -> Result<u16> {
        let request = format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n");
        self.stream.write_all(request.as_bytes()).await?;
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let read = self.stream.read_line(&mut head).await?;
            ensure!(read > 0, "{target}: closed after {head:?}");
        }
        let reply = parse(head.as_bytes(), Duration::ZERO)?;
        let length = reply.header("content-length").context("no length")?;
        let mut body = vec![0; length.parse()?];
        self.stream.read_exact(&mut body).await?;
        Ok(reply.status)
    }
}

/// Sends these bytes and gives all that comes back until the server closes.
pub async fn send(url: &str, bytes: &[u8]) -> Result<Vec<u8>> {
    let mut stream = TcpStream::connect(host(url)?)
        .await
        .with_context(|| format!("connecting to {url}"))?;
    // A server may answer and close before it has read everything.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    if let Err(error) = stream.read_to_end(&mut answer).await
        && answer.is_empty()
    {
        return Err(error.into());
    }
    Ok(answer)
}

/// `127.0.0.1:2379` of `http://127.0.0.1:2379`.
pub fn host(url: &str) -> Result<&str> {
    let rest = url.strip_prefix("http://");
    let rest = rest.with_context(|| format!("{url} is not plain HTTP"))?;
    Ok(rest.trim_end_matches('/'))
}

fn parse(answer: &[u8], took: Duration) -> Result<Reply> {
    let text = String::from_utf8_lossy(answer);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        bail!("no complete answer: {text:?}");
    };
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
    let mut reply = Reply {
        status: status.with_context(|| format!("no status in {head:?}"))?,
        head: head.to_owned(),
        body: String::new(),
        took,
    };
    let chunked = reply.header("transfer-encoding") == Some("chunked");
    reply.body = if chunked {
        unchunk(body)?
    } else {
        body.to_owned()
    };
    Ok(reply)
}

fn unchunk(mut rest: &str) -> Result<String> {
    let mut body = String::new();
    loop {
        let (size, after) = rest.split_once("\r\n").context("a chunk without a size")?;
        let size = usize::from_str_radix(size, 16)?;
        if size == 0 {
            return Ok(body);
        }
        body += after.get(..size).context("a chunk was cut off")?;
        rest = after.get(size + 2..).context("a chunk was cut off")?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_whole_or_not_at_all() {
        let read = |text: &str| parse(text.as_bytes(), Duration::ZERO);
        let reply = read("HTTP/1.1 405 No\r\nAllow: GET\r\n\r\nbody").unwrap();
        assert_eq!((reply.status, reply.body.as_str()), (405, "body"));
        assert_eq!(reply.header("allow"), Some("GET"));
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let chunks = read(&format!("{head}3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n")).unwrap();
        assert_eq!(chunks.body, "abcd");
        assert!(read(&format!("{head}3\r\nab")).is_err());
        assert!(read("HTTP/1.1 200").is_err());
    }
}
