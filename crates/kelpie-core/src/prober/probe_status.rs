//! The consecutive results of a probe, and its health.

use serde::{Deserialize, Serialize};

use crate::prober::Thresholds;

/// The result of one run of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ProbeResult {
    /// The API server answered, or the cluster is not tripped by its leases.
    Success,
    /// The API server did not answer, or the cluster is tripped by its leases.
    Failure,
    /// The request was throttled or refused (429, 401, 403), or the leases prove nothing. The
    /// counts do not change.
    Transient,
}

/// The number of consecutive equal results. The counts saturate at their thresholds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProbeStatus {
    /// The successes since the last failure.
    pub success_count: u32,
    /// The failures since the last success.
    pub error_count: u32,
}

/// The health of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ProbeHealth {
    /// There were enough consecutive successes.
    Healthy,
    /// There were enough consecutive failures.
    Unhealthy,
    /// Neither threshold is reached yet.
    Undecided,
}

impl ProbeStatus {
    /// Creates the status of a probe that is proven healthy.
    pub(crate) fn healthy(thresholds: Thresholds) -> Self {
        Self {
            success_count: thresholds.success,
            error_count: 0,
        }
    }

    /// Counts a result. A transient one changes nothing.
    pub fn record(&mut self, result: ProbeResult, thresholds: Thresholds) {
        match result {
            ProbeResult::Success => {
                self.success_count = self.success_count.saturating_add(1).min(thresholds.success);
                self.error_count = 0;
            }
            ProbeResult::Failure => {
                self.error_count = self.error_count.saturating_add(1).min(thresholds.failure);
                self.success_count = 0;
            }
            ProbeResult::Transient => {}
        }
    }

    /// Returns the health under these thresholds.
    pub fn health(self, thresholds: Thresholds) -> ProbeHealth {
        if self.success_count >= thresholds.success {
            ProbeHealth::Healthy
        } else if self.error_count >= thresholds.failure {
            ProbeHealth::Unhealthy
        } else {
            ProbeHealth::Undecided
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ProbeHealth::{Healthy, Undecided, Unhealthy};
    use ProbeResult::{Failure, Success, Transient};
    use proptest::prelude::*;

    const ONE_OF_THREE: Thresholds = Thresholds {
        success: 1,
        failure: 3,
    };

    fn counts(success_count: u32, error_count: u32) -> ProbeStatus {
        ProbeStatus {
            success_count,
            error_count,
        }
    }

    #[test]
    fn counts_follow_the_table() {
        let rows = [
            (
                "first success",
                counts(0, 0),
                Success,
                counts(1, 0),
                Healthy,
            ),
            (
                "first failure",
                counts(1, 0),
                Failure,
                counts(0, 1),
                Undecided,
            ),
            (
                "failure at the threshold",
                counts(0, 2),
                Failure,
                counts(0, 3),
                Unhealthy,
            ),
            (
                "success after unhealthy",
                counts(0, 3),
                Success,
                counts(1, 0),
                Healthy,
            ),
            (
                "throttled while healthy",
                counts(1, 0),
                Transient,
                counts(1, 0),
                Healthy,
            ),
            (
                "throttled while counting",
                counts(0, 2),
                Transient,
                counts(0, 2),
                Undecided,
            ),
            (
                "throttled while unhealthy",
                counts(0, 3),
                Transient,
                counts(0, 3),
                Unhealthy,
            ),
            (
                "throttled at the start",
                counts(0, 0),
                Transient,
                counts(0, 0),
                Undecided,
            ),
        ];
        for (name, before, result, after, health) in rows {
            let mut status = before;
            status.record(result, ONE_OF_THREE);
            assert_eq!(status, after, "{name}");
            assert_eq!(status.health(ONE_OF_THREE), health, "{name}");
        }
    }

    proptest! {
        #[test]
        fn counts_saturate_at_thresholds(
            success in 1_u32..5, failure in 1_u32..5,
            results in prop::collection::vec(
                prop_oneof![Just(Success), Just(Failure), Just(Transient)], 0..50),
        ) {
            let thresholds = Thresholds { success, failure };
            let mut status = ProbeStatus::default();
            for result in results {
                status.record(result, thresholds);
                prop_assert!(status.success_count <= success && status.error_count <= failure);
                prop_assert!(status.success_count == 0 || status.error_count == 0);
            }
        }
    }
}
