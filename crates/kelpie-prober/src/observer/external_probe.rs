//! The external path of a cluster, which its kubelets use.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use kelpie_core::Time;
use kelpie_core::prober::{EgressState, ProbeResult};
use kelpie_kube::AnchoredClock;
use kelpie_kube::tenant::TenantError;
use tokio::task::JoinError;
use tokio::time::{Instant, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::{RoundRecorder, TenantPath};
use crate::inputs::LazyKubeconfig;
use crate::own_egress::EgressEntry;
use crate::subsystem::Subsystem;

/// The time that a decision waits for the response over the external path.
const EXTERNAL_WAIT: Duration = Duration::from_secs(1);

/// Probes the external path in a task of its own, beside the rounds.
///
/// On this path packets are rather lost than refused, and a request that hangs must not delay the
/// evaluation of leases.
pub(super) struct ExternalProbe {
    clock: AnchoredClock,
    /// `None` while a request is in flight.
    path: Option<TenantPath>,
    request: Option<AbortOnDropHandle<ExternalResponse>>,
    egress: EgressEntry,
}

/// The path, which the task returns, the result of the request, and the instant of its end.
type ExternalResponse = (TenantPath, Result<Result<(), TenantError>, String>, Time);

impl ExternalProbe {
    pub(super) fn new(clock: AnchoredClock, path: TenantPath, egress: EgressEntry) -> Self {
        Self {
            clock,
            path: Some(path),
            request: None,
            egress,
        }
    }

    pub(super) fn set_kubeconfig(&mut self, kubeconfig: Option<&Arc<LazyKubeconfig>>) {
        // Not while a request is in flight: the next round sets it.
        if let Some(path) = &mut self.path {
            path.set_kubeconfig(kubeconfig);
        }
    }

    /// Starts a request, unless one is in flight.
    pub(super) fn start(&mut self, deadline: Instant) {
        let Some(path) = self.path.take() else {
            return;
        };
        let clock = self.clock;
        let request = async move {
            let result = path.version(deadline).await;
            (path, result, clock.now())
        };
        self.request = Some(AbortOnDropHandle::new(tokio::spawn(request)));
    }

    /// Returns the prober's own egress, for a decision at this instant.
    pub(super) fn egress(&self) -> EgressState {
        self.egress.state(self.clock.now())
    }

    /// Returns the result of the request if it arrives soon, and a transient failure otherwise. A
    /// pressed cluster does not wait.
    pub(super) async fn result(
        &mut self,
        is_pressed: bool,
        leases_renewed: bool,
        recorder: &mut RoundRecorder,
    ) -> ProbeResult {
        let (result, at) = self.response(is_pressed, recorder).await;
        let at = at.unwrap_or_else(|| self.clock.now());
        self.egress.record(result, at, leases_renewed);
        result
    }

    /// Returns the result and its instant; `None` if there is no response yet.
    async fn response(
        &mut self,
        is_pressed: bool,
        recorder: &mut RoundRecorder,
    ) -> (ProbeResult, Option<Time>) {
        let wait = if is_pressed {
            Duration::ZERO
        } else {
            EXTERNAL_WAIT
        };
        let Some(request) = &mut self.request else {
            return (ProbeResult::Transient, None);
        };
        let Ok(response) = timeout(wait, request).await else {
            return (ProbeResult::Transient, None);
        };
        self.request = None;
        let (path, result, at) = match response.map_err(JoinError::try_into_panic) {
            Ok(response) => response,
            // A task that panicked took the path with it. The manager restarts the whole probe.
            Err(Ok(panic)) => resume_unwind(panic),
            // The runtime is shutting down.
            Err(Err(_)) => return (ProbeResult::Transient, None),
        };
        let path = self.path.insert(path);
        recorder.external_stats = path.take_stats();
        let result = match result {
            Ok(result) => {
                recorder.record(Subsystem::ExternalKubeconfig, path.problem.clone());
                recorder.record_probe(Subsystem::External, &result)
            }
            Err(problem) => {
                recorder.record(Subsystem::ExternalKubeconfig, Some(problem));
                ProbeResult::Transient
            }
        };
        (result, Some(at))
    }
}
