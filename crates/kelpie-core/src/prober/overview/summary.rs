//! A cluster in one line.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::condition::{ClusterCondition, ClusterFacts};
use super::last_fence::LastFence;
use crate::prober::{LeaseCounts, Rule};
use crate::{Time, truncated};

/// The longest problem that a line shows, in characters.
const MAX_PROBLEM: usize = 160;

/// A cluster in one line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSummary {
    /// The id of the cluster.
    pub id: String,
    /// Its condition.
    pub condition: ClusterCondition,
    /// The instant since which it is in this condition.
    pub since: Time,
    /// The condition in one sentence.
    pub sentence: String,
    /// The nodes that count.
    pub nodes: u32,
    /// The nodes among them that have been silent for half the grace period or longer.
    pub silent: u32,
    /// The nodes that do not count.
    pub not_counted: u32,
    /// The earliest instant at which a node may turn Unknown, while that matters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Time>,
    /// The seconds between the last fence and its deadline; negative if it came too late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub margin_seconds: Option<f64>,
    /// The trip of the last fence that this replica has seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_fence: Option<Time>,
    /// The first of its problems.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// The nodes of a cluster, as last counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeCounts {
    /// The nodes that count.
    pub counted: u32,
    /// The nodes among them that are silent or expired.
    pub silent: u32,
    /// The nodes that do not count.
    pub not_counted: u32,
}

impl From<&LeaseCounts> for NodeCounts {
    fn from(counts: &LeaseCounts) -> Self {
        Self {
            counted: counts.candidates,
            silent: counts.silent.max(counts.expired),
            not_counted: counts.excluded.total(),
        }
    }
}

/// The facts from which a line is made.
#[derive(Clone, Copy, Debug)]
pub struct SummaryContext<'a> {
    /// The id of the cluster.
    pub id: &'a str,
    /// The facts that the condition follows from.
    pub facts: ClusterFacts<'a>,
    /// The nodes as last counted. A decision between two lists has no counts of its own.
    pub nodes: NodeCounts,
    /// The condition.
    pub condition: ClusterCondition,
    /// The instant since which the cluster is in this condition.
    pub since: Time,
    /// The last fence that this replica has seen.
    pub last_fence: Option<&'a LastFence>,
    /// The first of the current problems.
    pub problem: Option<&'a str>,
}

impl ClusterSummary {
    /// Renders a line.
    pub fn new(context: &SummaryContext<'_>) -> Self {
        let SummaryContext {
            condition,
            last_fence,
            ..
        } = *context;
        let decision = context.facts.decision;
        let is_calm = matches!(
            condition,
            ClusterCondition::Healthy | ClusterCondition::Starting | ClusterCondition::Paused
        );
        let deadline = decision.and_then(|it| it.trip_deadline.or(it.deadline));
        Self {
            id: context.id.to_owned(),
            condition,
            since: context.since,
            sentence: context.sentence(),
            nodes: context.nodes.counted,
            silent: context.nodes.silent,
            not_counted: context.nodes.not_counted,
            deadline: deadline.filter(|_| !is_calm),
            margin_seconds: last_fence.and_then(|fence| fence.margin_seconds),
            last_fence: last_fence.map(|fence| fence.start),
            problem: context
                .problem
                .map(|problem| truncated(problem, MAX_PROBLEM)),
        }
    }
}

