//! A look at a cluster: one request for its leases, and `/version` where that fails.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::{BoxFuture, poll_fn};
use kelpie_core::Time;
use kelpie_core::prober::ProbeResult;
use kelpie_kube::tenant::{FailureKind, Tenant, TenantError, TimedLeaseList};
use tokio::time::Instant;

/// The number of looks under way at once. With fewer, an API server that takes 10 s per request
/// would never be seen to answer while looks start every 2 s: a further look replaces the oldest.
const MAX_LOOKS: usize = 6;
/// A look that is not answered is followed by another one after this time: its connection may be
/// dead, and a fence must not stand longer than needed.
const SPACING: Duration = Duration::from_secs(5);
/// The same while a deadline is near.
const PRESSED_SPACING: Duration = Duration::from_secs(1);
/// The same once several looks are under way, so that none is replaced too early.
const CROWDED_SPACING: Duration = Duration::from_secs(2);
const CROWD: usize = 3;
/// The time that the API server has to answer `/version` after a list failed.
const VERSION_TIMEOUT: Duration = Duration::from_secs(2);

/// The result of a look.
#[derive(Debug)]
pub(crate) struct LookResult {
    /// The instant at which the look started.
    pub(crate) start: Time,
    pub(crate) leases: Result<TimedLeaseList, TenantError>,
    /// The response to `/version`; `None` if it was not asked, because the list says enough.
    pub(crate) version: Option<Result<(), TenantError>>,
}

impl LookResult {
    /// Returns the result of the API-server probe.
    pub(crate) fn api_server(&self) -> ProbeResult {
        let answer = match (&self.leases, &self.version) {
            (Ok(_), _) => return ProbeResult::Success,
            (_, Some(version)) => version.as_ref().err(),
            (Err(error), None) => Some(error),
        };
        match answer.map(TenantError::failure) {
            None => ProbeResult::Success,
            Some(FailureKind::Transient) => ProbeResult::Transient,
            Some(FailureKind::Down | FailureKind::Unclear) => ProbeResult::Failure,
        }
    }

    /// Returns whether the cluster rejected the credentials.
    pub(crate) fn is_denied(&self) -> bool {
        let version = self.version.as_ref();
        let version = version.and_then(|version| version.as_ref().err());
        let mut errors = version.into_iter().chain(self.leases.as_ref().err());
        errors.any(TenantError::is_denied)
    }

    /// Returns whether the API server refused connections, so that no client can reach it.
    pub(crate) fn is_refused(&self) -> bool {
        let is_down = |error: &TenantError| error.failure() == FailureKind::Down;
        match (&self.leases, &self.version) {
            (Err(error), None) | (Err(_), Some(Err(error))) => is_down(error),
            _ => false,
        }
    }
}

/// The looks under way, in the order of their start.
#[derive(Default)]
pub(crate) struct Looks {
    under_way: Vec<StartedLook>,
}

struct StartedLook {
    start: Time,
    result: BoxFuture<'static, LookResult>,
}

impl Looks {
    /// Starts a look. It replaces the oldest one if too many are under way.
    pub(crate) fn start(&mut self, tenant: &Arc<Tenant>, start: Time, timeout: Duration) {
        if self.under_way.len() >= MAX_LOOKS {
            self.under_way.remove(0);
        }
        let result = Box::pin(look(Arc::clone(tenant), start, timeout));
        self.under_way.push(StartedLook { start, result });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Returns the time after the start of the last look from which another one may start beside
    /// those under way.
    pub(crate) fn spacing(&self, is_pressed: bool) -> Duration {
        match is_pressed {
            true if self.under_way.len() < CROWD => PRESSED_SPACING,
            true => CROWDED_SPACING,
            false => SPACING,
        }
    }

    /// Returns how long the oldest look has been waiting for its answer.
    pub(crate) fn longest_wait(&self, now: Time) -> Duration {
        let oldest = self.under_way.first();
        oldest.map_or(Duration::ZERO, |look| now.since(look.start))
    }

    /// Waits for the next answer. Never returns while no look is under way. A look that started
    /// before the one that was answered is given up: its answer could not say more.
    pub(crate) async fn next(&mut self) -> LookResult {
        poll_fn(|context| self.poll_next(context)).await
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<LookResult> {
        // The newest answer counts.
        for index in (0..self.under_way.len()).rev() {
            let look = &mut self.under_way[index];
            if let Poll::Ready(result) = Pin::new(&mut look.result).poll(context) {
                if result.leases.is_ok() {
                    self.under_way.drain(..=index);
                } else {
                    self.under_way.remove(index);
                }
                return Poll::Ready(result);
            }
        }
        Poll::Pending
    }
}

async fn look(tenant: Arc<Tenant>, start: Time, timeout: Duration) -> LookResult {
    let deadline = Instant::now() + timeout;
    let leases = tenant.leases(deadline).await;
    // Tells an API server that is away from one that refuses or delays the list.
    let version = match &leases {
        Err(error) if error.failure() == FailureKind::Unclear || error.is_denied() => {
            let deadline = Instant::now() + VERSION_TIMEOUT.min(timeout);
            Some(tenant.version(deadline).await)
        }
        _ => None,
    };
    LookResult {
        start,
        leases,
        version,
    }
}
