//! The results of one probe.

use std::time::Duration;

use crate::{CheckGroup, CheckName, CheckResult};

/// The result of one check in a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckReport {
    /// The name under which the check is registered.
    pub name: CheckName,
    /// The result of the run, or the substitute if the run did not end by the deadline.
    pub result: CheckResult,
    /// The age of the result if it was reused from an earlier run. `None` for a fresh result.
    pub reused_age: Option<Duration>,
    /// The time the probe waited for the check.
    pub took: Duration,
}

/// The results of one probe of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthReport {
    /// The group that was probed.
    pub group: CheckGroup,
    /// One report for each check that ran, in the order of registration.
    pub checks: Vec<CheckReport>,
}

impl HealthReport {
    /// Returns true if no check failed.
    pub fn is_ok(&self) -> bool {
        self.checks.iter().all(|check| check.result.is_ok())
    }
}
