//! The client for a tenant's API server, which uses as few connections as possible.
//!
//! An idle connection saves the handshake, which costs ten times the request. It may have died
//! unnoticed, so its failure never counts: the request is sent again at once over a new connection,
//! and the result of that counts. There is no other retry. `request` has the requests, `attempt`
//! sends one, and [`Tenant`] chooses the connection.

mod attempt;
mod error;
mod request;
mod stats;

use std::time::Duration;

use http::header::{ACCEPT, AUTHORIZATION, USER_AGENT};
use http::{HeaderMap, HeaderValue};
use kelpie_core::prober::{Node, NodeConventions};
use tokio::time::Instant;

use attempt::{Attempt, TenantConnection, TenantResponse};
pub use error::TenantError;
use request::{LeasesRequest, NodesRequest, TenantRequest, VersionRequest};
pub use stats::RequestStats;
use stats::StatsRecorder;

use crate::kubeconfig::TenantConfig;
use crate::lists::{self, LeaseList};

/// The maximum age of a connection. A new one tests name resolution and the network path too.
const MAX_CONNECTION_AGE: Duration = Duration::from_mins(5);

/// A client for a tenant's API server. It keeps one connection between rounds.
#[derive(Debug)]
pub struct Tenant {
    config: TenantConfig,
    headers: HeaderMap,
    idle: Option<TenantConnection>,
    reuse: ConnectionReuse,
    round_start: Instant,
    stats: StatsRecorder,
}

/// The reuse of connections between rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionReuse {
    /// A connection is reused for up to five minutes.
    Keep,
    /// Each round opens a new connection.
    FreshEachRound,
}

/// The urgency of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// The requests are sent one after the other.
    Routine,
    /// The round may find that the cluster trips. Both requests are sent at the same time, and each
    /// is sent again over a new connection if there is no response after 300 ms.
    Urgent,
}

/// The result of [`Tenant::probe`].
#[derive(Debug)]
pub struct ProbeOutcome {
    /// `Ok` if the API server responded to `/version`.
    pub version: Result<(), TenantError>,
    /// The leases. `None`: they were not requested, because the request for the version failed.
    pub leases: Option<Result<TimedLeaseList, TenantError>>,
}

/// The leases and the time of their list.
#[derive(Debug)]
pub struct TimedLeaseList {
    /// The leases as listed.
    pub leases: LeaseList,
    /// The instant right before the successful request was sent.
    pub start: Instant,
    /// The instant right after its response was read.
    pub end: Instant,
}

impl Tenant {
    /// Creates a client. It does not connect yet.
    pub fn new(config: TenantConfig, reuse: ConnectionReuse) -> Self {
        let mut headers = HeaderMap::with_capacity(3);
        let agent = concat!("kelpie/", env!("CARGO_PKG_VERSION"));
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        headers.insert(ACCEPT, HeaderValue::from_static(lists::ACCEPT));
        if let Some(authorization) = &config.authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        Self {
            config,
            headers,
            idle: None,
            reuse,
            round_start: Instant::now(),
            stats: StatsRecorder::default(),
        }
    }

    /// Starts a round: requests `/version`, and the leases if that succeeds. Ends before
    /// `deadline`.
    pub async fn probe(&mut self, urgency: Urgency, deadline: Instant) -> ProbeOutcome {
        self.start_round();
        match urgency {
            Urgency::Routine => {
                let version = self.send(VersionRequest, deadline).await.map(|_| ());
                let leases = match &version {
                    Ok(()) => Some(self.send(LeasesRequest, deadline).await),
                    Err(_) => None,
                };
                let leases = leases.map(|listed| listed.map(TimedLeaseList::new));
                ProbeOutcome { version, leases }
            }
            Urgency::Urgent => self.probe_urgently(deadline).await,
        }
    }

    /// Starts a round that only requests `/version`.
    pub async fn version(&mut self, deadline: Instant) -> Result<(), TenantError> {
        self.start_round();
        self.send(VersionRequest, deadline).await.map(|_| ())
    }

    /// Lists the nodes, within the current round.
    pub async fn nodes(
        &mut self,
        conventions: NodeConventions,
        deadline: Instant,
    ) -> Result<Vec<Node>, TenantError> {
        let (list, _) = self.send(NodesRequest(conventions), deadline).await?;
        Ok(list.nodes)
    }

    /// Returns the statistics since the last call, and resets them.
    pub fn take_stats(&mut self) -> RequestStats {
        self.stats.take()
    }

    fn start_round(&mut self) {
        self.round_start = Instant::now();
        let reuse = self.reuse;
        self.idle.take_if(|idle| {
            reuse == ConnectionReuse::FreshEachRound || idle.opened.elapsed() >= MAX_CONNECTION_AGE
        });
    }

    async fn probe_urgently(&mut self, deadline: Instant) -> ProbeOutcome {
        // The idle connection is for the leases, whose response is larger.
        let idle = self.take_idle();
        let attempt = self.attempt(deadline);
        let (version, leases) = tokio::join!(
            Box::pin(attempt.send_hedged(VersionRequest, None)),
            Box::pin(attempt.send_hedged(LeasesRequest, idle)),
        );
        ProbeOutcome {
            version: self.keep_connection(version).map(|_| ()),
            leases: Some(self.keep_connection(leases).map(TimedLeaseList::new)),
        }
    }

    async fn send<R: TenantRequest>(
        &mut self,
        request: R,
        deadline: Instant,
    ) -> TimedResult<R::Output> {
        let idle = self.take_idle();
        // Boxed because a task reserves memory for everything that it ever awaits, and an attempt
        // is large.
        let response = Box::pin(self.attempt(deadline).send(request, idle)).await;
        self.keep_connection(response)
    }

    fn take_idle(&mut self) -> Option<TenantConnection> {
        let mut idle = self.idle.take()?;
        idle.http.is_usable().then_some(idle)
    }

    fn attempt(&self, deadline: Instant) -> Attempt<'_> {
        Attempt {
            endpoint: &self.config.endpoint,
            headers: &self.headers,
            stats: &self.stats,
            deadline,
            round_start: self.round_start,
        }
    }

    /// Keeps the connection of a response for the next request, and returns the result.
    fn keep_connection<T>(
        &mut self,
        response: Result<TenantResponse<T>, TenantError>,
    ) -> TimedResult<T> {
        let response = response?;
        self.idle = response.connection.or(self.idle.take());
        Ok((response.result?, response.span))
    }
}

/// A result with the instants right before its request and right after its response.
type TimedResult<T> = Result<(T, (Instant, Instant)), TenantError>;

impl TimedLeaseList {
    fn new((leases, (start, end)): (LeaseList, (Instant, Instant))) -> Self {
        Self { leases, start, end }
    }
}
