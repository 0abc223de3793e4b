//! The prober's decisions: whether a cluster's API server is cut off from the kubelets, and the
//! fence that follows from it.

mod budget;
mod delays;
mod egress;
pub mod fence;
pub mod guard;
mod leases;
mod nodes;
pub mod overview;
mod probe_status;
pub mod replay;
mod settings;
pub mod shard;
mod target;
mod verdict;

pub use budget::Budget;
pub use delays::{Delays, RecentWorst};
pub use egress::{EgressState, EgressTracker};
pub use leases::{
    AcceptedList, Lease, LeaseCounts, LeaseRole, LeaseStatus, LeaseTracker, ListSpan, TripCause,
};
pub use nodes::{
    Exclusion, Exclusions, MachinePhase, Machines, Node, NodeCondition, NodeConventions, NodeRules,
    NodeSet, NodeSetBuilder, PoolConditions, ZONE_LABEL, exclusion,
};
pub use probe_status::{ProbeHealth, ProbeResult, ProbeStatus};
pub use settings::{ProbeSettings, Thresholds};
pub use target::{ActuatorKind, FlowRule, ResourceRef, Setting, Target};
pub use verdict::{
    Decision, Evaluator, FenceState, ListResult, Observation, Reasons, Rule, RuleProperties,
    Throttle, TripPhase, Verdict, Wake, WakeReason,
};
