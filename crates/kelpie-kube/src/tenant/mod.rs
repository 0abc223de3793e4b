//! The client for a tenant's API server, which uses as few connections as possible.
//!
//! A list of leases is one request. It goes over the connection that the last list left idle: a
//! handshake costs ten times the request. An idle connection may have died unnoticed, so its
//! failure never counts: the request is sent again at once over a new connection, and the result of
//! that counts. A kept connection that is silent for 300 ms is raced by a new one. There is no
//! other retry.
//!
//! Requests may overlap. One of them gets the idle connection, the others open their own, and the
//! connection of the newest list is kept. A future can be dropped at any time, which closes its
//! connection. `/version` always tests a new connection.
//!
//! [`TenantError::failure`] tells what a failure says about the API server. Name resolution fails
//! only while no address is known: the last addresses are kept.
//!
//! `request` has the requests, `attempt` sends one, and [`Tenant`] chooses the connection.

mod attempt;
mod error;
mod request;
mod stats;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method};
use kelpie_core::prober::{NodeRules, NodeSetBuilder};
use kelpie_net::Endpoint;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use attempt::{Attempt, TenantConnection};
pub use error::{FailureKind, TenantError};
use request::{LeasesRequest, NodesRequest, ObjectRequest, TenantRequest, VersionRequest};
pub use request::{Listed, ObjectAnswer};
pub use stats::RequestStats;
use stats::StatsRecorder;

use crate::kubeconfig::TenantConfig;
use crate::lists::{self, LeaseList};

/// The maximum age of a connection. A new one tests name resolution and the network path too.
const MAX_CONNECTION_AGE: Duration = Duration::from_mins(5);

/// A client for a tenant's API server. It keeps one connection between requests.
#[derive(Debug)]
pub struct Tenant {
    endpoint: Endpoint,
    headers: HeaderMap,
    idle: Mutex<Option<IdleConnection>>,
    reuse: ConnectionReuse,
    stats: StatsRecorder,
}

/// A connection that waits for the next request.
#[derive(Debug)]
struct IdleConnection {
    connection: TenantConnection,
    /// The start of its last request.
    used: Instant,
}

/// The reuse of connections between rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionReuse {
    /// A connection is reused for up to five minutes.
    Keep,
    /// Each list of leases opens a new connection. A list of nodes may use that of the leases.
    FreshEachRound,
}

/// The leases, the version and the time of their list.
#[derive(Debug)]
pub struct TimedLeaseList {
    /// The leases as listed.
    pub leases: LeaseList,
    /// The `resourceVersion` of the list. `None`: it is not a decimal number.
    pub version: Option<u64>,
    /// The number of leases that are too large and were skipped.
    pub oversized: usize,
    /// The instant right before the successful request was sent.
    pub start: Instant,
    /// The instant right after its response was read.
    pub end: Instant,
}

impl TimedLeaseList {
    /// Returns the time that the list took. Opening a connection is not part of it.
    pub fn latency(&self) -> Duration {
        self.end - self.start
    }
}

impl Tenant {
    /// Creates a client. It does not connect yet.
    pub fn new(config: TenantConfig, reuse: ConnectionReuse) -> Self {
        let mut headers = HeaderMap::with_capacity(3);
        let agent = concat!("kelpie/", env!("CARGO_PKG_VERSION"));
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        headers.insert(ACCEPT, HeaderValue::from_static(lists::ACCEPT));
        if let Some(authorization) = config.authorization {
            headers.insert(AUTHORIZATION, authorization);
        }
        Self {
            endpoint: config.endpoint.with_address_cache(),
            headers,
            idle: Mutex::default(),
            reuse,
            stats: StatsRecorder::default(),
        }
    }

    /// Uses the addresses that `old` knows, if both have the same server. New credentials must not
    /// depend on DNS.
    #[must_use]
    pub fn with_addresses_of(mut self, old: &Self) -> Self {
        self.endpoint = self.endpoint.with_addresses_of(&old.endpoint);
        self
    }

    /// Returns the host and port of the API server.
    pub fn server(&self) -> String {
        self.endpoint.authority()
    }

