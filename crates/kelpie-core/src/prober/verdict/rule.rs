//! The rules of the verdict: their order, their properties and their texts.
//!
//! Everything that is known about a rule stands in this file. A new rule is a variant of [`Rule`],
//! a line in [`select`], a row in [`Rule::properties`] and a text in its `Display`.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::trip::TripState;
use crate::Time;
use crate::prober::egress::EgressState;
use crate::prober::leases::{LeaseCounts, TripCause};
use crate::prober::probe_status::{ProbeHealth, ProbeResult};

/// The action that follows from a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// Stop the controllers: they would act on a false picture of the nodes.
    Fence,
    /// Leave everything as it is.
    Hold,
    /// Restore whatever was fenced.
    Release,
}

/// The rule that decided a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "name")]
pub enum Rule {
    /// The probe has just started and only observes.
    #[serde(rename_all = "camelCase")]
    InitialDelay {
        /// The end of the initial delay.
        until: Time,
    },
    /// The API server is down, so the cluster's controllers cannot act either.
    ApiServerNotHealthy,
    /// The API server cannot be reached over the external path, the one that kubelets use.
    ExternalUnhealthy,
    /// The external path fails, and whether it fails in other clusters too is not known yet.
    EgressUnclear,
    /// The external paths of most clusters fail together while leases are renewed.
    #[serde(rename_all = "camelCase")]
    EgressSuspected {
        /// The clusters whose external probes fail while their leases are renewed.
        failing: u32,
        /// The clusters whose external probes have succeeded before.
        probed: u32,
    },
    /// The leases could not be listed.
    ListFailed,
    /// The list of leases is older than an earlier one.
    StaleList,
    /// The leases may not be listed. The API-server probe and the external probe decide alone, and
    /// both are healthy.
    BothProbesHealthy,
    /// The cluster has no nodes.
    NoNodes,
    /// Every node is excluded, so no lease counts.
    #[serde(rename_all = "camelCase")]
    NoCandidates {
        /// The leases of all nodes are renewed, or there is no fence to keep.
        renewed: bool,
    },
    /// The lease probe tripped.
    #[serde(rename_all = "camelCase")]
    Tripped {
        /// The instant of the trip.
        since: Time,
        /// The condition that was met.
        cause: TripCause,
    },
    /// The lease probe fails, but the cluster has too few candidates for a fence.
    #[serde(rename_all = "camelCase")]
    TooFewCandidates {
        /// The configured minimum number of candidates.
        required: u32,
    },
    /// The leases are renewed.
    LeasesRenewed,
    /// The lease probe fails, but not yet often enough in a row.
    #[serde(rename_all = "camelCase")]
    Counting {
        /// Consecutive failures so far.
        failures: u32,
        /// Consecutive failures that trip.
        required: u32,
    },
    /// There is not enough evidence for a fence or for a release.
    #[serde(rename_all = "camelCase")]
    Undecided {
        /// The instant at which a fence was found that this probe did not make, that was made
        /// before a gap between lists, or that cannot be ruled out yet. It stays until the nodes
        /// have renewed.
        fence_found: Option<Time>,
    },
}

/// The properties of a rule that the rest of the code depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "a table of independent properties"
)]
pub struct RuleProperties {
    /// The action that follows.
    pub verdict: Verdict,
    /// The rule rests on evidence about the nodes, rather than on the lack of it.
    pub is_judgement: bool,
    /// The effect of the rule on the current trip.
    pub trip: TripPhase,
    /// The leases of this round were judged and may still trip, so that the trip instant matters.
    pub may_trip: bool,
    /// The lease probe failed, whether or not a fence follows.
    pub lease_probe_failed: bool,
    /// The next round comes after a second even if no fence is being made.
    pub is_urgent: bool,
    /// A trip that the cluster was in is over.
    pub ends_trip: bool,
    /// The lists are repeated soon, and ever more slowly while they fail.
    pub retries_list: bool,
    /// The external probe is repeated soon, because its failure is not explained yet.
    pub rechecks_external: bool,
    /// The instant of the first judgement, before which every round only observes.
    pub judging_from: Option<Time>,
}

/// The effect of a rule on the current trip, against which a fence is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TripPhase {
    /// There is no trip, or it is over.
    None,
    /// A trip began at this instant.
    Since(Time),
    /// A fence is wanted for another reason than leases: the trip begins with it.
    Open,
    /// Nothing is said: an earlier trip goes on.
    Unchanged,
}

