//! One HTTP/1.1 connection.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Waker};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, header};
use http_body_util::Full;
use hyper::client::conn::http1;

use crate::connect::{ConnectError, connect};
use crate::endpoint::Endpoint;
use crate::request::{RequestError, target};
use crate::response::Response;
use crate::stream::HyperStream;

/// Bytes of an answer's head, and of what is read at once. An idle connection keeps a buffer of this
/// size, and the head of an API server's answer has half a kilobyte.
const LARGEST_BUFFER: usize = 8 * 1024;

/// Headers of an answer.
const MOST_HEADERS: usize = 100;

/// One HTTP/1.1 connection and nothing behind it: no task, no pool, no retry. Its owner decides how
/// long it is kept; dropping it closes it.
///
/// It is moved on by whoever waits for an answer. A future of [`Connection::get`] that is dropped, and
/// a [`Response`] that is not read to its end, leave it unusable: the next answer on the wire would
/// be another request's.
pub struct Connection {
    driver: Driver,
    sender: http1::SendRequest<Full<Bytes>>,
    endpoint: Endpoint,
    /// Between a request and the end of its answer.
    busy: bool,
}

/// What moves bytes between the socket and hyper; `None` when the connection has ended.
struct Driver(Option<Pin<Box<Wire>>>);

type Wire = http1::Connection<HyperStream, Full<Bytes>>;

impl Driver {
    /// Moves on what can be moved. A fault is told to whoever waits for the answer, if anybody; one
    /// that comes when nobody waits is the same as a connection that was closed.
    fn drive(&mut self, cx: &mut Context<'_>) {
        if let Some(running) = &mut self.0
            && running.as_mut().poll(cx).is_ready()
        {
            self.0 = None;
        }
    }
}

impl Connection {
    /// A new connection to the server.
    pub async fn open(endpoint: &Endpoint) -> Result<Self, ConnectError> {
        let stream = connect(endpoint).await?;
        // No byte goes over the wire here; hyper only has the form of a handshake.
        let opened = http1::Builder::new()
            .read_buf_exact_size(Some(LARGEST_BUFFER))
            .max_headers(MOST_HEADERS)
            .handshake(stream.into_hyper())
            .await;
        let (sender, wire) = opened.map_err(|error| ConnectError::Unreachable {
            at: endpoint.authority(),
            source: io::Error::other(error),
        })?;
        Ok(Self {
            driver: Driver(Some(Box::pin(wire))),
            sender,
            endpoint: endpoint.clone(),
            busy: false,
        })
    }

    /// Whether another request may be sent: the last answer was read, and the peer has not closed
    /// the connection as far as is known here.
    pub fn is_usable(&mut self) -> bool {
        self.driver.drive(&mut Context::from_waker(Waker::noop()));
        !self.busy && self.driver.0.is_some() && !self.sender.is_closed()
    }

    /// GET. `path` starts with a slash and may have a query; it is put below the endpoint's path.
    pub async fn get(
        &mut self,
        path: &str,
        headers: &HeaderMap,
    ) -> Result<Response<'_>, RequestError> {
        self.send(Method::GET, path, headers, Bytes::new()).await
    }

    /// Sends a request and waits for the head of its answer. Redirects are answers like others.
    pub async fn send(
        &mut self,
        method: Method,
        path: &str,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Response<'_>, RequestError> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = target(&self.endpoint, path)?;
        request.headers_mut().clone_from(headers);
        let host: HeaderValue = self.endpoint.host_header().clone();
        request.headers_mut().insert(header::HOST, host);

        if !self.is_usable() {
            return Err(RequestError::Unusable);
        }
        self.busy = true;
        let Self { driver, sender, .. } = self;
        poll_fn(|cx| {
            driver.drive(cx);
            sender.poll_ready(cx)
        })
        .await
        .map_err(|error| RequestError::from_hyper(&error))?;
        let mut sending = pin!(sender.send_request(request));
        let answer = poll_fn(|cx| {
            driver.drive(cx);
            sending.as_mut().poll(cx)
        });
        let answer = answer
            .await
            .map_err(|error| RequestError::from_hyper(&error))?;
        Ok(Response::new(answer, self))
    }

    /// Moves on what can be moved.
    pub(crate) fn drive(&mut self, cx: &mut Context<'_>) {
        self.driver.drive(cx);
    }

    /// The answer was read to its end.
    pub(crate) fn finish(&mut self) {
        self.busy = false;
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("endpoint", &self.endpoint)
            .field("busy", &self.busy)
            .finish_non_exhaustive()
    }
}
