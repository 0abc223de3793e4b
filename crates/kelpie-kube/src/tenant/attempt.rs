//! One request over one connection, or hedged over two.

use std::time::Duration;

use http::{HeaderMap, header};
use kelpie_net::{Endpoint, HttpConnection, Response};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::error::TenantError;
use super::request::{MAX_UNUSED_BODY_BYTES, TenantRequest};
use super::stats::StatsRecorder;

/// The timeout on a connection of an earlier round, which may have died unnoticed.
const REUSED_TIMEOUT: Duration = Duration::from_secs(2);

/// The time without a response after which an urgent request is sent again over a new connection.
const HEDGE_DELAY: Duration = Duration::from_millis(300);

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
    /// Returns whether the response is an error that says something about the API server's health.
    fn is_failure(&self) -> bool {
        self.result
            .as_ref()
            .is_err_and(|error| !error.is_transient())
    }
}

/// The context of an attempt, which hedged requests share.
#[derive(Clone, Copy)]
pub(super) struct Attempt<'a> {
    pub(super) endpoint: &'a Endpoint,
    pub(super) headers: &'a HeaderMap,
    pub(super) stats: &'a StatsRecorder,
    pub(super) deadline: Instant,
    /// The start of the round. A connection that was opened since then is as good as a new one.
    pub(super) round_start: Instant,
}

impl Attempt<'_> {
    /// Sends a request over the idle connection, if there is one. If that fails, sends it over a
    /// new connection at once, whose failure is the result.
    pub(super) async fn send<R: TenantRequest>(
        self,
        request: R,
        idle: Option<TenantConnection>,
    ) -> Result<TenantResponse<R::Output>, TenantError> {
        let Some(idle) = idle else {
            return self.send_on_new(request).await;
        };
        let is_old = idle.opened < self.round_start;
        match self.send_on_idle(request, idle).await {
            // Behind a load balancer, an old connection may be tied to the one unhealthy server.
            Ok(response) if is_old && response.is_failure() => self.send_on_new(request).await,
            Ok(response) => Ok(response),
            Err(_) => self.send_on_new(request).await,
        }
    }

    /// Sends a request as [`send`](Self::send) does. Without a response after [`HEDGE_DELAY`],
    /// sends it over a new connection too, and the first response wins.
    pub(super) async fn send_hedged<R: TenantRequest>(
        self,
        request: R,
        idle: Option<TenantConnection>,
    ) -> Result<TenantResponse<R::Output>, TenantError> {
        let hedge_at = Instant::now() + HEDGE_DELAY;
        let first = self.send(request, idle);
        let second = async {
            sleep_until(hedge_at).await;
            self.send_on_new(request).await
        };
        tokio::pin!(first, second);
        tokio::select! {
            biased;
            result = &mut first => match result {
                Err(_) if Instant::now() >= hedge_at => second.await,
                // A failure counts too: it is that of a new connection, and no other is in flight.
                result => result,
            },
            result = &mut second => match result {
                Ok(response) => Ok(response),
                Err(_) => first.await,
            },
        }
    }

    /// Sends a request over the idle connection. An error proves nothing about the API server.
    async fn send_on_idle<R: TenantRequest>(
        self,
        request: R,
        idle: TenantConnection,
    ) -> Result<TenantResponse<R::Output>, TenantError> {
        let mut attempt = self;
        if idle.opened < self.round_start {
            attempt.deadline = self.deadline.min(Instant::now() + REUSED_TIMEOUT);
        }
        attempt
            .before_deadline(attempt.send_on(request, idle))
            .await
    }

    async fn send_on_new<R: TenantRequest>(
        self,
        request: R,
    ) -> Result<TenantResponse<R::Output>, TenantError> {
        self.before_deadline(async {
            let http = HttpConnection::open(self.endpoint).await?;
            self.stats.update(|stats| stats.connections += 1);
            let opened = Instant::now();
            self.send_on(request, TenantConnection { http, opened })
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
    ) -> Result<TenantResponse<R::Output>, TenantError> {
        let start = Instant::now();
        let response = connection.http.get(R::PATH, self.headers).await?;
        let status = response.status.as_u16();
        self.stats.update(|stats| stats.statuses.push(status));
        let retry_after = response.header(&header::RETRY_AFTER);
        let result = match TenantError::from_status(status, retry_after) {
            None => request.decode(response, self.stats).await,
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

/// Reads the rest of a response if it is small and arrives soon. Otherwise the connection is lost.
async fn drain(response: Response<'_>) {
    let _ = timeout(DRAIN_TIMEOUT, response.collect(MAX_UNUSED_BODY_BYTES)).await;
}
