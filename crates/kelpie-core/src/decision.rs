//! What was decided about a cluster, and why.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::census::{Census, TripCause};
use crate::schedule::Wake;
use crate::status::ProbeStatus;
use crate::{Fraction, Time};

/// What is to be done with a cluster's controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// Stop them: they would make it worse.
    Fence,
    /// Touch nothing.
    Hold,
    /// Restore what was fenced.
    Release,
}

/// One decision: the same value goes to the fencing flow, the log, the Event, the metric, the
/// dashboard and `explain`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// What is to be done.
    pub verdict: Verdict,
    /// Why.
    pub reasons: Reasons,
    /// When the cluster is looked at next.
    pub next_wake: Wake,
    /// The earliest instant still ahead at which a candidate may turn Unknown.
    pub deadline: Option<Time>,
    /// From when on a fence's levels no longer wait for each other: the deadline beats the order.
    pub rush_at: Option<Time>,
    /// The instant that was judged: the start of the list, or of the round if there was none.
    pub at: Time,
}

/// Why a verdict was given.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reasons {
    /// The rule that applied.
    pub rule: Rule,
    /// The leases it was applied to, if they were listed.
    pub leases: Option<Census>,
    /// The API-server probe's results in a row.
    pub api_server: ProbeStatus,
    /// The external probe's results in a row, if there is one.
    pub external: Option<ProbeStatus>,
    /// The lease probe's results in a row.
    pub lease_probe: ProbeStatus,
    /// The share of expired candidates that trips.
    pub failure_fraction: Fraction,
    /// The share of candidates without a renewal since the trip that keeps the cluster tripped.
    pub recovery_fraction: Fraction,
    /// When the cluster would trip if nobody renewed, if that is before the next regular look.
    pub trips_at: Option<Time>,
}

impl Reasons {
    /// Whether the lease probe failed in this round. A trip goes on for a while without a list, and
    /// that says nothing about leases.
    pub fn lease_probe_failed(&self) -> bool {
        let is_failing = matches!(
            self.rule,
            Rule::Tripped { .. } | Rule::Counting { .. } | Rule::TooFewCandidates { .. }
        );
        is_failing && self.leases.is_some()
    }
}

/// The rules of the verdict; the first that applies wins, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "name")]
pub enum Rule {
    /// The initial delay is not over.
    #[serde(rename_all = "camelCase")]
    InitialDelay {
        /// When it is.
        until: Time,
    },
    /// The API server is not healthy: its controllers can do no further damage.
    ApiServerNotHealthy,
    /// The API server cannot be reached over the external path.
    ExternalUnhealthy,
    /// Leases, nodes or machines could not be listed.
    ListFailed,
    /// The cluster has no nodes.
    NoNodes,
    /// No node's lease proves anything.
    #[serde(rename_all = "camelCase")]
    NoCandidates {
        /// Nothing speaks for keeping a fence, by the leases of all nodes.
        well: bool,
    },
    /// The lease probe tripped.
    #[serde(rename_all = "camelCase")]
    Tripped {
        /// When.
        since: Time,
        /// By what.
        cause: TripCause,
    },
    /// It tripped, over too few candidates to act on.
    #[serde(rename_all = "camelCase")]
    TooFewCandidates {
        /// How many it takes.
        required: u32,
    },
    /// The leases are renewed.
    Well,
    /// The lease probe fails, but not often enough yet.
    #[serde(rename_all = "camelCase")]
    Counting {
        /// How often in a row.
        failures: u32,
        /// How often it takes.
        required: u32,
    },
    /// Nothing speaks clearly enough for either.
    #[serde(rename_all = "camelCase")]
    Undecided {
        /// A predecessor's fence, or one not ruled out yet, was found at this instant, or our own begun
        /// at it before a gap between lists; it stays until the nodes have renewed.
        fence_found: Option<Time>,
    },
}

impl Rule {
    /// The verdict that follows.
    pub fn verdict(self) -> Verdict {
        match self {
            Self::ExternalUnhealthy | Self::Tripped { .. } => Verdict::Fence,
            Self::NoNodes | Self::NoCandidates { well: true } | Self::Well => Verdict::Release,
            Self::InitialDelay { .. }
            | Self::ApiServerNotHealthy
            | Self::ListFailed
            | Self::NoCandidates { well: false }
            | Self::TooFewCandidates { .. }
            | Self::Counting { .. }
            | Self::Undecided { .. } => Verdict::Hold,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fence => "Fence",
            Self::Hold => "Hold",
            Self::Release => "Release",
        })
    }
}

/// In plain words, for a person at night.
impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.verdict, self.reasons)?;
        if let (Verdict::Fence, Some(deadline)) = (self.verdict, self.deadline) {
            let left = Seconds(deadline.since(self.at));
            write!(f, " The next node can turn Unknown in {left}.")?;
        }
        if self.rush_at.is_some_and(|at| at <= self.at) {
            f.write_str(" Levels no longer wait for each other.")?;
        }
        let Wake { at, reason } = self.next_wake;
        write!(f, " Next look in {}: {reason}.", Seconds(at.since(self.at)))
    }
}

impl fmt::Display for Reasons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.", self.rule)?;
        let Some(leases) = &self.leases else {
            return Ok(());
        };
        let Census {
            candidates,
            expired,
            silent,
            ..
        } = leases;
        if *candidates > 0 {
            let failure = self.failure_fraction;
            write!(
                f,
                " Of {candidates} candidates {expired} are expired and {silent} silent (trips at \
                 {failure})."
            )?;
        }
        if let Some(not_renewed) = leases.not_renewed {
            let recovery = self.recovery_fraction;
            write!(
                f,
                " {not_renewed} have not renewed since the trip (well again below {recovery})."
            )?;
        }
        if leases.unproven > 0 {
            write!(f, " {} leases prove nothing yet.", leases.unproven)?;
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

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InitialDelay { until } => write!(f, "only observing until {until}"),
            Self::ApiServerNotHealthy => {
                f.write_str("the API server is not healthy, so nothing can make it worse")
            }
            Self::ExternalUnhealthy => {
                f.write_str("the API server cannot be reached over the external path")
            }
            Self::ListFailed => f.write_str("leases, nodes or machines could not be listed"),
            Self::NoNodes => f.write_str("the cluster has no nodes"),
            Self::NoCandidates { well: true } => f.write_str("no node counts; no fence is needed"),
            Self::NoCandidates { well: false } => {
                f.write_str("no node counts; the fence stays until all nodes' leases are renewed")
            }
            Self::Tripped {
                since,
                cause: TripCause::Expired,
            } => {
                write!(f, "too many leases are expired, since {since}")
            }
            Self::Tripped {
                since,
                cause: TripCause::LastCall,
            } => {
                write!(
                    f,
                    "last call before a node turns Unknown, too many are silent, since {since}"
                )
            }
            Self::TooFewCandidates { required } => {
                write!(
                    f,
                    "leases are expired, but it takes {required} candidates to act"
                )
            }
            Self::Well => f.write_str("the leases are renewed"),
            Self::Counting { failures, required } => {
                write!(
                    f,
                    "too many leases are expired, seen {failures} of {required} times"
                )
            }
            Self::Undecided { fence_found: None } => f.write_str("not enough is known yet"),
            Self::Undecided {
                fence_found: Some(at),
            } => {
                write!(
                    f,
                    "a fence may stand since {at} or before; it stays until nodes renew"
                )
            }
        }
    }
}

/// A duration as people say it: tenths of a second are enough.
struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} s", self.0.as_secs_f64())
    }
}
