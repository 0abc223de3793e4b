//! The decision about a cluster, and the reasons for it.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::rule::{Rule, Verdict};
use super::schedule::Wake;
use crate::prober::leases::LeaseCounts;
use crate::prober::probe_status::ProbeStatus;
use crate::{Fraction, Time};

/// One decision. The same value goes to the fencing flow, the log, the Event, the metrics, the
/// state page and `explain`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// The action to take.
    pub verdict: Verdict,
    /// The evidence and the rule behind the verdict.
    pub reasons: Reasons,
    /// The start of the next round.
    pub next_wake: Wake,
    /// The earliest instant still ahead at which a candidate may turn Unknown.
    pub deadline: Option<Time>,
    /// The instant from which the levels of a fence no longer wait for each other, because the
    /// deadline would be missed otherwise.
    pub parallel_from: Option<Time>,
    /// The first deadline of the current trip, against which its fence is measured. It may have
    /// passed.
    pub trip_deadline: Option<Time>,
    /// A trip or a deadline is so near that requests to the cluster overlap and nothing pauses.
    #[serde(default)]
    pub is_pressed: bool,
    /// The instant at which to decide again if no request was answered before.
    pub review_at: Option<Time>,
    /// The instant at which the evidence of the last list is lost, unless another list is asked for
    /// before. Then nothing can be fenced for one and a half renewals.
    #[serde(skip)]
    pub evidence_until: Option<Time>,
    /// The instant of the evidence: the start of the last list where no other was answered since.
    /// The decision does not undo later changes by other clients.
    #[serde(skip)]
    pub evidence_at: Time,
    /// The instant that was judged: the start of the lease list, or of the round without a list.
    pub at: Time,
}

/// The reasons for a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reasons {
    /// The rule that applied.
    pub rule: Rule,
    /// The leases that were judged; `None` if they were not listed.
    pub leases: Option<LeaseCounts>,
    /// Consecutive results of the API-server probe.
    pub api_server: ProbeStatus,
    /// Consecutive results of the external probe; `None` if it is not configured.
    pub external: Option<ProbeStatus>,
    /// Consecutive results of the lease probe.
    pub lease_probe: ProbeStatus,
    /// The share of expired candidates that trips.
    pub failure_fraction: Fraction,
    /// A trip is over when a smaller share of the candidates has yet to renew.
    pub recovery_fraction: Fraction,
    /// The instant at which the cluster would trip if no lease were renewed, if that is before the
    /// next regular round.
    pub trips_at: Option<Time>,
}

impl Reasons {
    /// Returns whether the lease probe failed in this round. A trip that goes on without a list
    /// says nothing about leases.
    pub fn lease_probe_failed(&self) -> bool {
        self.rule.properties().lease_probe_failed && self.leases.is_some()
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.verdict, self.reasons)?;
        if let (Verdict::Fence, Some(deadline)) = (self.verdict, self.deadline) {
            let left = Seconds(deadline.since(self.at));
            write!(f, " The next node can turn Unknown in {left}.")?;
        }
        if self.parallel_from.is_some_and(|at| at <= self.at) {
            f.write_str(" All levels are fenced in parallel.")?;
        }
        let Wake { at, reason } = self.next_wake;
        write!(
            f,
            " Next round in {}: {reason}.",
            Seconds(at.since(self.at))
        )
    }
}

impl fmt::Display for Reasons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.", self.rule)?;
        let Some(leases) = &self.leases else {
            return Ok(());
        };
        let LeaseCounts {
            candidates,
            expired,
            silent,
            ..
        } = leases;
        if *candidates > 0 {
            let failure = self.failure_fraction;
            write!(
                f,
                " {expired} of {candidates} leases expired, {silent} silent (trips at {failure})."
            )?;
        }
        if let Some(not_renewed) = leases.not_renewed {
            let recovery = self.recovery_fraction;
            write!(
                f,
                " {not_renewed} not renewed yet (restores below {recovery})."
            )?;
        }
        if leases.unproven > 0 {
            write!(
                f,
                " {} seen only once; waiting for a renewal.",
                leases.unproven
            )?;
        }
        for (index, (cause, count)) in leases.excluded.iter().enumerate() {
            f.write_str(if index == 0 { " Not counted: " } else { ", " })?;
            write!(f, "{count} {cause}")?;
        }
        if leases.excluded.total() > 0 {
            f.write_str(".")?;
        }
        Ok(())
    }
}

/// A duration in seconds with one decimal.
struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} s", self.0.as_secs_f64())
    }
}