impl SummaryContext<'_> {
    fn sentence(&self) -> String {
        let NodeCounts {
            counted,
            silent,
            not_counted,
        } = self.nodes;
        let nodes = nodes(counted);
        let of_nodes = format!("{silent} of {nodes} silent");
        let problem = || {
            let problem = self.problem.unwrap_or("no cause is known");
            truncated(problem, MAX_PROBLEM)
        };
        let rule = self.facts.decision.map(|decision| decision.reasons.rule);
        match self.condition {
            ClusterCondition::Healthy if rule == Some(Rule::NoNodes) => {
                "It has no nodes, so there is nothing to protect.".to_owned()
            }
            ClusterCondition::Healthy if silent > 0 => {
                format!("{of_nodes}, too few for a fence; the others renew their leases.")
            }
            ClusterCondition::Healthy if counted == 1 => "Its node renews its lease.".to_owned(),
            ClusterCondition::Healthy => format!("All {nodes} renew their leases."),
            ClusterCondition::Starting => {
                "The prober has just begun to watch it and does not judge it yet.".to_owned()
            }
            ClusterCondition::Paused => {
                "An annotation tells the prober to ignore its controllers: nothing would be fenced."
                    .to_owned()
            }
            ClusterCondition::Fenced => self.fenced_sentence(&of_nodes),
            ClusterCondition::WouldFence => {
                format!("{of_nodes}. This is a dry run: its controllers keep running.")
            }
            ClusterCondition::Unfenced if !self.facts.has_targets => {
                format!("{of_nodes}, and nothing protects them: no controllers are configured.")
            }
            ClusterCondition::Unfenced => match self.problem {
                Some(_) => format!("{of_nodes}, and its controllers still run: {}.", problem()),
                None => format!("{of_nodes}, and its controllers still run."),
            },
            ClusterCondition::DeadlineImminent => {
                format!("{of_nodes}, and more are late. It is fenced if they do not come back.")
            }
            ClusterCondition::Restoring => {
                "The nodes are back, and its controllers are being started.".to_owned()
            }
            ClusterCondition::RestoreStuck => format!(
                "The nodes are back, but its controllers could not be started: {}.",
                problem()
            ),
            ClusterCondition::Blind => match (rule, self.problem) {
                (_, Some(_)) => format!("Nothing is known about its nodes: {}.", problem()),
                (Some(Rule::ApiServerNotHealthy), None) => {
                    "Its API server does not answer. Its controllers cannot act either.".to_owned()
                }
                _ => "Its leases cannot be listed, so nothing is known about its nodes.".to_owned(),
            },
            ClusterCondition::Unprotected => match rule {
                Some(Rule::TooFewCandidates { required }) => {
                    format!("{of_nodes}, but a fence takes {required} nodes: it is not protected.")
                }
                Some(Rule::NoCandidates { .. }) => {
                    format!("None of its {not_counted} nodes counts, so it is not protected.")
                }
                _ => format!("The prober has no access to it: {}.", problem()),
            },
            ClusterCondition::Trouble => match self.problem {
                Some(_) => format!("It is judged, but not everything works: {}.", problem()),
                None => "Its leases may not be listed; the API server's health decides.".to_owned(),
            },
            ClusterCondition::Undecided => "Not enough is known yet to judge it.".to_owned(),
        }
    }

    fn fenced_sentence(&self, of_nodes: &str) -> String {
        if !self.facts.has_targets {
            return format!("{of_nodes}. The guard keeps them from turning Unknown.");
        }
        let margin = self.last_fence.and_then(|fence| fence.margin_seconds);
        match margin {
            Some(margin) if margin < 0.0 => {
                let late = -margin;
                format!(
                    "{of_nodes}. Its controllers were stopped {late:.1} s after the deadline: \
                     nodes may have turned Unknown."
                )
            }
            Some(margin) => format!(
                "{of_nodes}. Its controllers were stopped {margin:.1} s before the deadline: the \
                 nodes are safe."
            ),
            None => format!("{of_nodes}. Its controllers are stopped, so the nodes are safe."),
        }
    }

    /// Returns the time to the deadline, if one is ahead at `now`.
    pub(super) fn time_left(&self, now: Time) -> Option<Duration> {
        let deadline = self.facts.decision?.deadline?;
        (deadline > now).then(|| deadline.since(now))
    }
}

fn nodes(count: u32) -> String {
    match count {
        1 => "1 node".to_owned(),
        count => format!("{count} nodes"),
    }
}
