//! The condition of a cluster, in one word.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Time;
use crate::prober::{Decision, FenceState, Rule, Verdict};

/// A restore that takes longer than this is stuck.
const RESTORE_PATIENCE: Duration = Duration::from_mins(1);

/// The condition of a cluster. The order is that of urgency: a cluster that needs an operator most
/// comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ClusterCondition {
    /// A fence is due, and a controller that it has to stop still runs.
    Unfenced,
    /// The nodes are back, but their controllers are not.
    RestoreStuck,
    /// Nothing would be fenced: no node counts, or there is no access to the cluster.
    Unprotected,
    /// Nodes are falling silent together, and a fence may be near.
    DeadlineImminent,
    /// The controllers are stopped, because the nodes have lost their API server.
    Fenced,
    /// A dry run would fence the cluster now.
    WouldFence,
    /// The cluster's API server is away or does not list its leases, so nothing is known.
    Blind,
    /// The cluster is judged, but something about it does not work.
    Trouble,
    /// The nodes are back, and their controllers are being started.
    Restoring,
    /// Not enough is known for a fence or a release.
    Undecided,
    /// An annotation tells the prober to ignore the targets.
    Paused,
    /// The prober has just begun to watch the cluster.
    Starting,
    /// The nodes renew their leases, and the controllers run.
    Healthy,
}

/// The urgency of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    /// Damage may be under way.
    Critical,
    /// An operator should look.
    Warning,
    /// It is expected to pass.
    Notice,
    /// All is well.
    Fine,
}

/// The facts that a condition follows from.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts about one cluster"
)]
pub struct ClusterFacts<'a> {
    /// The last decision; `None` before the first round.
    pub decision: Option<&'a Decision>,
    /// The state of the targets, taken together.
    pub fence: Option<FenceState>,
    /// A fence is wanted, and a target that the deadline is about still runs.
    pub is_unfenced: bool,
    /// The instant since which a fence is to be lifted.
    pub restoring_since: Option<Time>,
    /// Targets are configured.
    pub has_targets: bool,
    /// An annotation tells the prober to ignore every target that exists.
    pub is_ignored: bool,
    /// The guard holds the nodes even without a fence.
    pub is_guarded: bool,
    /// There are credentials for the cluster that can be used.
    pub has_access: bool,
    /// A subsystem has a problem.
    pub has_problems: bool,
    /// The replica writes nothing.
    pub is_dry_run: bool,
}

impl ClusterCondition {
    /// All conditions, the most urgent one first.
    pub const ALL: [Self; 13] = [
        Self::Unfenced,
        Self::RestoreStuck,
        Self::Unprotected,
        Self::DeadlineImminent,
        Self::Fenced,
        Self::WouldFence,
        Self::Blind,
        Self::Trouble,
        Self::Restoring,
        Self::Undecided,
        Self::Paused,
        Self::Starting,
        Self::Healthy,
    ];

    /// Returns the condition of a cluster at `now`.
    pub fn of(facts: &ClusterFacts<'_>, now: Time) -> Self {
        let Some(decision) = facts.decision else {
            return Self::Starting;
        };
        let is_fenced = matches!(facts.fence, Some(FenceState::Partial | FenceState::Full));
        match decision.verdict {
            Verdict::Fence if facts.is_dry_run && !is_fenced => Self::WouldFence,
            Verdict::Fence if !facts.has_targets && facts.is_guarded => Self::Fenced,
            Verdict::Fence if facts.is_unfenced => Self::Unfenced,
            Verdict::Fence | Verdict::Hold if is_fenced => Self::Fenced,
            Verdict::Fence if facts.is_ignored => Self::Paused,
            Verdict::Fence => Self::Unfenced,
            Verdict::Release if is_fenced && facts.is_dry_run => Self::Fenced,
            Verdict::Release if is_fenced => {
                let since = facts.restoring_since.unwrap_or(now);
                if now.since(since) > RESTORE_PATIENCE {
                    Self::RestoreStuck
                } else {
                    Self::Restoring
                }
            }
            Verdict::Hold | Verdict::Release => Self::unfenced(facts, decision),
        }
    }