/// The facts of one round that do not depend on leases.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoundFacts<'a> {
    pub(super) start: Time,
    /// The end of the initial delay.
    pub(super) judging_from: Time,
    pub(super) api_server: ProbeHealth,
    /// `None` where no external probe is configured.
    pub(super) external: Option<ProbeHealth>,
    pub(super) egress: EgressState,
    /// `None` if this round has no list, or none that can be used.
    pub(super) leases: Option<&'a LeaseCounts>,
    pub(super) list: ListState,
    pub(super) has_nodes: bool,
    /// The trip that the last usable list calls for, while that is fresh enough to act on.
    pub(super) standing_trip: Option<Rule>,
    /// No target is fenced.
    pub(super) is_unfenced: bool,
}

/// The state of the lease list in one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListState {
    Read,
    Failed,
    Stale,
    /// The leases could never be listed, because the credentials do not allow it.
    AlwaysDenied,
    /// Nothing was asked since the last decision, whose rule this is.
    Unasked(Rule),
}

/// The facts that the leases of one round gave.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeaseFacts {
    pub(super) candidates: u32,
    pub(super) min_candidates: u32,
    pub(super) result: ProbeResult,
    pub(super) health: ProbeHealth,
    /// Enough candidates are silent for a fence at last call.
    pub(super) is_silent: bool,
    /// Consecutive failures of the lease probe, and how many trip.
    pub(super) failures: u32,
    pub(super) failure_threshold: u32,
    pub(super) trip: TripState,
}

/// Returns the first rule that applies. `judge_leases` runs only if no earlier rule does: leases
/// that do not decide must not count.
pub(super) fn select(
    round: &RoundFacts<'_>,
    judge_leases: impl FnOnce(&LeaseCounts) -> LeaseFacts,
) -> Rule {
    if round.start < round.judging_from {
        return Rule::InitialDelay {
            until: round.judging_from,
        };
    }
    // The deadline does not wait for the next list. A fence that was begun on fresh evidence goes
    // on, and one that is due begins: while the API server is away, no kubelet renews, and
    // kube-controller-manager acts the moment it is back.
    if let (None, Some(trip)) = (round.leases, round.standing_trip) {
        return trip;
    }
    if let ListState::Unasked(rule) = round.list {
        return rule;
    }
    if round.leases.is_none() && round.api_server != ProbeHealth::Healthy {
        return Rule::ApiServerNotHealthy;
    }
    if round.external == Some(ProbeHealth::Unhealthy) {
        let doubt = match round.egress {
            EgressState::Works => return Rule::ExternalUnhealthy,
            EgressState::Unclear => Rule::EgressUnclear,
            EgressState::Suspected { failing, probed } => Rule::EgressSuspected { failing, probed },
        };
        let leases = round.leases.filter(|_| round.has_nodes);
        return external_in_doubt(doubt, leases.map(judge_leases));
    }
    let Some(leases) = round.leases else {
        return match (round.list, round.external) {
            (ListState::Stale, _) => Rule::StaleList,
            (ListState::AlwaysDenied, Some(ProbeHealth::Healthy)) => Rule::BothProbesHealthy,
            _ => Rule::ListFailed,
        };
    };
    if !round.has_nodes {
        return Rule::NoNodes;
    }
    let leases = judge_leases(leases);
    if leases.candidates == 0 {
        let renewed = matches!(leases.trip, TripState::Never | TripState::Over);
        return Rule::NoCandidates { renewed };
    }
    let external_is_fine = matches!(round.external, None | Some(ProbeHealth::Healthy));
    // Leases that prove nothing leave an earlier success in place, but they lift no fence.
    let may_release = leases.result != ProbeResult::Transient || round.is_unfenced;
    match (leases.health, leases.trip) {
        (ProbeHealth::Unhealthy, _) if leases.candidates < leases.min_candidates => {
            Rule::TooFewCandidates {
                required: leases.min_candidates,
            }
        }
        (ProbeHealth::Unhealthy, TripState::Tripped { since, cause }) => {
            Rule::Tripped { since, cause }
        }
        (ProbeHealth::Healthy, _) if external_is_fine && may_release => Rule::LeasesRenewed,
        (ProbeHealth::Undecided, _) if leases.failures > 0 => Rule::Counting {
            failures: leases.failures,
            required: leases.failure_threshold,
        },
        (_, TripState::Adopted { since }) => Rule::Undecided {
            fence_found: Some(since),
        },
        _ => Rule::Undecided { fence_found: None },
    }
}

/// Returns the rule for an external path that fails, possibly because of the prober's own egress.
/// The leases decide: without their renewals, the doubt protects nothing.
fn external_in_doubt(doubt: Rule, leases: Option<LeaseFacts>) -> Rule {
    let Some(leases) = leases else { return doubt };
    match leases.trip {
        TripState::Tripped { since, cause }
            if leases.health == ProbeHealth::Unhealthy
                && leases.candidates >= leases.min_candidates =>
        {
            Rule::Tripped { since, cause }
        }
        _ if leases.is_silent || leases.failures > 0 => Rule::ExternalUnhealthy,
        _ => doubt,
    }
}

