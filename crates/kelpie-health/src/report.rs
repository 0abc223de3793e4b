//! What one probe of a group found.

use std::time::Duration;

use crate::{CheckName, Group, Verdict};

/// One check's part of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Which check.
    pub name: CheckName,
    /// What it said, or what stands for it if it was late.
    pub verdict: Verdict,
    /// The age of the verdict if the run was still out and its last result was repeated.
    pub stale: Option<Duration>,
    /// How long the probe waited for it.
    pub took: Duration,
}

/// What one probe of a group found, in the order of registration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Which group.
    pub group: Group,
    /// One for each check that was asked.
    pub findings: Vec<Finding>,
}

impl Report {
    /// True if no check failed.
    pub fn is_ok(&self) -> bool {
        self.findings.iter().all(|found| found.verdict.is_ok())
    }
}