    /// Returns the condition of a cluster that is neither fenced nor to be fenced.
    fn unfenced(facts: &ClusterFacts<'_>, decision: &Decision) -> Self {
        let or_imminent = |otherwise| {
            if decision.is_pressed {
                Self::DeadlineImminent
            } else {
                otherwise
            }
        };
        match decision.reasons.rule {
            Rule::InitialDelay { .. } => Self::Starting,
            Rule::ApiServerNotHealthy | Rule::ListFailed | Rule::StaleList => {
                if facts.has_access {
                    Self::Blind
                } else {
                    Self::Unprotected
                }
            }
            Rule::NoCandidates { .. } | Rule::TooFewCandidates { .. } => Self::Unprotected,
            Rule::Counting { .. } => Self::DeadlineImminent,
            Rule::EgressUnclear | Rule::EgressSuspected { .. } | Rule::Undecided { .. } => {
                or_imminent(Self::Undecided)
            }
            Rule::BothProbesHealthy => Self::Trouble,
            Rule::NoNodes
            | Rule::LeasesRenewed
            // With another verdict than theirs, these two do not occur.
            | Rule::Tripped { .. }
            | Rule::ExternalUnhealthy => {
                if facts.is_ignored {
                    Self::Paused
                } else if facts.has_problems {
                    or_imminent(Self::Trouble)
                } else {
                    or_imminent(Self::Healthy)
                }
            }
        }
    }

    /// Returns how much the condition needs an operator.
    pub const fn severity(self) -> Severity {
        match self {
            Self::Unfenced | Self::RestoreStuck => Severity::Critical,
            Self::Unprotected
            | Self::DeadlineImminent
            | Self::Fenced
            | Self::WouldFence
            | Self::Blind
            | Self::Trouble => Severity::Warning,
            Self::Restoring | Self::Undecided | Self::Paused | Self::Starting => Severity::Notice,
            Self::Healthy => Severity::Fine,
        }
    }

    /// Returns whether an operator should look at the cluster.
    pub fn needs_you(self) -> bool {
        self.severity() <= Severity::Warning
    }

    /// Returns the condition as it appears in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unfenced => "unfenced",
            Self::RestoreStuck => "restoreStuck",
            Self::Unprotected => "unprotected",
            Self::DeadlineImminent => "deadlineImminent",
            Self::Fenced => "fenced",
            Self::WouldFence => "wouldFence",
            Self::Blind => "blind",
            Self::Trouble => "trouble",
            Self::Restoring => "restoring",
            Self::Undecided => "undecided",
            Self::Paused => "paused",
            Self::Starting => "starting",
            Self::Healthy => "healthy",
        }
    }
}

/// Prints the condition as people read it, such as `Deadline imminent`.
impl fmt::Display for ClusterCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Unfenced => "Not fenced",
            Self::RestoreStuck => "Restore stuck",
            Self::Unprotected => "Unprotected",
            Self::DeadlineImminent => "Deadline imminent",
            Self::Fenced => "Fenced",
            Self::WouldFence => "Would fence",
            Self::Blind => "Blind",
            Self::Trouble => "Trouble",
            Self::Restoring => "Restoring",
            Self::Undecided => "Undecided",
            Self::Paused => "Paused",
            Self::Starting => "Starting",
            Self::Healthy => "Healthy",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_listed_once_in_their_order() {
        assert!(ClusterCondition::ALL.is_sorted());
        let mut names: Vec<_> = ClusterCondition::ALL.map(ClusterCondition::as_str).into();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ClusterCondition::ALL.len());
    }

    #[test]
    fn urgency_follows_severity_within_what_needs_an_operator() {
        for pair in ClusterCondition::ALL.windows(2) {
            // Unprotected clusters come before fenced ones, within the same severity.
            assert!(pair[0].severity() <= pair[1].severity(), "{pair:?}");
        }
    }

    #[test]
    fn json_is_the_name() {
        for condition in ClusterCondition::ALL {
            let json = serde_json::to_value(condition).unwrap();
            assert_eq!(json, condition.as_str());
        }
    }
}