    /// Lists the leases. Ends before `deadline`.
    pub async fn leases(&self, deadline: Instant) -> Result<TimedLeaseList, TenantError> {
        let idle = match self.reuse {
            ConnectionReuse::Keep => self.take_idle(),
            ConnectionReuse::FreshEachRound => None,
        };
        let listed = self
            .send(LeasesRequest, idle, self.attempt(deadline))
            .await?;
        let (listed, (start, end)) = listed;
        Ok(TimedLeaseList {
            leases: listed.items,
            version: listed.version,
            oversized: listed.oversized,
            start,
            end,
        })
    }

    /// Lists the nodes and judges them by `rules`. Ends before `deadline`.
    pub async fn nodes(
        &self,
        rules: &Arc<NodeRules>,
        deadline: Instant,
    ) -> Result<Listed<NodeSetBuilder>, TenantError> {
        let idle = self.take_idle();
        let (request, attempt) = (NodesRequest(rules), self.attempt(deadline));
        let (nodes, _) = self.send(request, idle, attempt).await?;
        Ok(nodes)
    }

    /// Reads or writes one object as JSON; a PATCH is a merge patch. Ends before `deadline`. The
    /// request may be sent a second time over a new connection if that of the last request has
    /// died, so a write has to carry the version that it replaces.
    pub async fn object(
        &self,
        method: &Method,
        path: &str,
        object: Option<&Value>,
        deadline: Instant,
    ) -> Result<ObjectAnswer, TenantError> {
        let body = object.map_or_else(Bytes::new, |object| object.to_string().into());
        let request = ObjectRequest {
            method,
            path,
            body: &body,
        };
        let mut headers = self.headers.clone();
        let content_type = match *method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        let attempt = Attempt {
            headers: &headers,
            ..self.attempt(deadline)
        };
        let (answer, _) = self.send(request, self.take_idle(), attempt).await?;
        Ok(answer)
    }

    /// Requests `/version` over a new connection, which is closed afterwards. Ends before
    /// `deadline`.
    pub async fn version(&self, deadline: Instant) -> Result<(), TenantError> {
        let sent = Box::pin(self.attempt(deadline).send_on_new(VersionRequest));
        sent.await?.result
    }

    /// Returns the statistics since the last call, and resets them.
    pub fn take_stats(&self) -> RequestStats {
        self.stats.take()
    }

    /// Sends a request, and keeps the connection of its response for the next one.
    async fn send<R: TenantRequest>(
        &self,
        request: R,
        idle: Option<TenantConnection>,
        attempt: Attempt<'_>,
    ) -> Result<(R::Output, (Instant, Instant)), TenantError> {
        // Boxed because a task reserves memory for everything that it ever awaits, and an attempt
        // is large.
        let response = match idle {
            Some(idle) => Box::pin(attempt.send(request, idle)).await?,
            None => Box::pin(attempt.send_on_new(request)).await?,
        };
        let is_failure = response.is_failure();
        if let Some(connection) = response.connection
            && !is_failure
        {
            self.keep(IdleConnection {
                connection,
                used: response.span.0,
            });
        }
        Ok((response.result?, response.span))
    }

    fn attempt(&self, deadline: Instant) -> Attempt<'_> {
        Attempt {
            endpoint: &self.endpoint,
            headers: &self.headers,
            stats: &self.stats,
            deadline,
        }
    }

    /// Takes the idle connection, if it is still good.
    fn take_idle(&self) -> Option<TenantConnection> {
        let mut connection = self.idle.lock().take()?.connection;
        let is_good =
            connection.opened.elapsed() < MAX_CONNECTION_AGE && connection.http.is_usable();
        is_good.then_some(connection)
    }

    /// Keeps the connection, unless a newer request has left one.
    fn keep(&self, connection: IdleConnection) {
        let mut idle = self.idle.lock();
        let closed = match &*idle {
            Some(newer) if newer.used > connection.used => Some(connection),
            _ => idle.replace(connection),
        };
        drop(idle);
        // Closed without the lock.
        drop(closed);
    }
}
