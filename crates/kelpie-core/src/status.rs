//! Consecutive results of a probe, and what they say about its health.

use serde::Serialize;

use crate::Thresholds;

/// What one run of a probe found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// It answered.
    Success,
    /// It did not.
    Failure,
    /// Throttled or refused (429, 401, 403): nothing is known, so nothing changes.
    Transient,
}

/// Counts of equal results in a row, saturating at their thresholds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProbeStatus {
    /// Successes since the last failure.
    pub success_count: u32,
    /// Failures since the last success.
    pub error_count: u32,
}

/// What the counts say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Health {
    /// Enough successes in a row.
    Healthy,
    /// Enough failures in a row.
    Unhealthy,
    /// Neither, yet.
    Undecided,
}

impl ProbeStatus {
    /// Counts one more result.
    pub fn record(&mut self, outcome: Outcome, thresholds: Thresholds) {
        match outcome {
            Outcome::Success => {
                self.success_count = self.success_count.saturating_add(1).min(thresholds.success);
                self.error_count = 0;
            }
            Outcome::Failure => {
                self.error_count = self.error_count.saturating_add(1).min(thresholds.failure);
                self.success_count = 0;
            }
            Outcome::Transient => {}
        }
    }

    /// What the counts say under these thresholds.
    pub fn health(self, thresholds: Thresholds) -> Health {
        if self.success_count >= thresholds.success {
            Health::Healthy
        } else if self.error_count >= thresholds.failure {
            Health::Unhealthy
        } else {
            Health::Undecided
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Health::{Healthy, Undecided, Unhealthy};
    use Outcome::{Failure, Success, Transient};
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
        for (name, before, outcome, after, health) in rows {
            let mut status = before;
            status.record(outcome, ONE_OF_THREE);
            assert_eq!(status, after, "{name}");
            assert_eq!(status.health(ONE_OF_THREE), health, "{name}");
        }
    }

    proptest! {
        #[test]
        fn thresholds_saturate(
            success in 1_u32..5, failure in 1_u32..5,
            outcomes in prop::collection::vec(
                prop_oneof![Just(Success), Just(Failure), Just(Transient)], 0..50),
        ) {
            let thresholds = Thresholds { success, failure };
            let mut status = ProbeStatus::default();
            for outcome in outcomes {
                status.record(outcome, thresholds);
                prop_assert!(status.success_count <= success && status.error_count <= failure);
                prop_assert!(status.success_count == 0 || status.error_count == 0);
            }
        }
    }
}
