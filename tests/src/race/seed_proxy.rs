//! The proxy between the probers and the seed's API server.

use anyhow::Result;

use super::fault::RaceFault;
use crate::landscape::{InterceptAction, Interceptor, SeedCluster};

/// The header with which an API server asks throttled clients to wait for a second.
const RETRY_AFTER: &str = "Retry-After: 1";

/// Terminates TLS in front of the seed's API server and injects the seed's faults.
pub(super) struct SeedProxy {
    pub(super) interceptor: Interceptor,
}

impl SeedProxy {
    pub(super) async fn start(seed: &SeedCluster) -> Result<Self> {
        let interceptor = Interceptor::start(&seed.control_plane.api).await?;
        Ok(Self { interceptor })
    }

    /// Begins a fault that lasts for the whole trial.
    pub(super) fn begin(&self, fault: RaceFault, rng: &mut fastrand::Rng) {
        match fault {
            RaceFault::SeedLatency(time) => {
                self.interceptor
                    .set_rule(move |_| InterceptAction::Delay(time));
            }
            RaceFault::SeedThrottling(share) => {
                let mut rng = rng.fork();
                self.interceptor.set_rule(move |_| {
                    if rng.f64() < share {
                        InterceptAction::Reject(429, vec![RETRY_AFTER])
                    } else {
                        InterceptAction::Pass
                    }
                });
            }
            _ => {}
        }
    }

    /// Cuts all watches, and refuses new ones until [`end`](Self::end).
    pub(super) fn refuse_watches(&self) {
        self.interceptor.set_rule(|request| {
            if request.is_watch() {
                InterceptAction::Reject(503, Vec::new())
            } else {
                InterceptAction::Pass
            }
        });
        self.interceptor.drop_watches();
    }

    /// Answers no request until [`end`](Self::end), and cuts all watches.
    pub(super) fn be_away(&self) {
        self.interceptor.set_rule(|_| InterceptAction::Hold);
        self.interceptor.drop_watches();
    }

    /// Ends all faults.
    pub(super) fn end(&self) {
        self.interceptor.set_rule(|_| InterceptAction::Pass);
        self.interceptor.release_held();
    }
}
