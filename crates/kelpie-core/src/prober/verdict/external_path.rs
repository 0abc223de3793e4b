//! The external path of a cluster: the results of its probe so far.

use serde::{Deserialize, Serialize};

use crate::prober::Thresholds;
use crate::prober::egress::EgressState;
use crate::prober::probe_status::{ProbeHealth, ProbeResult, ProbeStatus};

/// The consecutive results of the external probe.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct ExternalPath {
    pub(super) status: ProbeStatus,
    /// The probe has succeeded at least once. Before, its failures prove nothing.
    is_proven: bool,
    /// The prober's own egress was suspected at the last decision.
    was_suspected: bool,
}

impl ExternalPath {
    /// Counts a result.
    pub(super) fn record(
        &mut self,
        result: ProbeResult,
        egress: EgressState,
        thresholds: Thresholds,
    ) {
        let is_suspected = matches!(egress, EgressState::Suspected { .. });
        if self.was_suspected && !is_suspected {
            // The failures so far were those of our own egress. Only new ones are the cluster's.
            self.status.error_count = 0;
        }
        self.was_suspected = is_suspected;
        self.is_proven |= result == ProbeResult::Success;
        self.status.record(result, thresholds);
    }

    /// Returns the health of the path; `None` if it never worked.
    pub(super) fn health(&self, thresholds: Thresholds) -> Option<ProbeHealth> {
        self.is_proven.then(|| self.status.health(thresholds))
    }
}
