//! One request: over a new connection, or over a kept one that a new one may overtake.

use std::pin::pin;
use std::time::Duration;

use http::{HeaderMap, header};
use kelpie_net::{Endpoint, HttpConnection, Response};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::error::TenantError;
use super::request::{MAX_UNUSED_BODY_BYTES, TenantRequest};
use super::stats::StatsRecorder;

/// The timeout on a kept connection, which may have died unnoticed.
const KEPT_TIMEOUT: Duration = Duration::from_secs(2);

/// The time without a byte on a kept connection after which a new connection is raced.
const RACE_DELAY: Duration = Duration::from_millis(300);

/// The time for reading the rest of an unused response, to keep its connection.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(super) struct TenantConnection {
    pub(super) http: HttpConnection,
    pub(super) opened: Instant,
}

/// A response over HTTP, which may be an error of the API server.
pub(super) struct TenantResponse<T> {
    pub(super) result: Result<T, TenantError>,
    /// The instants right before the request was sent and right after the response was read.
    pub(super) span: (Instant, Instant),
    /// The connection, if it can be used again.
    pub(super) connection: Option<TenantConnection>,
}

impl<T> TenantResponse<T> {
    /// Returns whether the response is an error that may be due to the connection: behind a load
    /// balancer, a connection is tied to one server, which may be the one that is ill.
    pub(super) fn is_failure(&self) -> bool {
        self.result
            .as_ref()
            .is_err_and(|error| !error.is_transient())
    }
}

/// The context of a request.
#[derive(Clone, Copy)]
pub(super) struct Attempt<'a> {
    pub(super) endpoint: &'a Endpoint,
    pub(super) headers: &'a HeaderMap,
    pub(super) stats: &'a StatsRecorder,
    pub(super) deadline: Instant,
}

impl Attempt<'_> {
    /// Sends a request over the kept connection. If that fails, sends it over a new one at once,
    /// whose failure is the result. A request that [races](TenantRequest::RACES) is also sent over
    /// a new connection when the kept one has been silent for [`RACE_DELAY`]. Then the first
    /// success wins.
    pub(super) async fn send<R: TenantRequest>(
        self,
        request: R,
        kept: TenantConnection,
    ) -> Result<TenantResponse<R::Output>, TenantError> {
        let last_byte = Mutex::new(Instant::now());
        let mut kept = pin!(self.send_on_kept(request, kept, &last_byte));
        let is_racing = tokio::select! {
            biased;
            response = &mut kept => match response {
                Some(response) => return Ok(response),
                None => false,
            },
            () = silence(&last_byte), if R::RACES => true,
        };
        let mut new = pin!(self.send_on_new(request));
        if !is_racing {
            return new.await;
        }
        tokio::select! {
            biased;
            response = &mut kept => match response {
                Some(response) => Ok(response),
                None => new.await,
            },
            result = &mut new => match result {
                Ok(response) if !response.is_failure() => Ok(response),
                failed => kept.await.map_or(failed, Ok),
            },
        }
    }

    /// Sends a request over a kept connection. `None`: it failed, which proves nothing about the
    /// API server.
    async fn send_on_kept<R: TenantRequest>(
        mut self,
        request: R,
        connection: TenantConnection,
        last_byte: &Mutex<Instant>,
    ) -> Option<TenantResponse<R::Output>> {
        self.deadline = self.deadline.min(Instant::now() + KEPT_TIMEOUT);
        let sent = self.send_on(request, connection, last_byte);
        let response = self.before_deadline(sent).await.ok()?;
        (!response.is_failure()).then_some(response)
    }

    /// Sends a request over a new connection.
    pub(super) async fn send_on_new<R: TenantRequest>(
        self,
        request: R,
    ) -> Result<TenantResponse<R::Output>, TenantError> {
        let last_byte = Mutex::new(Instant::now());
        self.before_deadline(async {
            let http = HttpConnection::open(self.endpoint).await?;
            self.stats.update(|stats| stats.connections += 1);
            let opened = Instant::now();
            self.send_on(request, TenantConnection { http, opened }, &last_byte)
                .await
        })
        .await
    }

    /// Applies the deadline, and counts a request without a response.
    async fn before_deadline<T>(
        self,
        response: impl Future<Output = Result<T, TenantError>>,
    ) -> Result<T, TenantError> {
        let result = timeout_at(self.deadline, response).await;
        let result = result.unwrap_or(Err(TenantError::TimedOut));
        if result.is_err() {
            self.stats.update(|stats| stats.unanswered += 1);
        }
        result
    }

    /// Sends a request and reads the response. The outer error is that of the connection; errors of
    /// the API server are in the response.
    async fn send_on<R: TenantRequest>(
        self,
        request: R,
        mut connection: TenantConnection,
        last_byte: &Mutex<Instant>,
    ) -> Result<TenantResponse<R::Output>, TenantError> {
        let start = Instant::now();
        let (method, body) = (request.method(), request.body());
        let sent = connection
            .http
            .send(method, request.path(), self.headers, body);
        let response = sent.await.map_err(TenantError::before_response)?;
        let status = response.status.as_u16();
        self.stats.update(|stats| stats.statuses.push(status));
        let received = |bytes: usize| {
            self.stats.update(|stats| stats.bytes += bytes as u64);
            *last_byte.lock() = Instant::now();
        };
        received(0);
        let retry_after = response.header(&header::RETRY_AFTER);
        let error = TenantError::from_status(status, retry_after);
        let result = match error.filter(|_| !request.decodes(status)) {
            None => request.decode(response, received).await,
            Some(error) => {
                drain(response).await;
                Err(error)
            }
        };
        match result {
            Err(error) if error.is_transport() => Err(error),
            result => Ok(TenantResponse {
                result,
                span: (start, Instant::now()),
                connection: connection.http.is_usable().then_some(connection),
            }),
        }
    }
}

/// Waits until no byte has arrived for [`RACE_DELAY`].
async fn silence(last_byte: &Mutex<Instant>) {
    loop {
        let end = *last_byte.lock() + RACE_DELAY;
        if Instant::now() >= end {
            return;
        }
        sleep_until(end).await;
    }
}

/// Reads the rest of a response if it is small and arrives soon. Otherwise the connection is lost.
async fn drain(response: Response<'_>) {
    let _ = timeout(DRAIN_TIMEOUT, response.collect(MAX_UNUSED_BODY_BYTES)).await;
}
