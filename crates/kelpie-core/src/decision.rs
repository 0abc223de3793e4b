//! What was decided about a cluster, and why.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::census::{Census, TripCause};
use crate::schedule::Wake;
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
    /// The instant that was judged: the start of the round.
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
    /// The share of expired candidates that trips.
    pub failure_fraction: Fraction,
    /// The share of silent candidates that keeps a tripped cluster tripped.
    pub recovery_fraction: Fraction,
    /// When the cluster would trip if nobody renewed, if that is before the next regular look.
    pub trips_at: Option<Time>,
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
    /// Nothing speaks clearly enough for either.
    #[serde(rename_all = "camelCase")]
    Undecided {
        /// A predecessor's fence, or one not ruled out yet, was found at this instant; it stays
        /// until the nodes have renewed.
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
        let (failure, recovery) = (self.failure_fraction, self.recovery_fraction);
        match self.rule {
            Rule::Tripped { .. } => write!(
                f,
                " Of {candidates} candidates {expired} are expired and {silent} silent (trips at \
                 {failure}); {} have not renewed since the trip (well again below {recovery}).",
                leases.not_renewed,
            )?,
            _ if *candidates > 0 => write!(
                f,
                " Of {candidates} candidates {expired} are expired and {silent} silent (trips at \
                 {failure}).",
            )?,
            _ => {}
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
            Self::Undecided { fence_found: None } => f.write_str("not enough is known yet"),
            Self::Undecided {
                fence_found: Some(at),
            } => {
                write!(
                    f,
                    "a fence may stand since before {at}; it stays until nodes renew"
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