impl Rule {
    /// Returns the properties of the rule.
    pub fn properties(self) -> RuleProperties {
        let hold = RuleProperties {
            verdict: Verdict::Hold,
            is_judgement: true,
            trip: TripPhase::None,
            may_trip: false,
            lease_probe_failed: false,
            is_urgent: false,
            ends_trip: false,
            retries_list: false,
            rechecks_external: false,
            judging_from: None,
        };
        let release = RuleProperties {
            verdict: Verdict::Release,
            ..hold
        };
        let fence = RuleProperties {
            verdict: Verdict::Fence,
            ..hold
        };
        let blind = RuleProperties {
            is_judgement: false,
            trip: TripPhase::Unchanged,
            ..hold
        };
        match self {
            Self::InitialDelay { until } => RuleProperties {
                is_judgement: false,
                judging_from: Some(until),
                ..hold
            },
            Self::ApiServerNotHealthy => blind,
            Self::ListFailed | Self::StaleList => RuleProperties {
                retries_list: true,
                ..blind
            },
            Self::ExternalUnhealthy => RuleProperties {
                trip: TripPhase::Open,
                ..fence
            },
            Self::EgressUnclear => RuleProperties {
                may_trip: true,
                rechecks_external: true,
                ..blind
            },
            Self::EgressSuspected { .. } => RuleProperties {
                may_trip: true,
                ..blind
            },
            Self::NoNodes => RuleProperties {
                ends_trip: true,
                ..release
            },
            Self::NoCandidates { renewed: true } | Self::BothProbesHealthy => release,
            Self::NoCandidates { renewed: false } => hold,
            Self::Tripped { since, .. } => RuleProperties {
                trip: TripPhase::Since(since),
                lease_probe_failed: true,
                ..fence
            },
            Self::TooFewCandidates { .. } => RuleProperties {
                lease_probe_failed: true,
                ..hold
            },
            Self::LeasesRenewed => RuleProperties {
                may_trip: true,
                ..release
            },
            Self::Counting { .. } => RuleProperties {
                lease_probe_failed: true,
                is_urgent: true,
                ..hold
            },
            Self::Undecided { .. } => RuleProperties {
                is_judgement: false,
                may_trip: true,
                ..hold
            },
        }
    }

    /// Returns the action that follows.
    pub fn verdict(self) -> Verdict {
        self.properties().verdict
    }

    /// Returns whether the leases tripped the probe.
    pub(super) fn is_trip(self) -> bool {
        matches!(self.properties().trip, TripPhase::Since(_))
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

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InitialDelay { until } => {
                write!(f, "initial delay, observing only until {until}")
            }
            Self::ApiServerNotHealthy => {
                f.write_str("the API server is down, so the controllers cannot act either")
            }
            Self::ExternalUnhealthy => {
                f.write_str("the API server cannot be reached over the external path")
            }
            Self::EgressUnclear => f.write_str(
                "the API server cannot be reached over the external path; waiting for the \
                 external probes of other clusters, because the fault may be the prober's own \
                 network",
            ),
            Self::EgressSuspected { failing, probed } => write!(
                f,
                "the prober's own egress is suspected: the external probes of {failing} of \
                 {probed} clusters fail while leases are renewed; until it works, only leases fence"
            ),
            Self::ListFailed => f.write_str("the leases could not be listed"),
            Self::StaleList => {
                f.write_str("the API server returned a stale list of leases, which proves nothing")
            }
            Self::BothProbesHealthy => {
                f.write_str("leases may not be listed, and the API server is healthy on both paths")
            }
            Self::NoNodes => f.write_str("the cluster has no nodes"),
            Self::NoCandidates { renewed: true } => {
                f.write_str("no node can be judged, so this cluster is not protected")
            }
            Self::NoCandidates { renewed: false } => f.write_str(
                "no node can be judged; the fence stays until all nodes have renewed their leases",
            ),
            Self::Tripped { since, cause } => match cause {
                TripCause::Expired => write!(f, "too many leases expired, since {since}"),
                TripCause::LastCall => {
                    write!(
                        f,
                        "deadline imminent and too many nodes silent, since {since}"
                    )
                }
            },
            Self::TooFewCandidates { required } => {
                write!(f, "leases expired, but a fence takes {required} candidates")
            }
            Self::LeasesRenewed => f.write_str("the leases are renewed"),
            Self::Counting { failures, required } => {
                write!(
                    f,
                    "too many leases expired, {failures} of {required} times in a row"
                )
            }
            Self::Undecided { fence_found: None } => f.write_str("not enough is known yet"),
            Self::Undecided {
                fence_found: Some(at),
            } => write!(
                f,
                "a fence was found at {at}; it stays until the nodes renew"
            ),
        }
    }
}
