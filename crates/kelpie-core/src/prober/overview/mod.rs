//! What an operator is shown of a fleet: the condition of each cluster, a sentence about it, what
//! to do, its nodes and its history.
//!
//! The values are serialized by the prober and read by its clients, so that the state page, the
//! dashboard and the command line never disagree. Rendering is separate from deciding: nothing
//! here flows back into a decision.

mod condition;
mod fleet;
mod fleet_day;
mod guidance;
mod history;
mod last_fence;
mod node_list;
mod shared_cause;
mod summary;

pub use condition::{ClusterCondition, ClusterFacts, Severity};
pub use fleet::{ClusterDetail, FleetState, FleetSummary, ReplicaInfo, ReplicaPart};
pub use fleet_day::{DayBucket, FleetDay};
pub use guidance::{Advice, Guidance};
pub use history::{History, Transition, TransitionKind};
pub use last_fence::LastFence;
pub use node_list::{MachineState, NodeList, NodeRow, NodeState};
pub use shared_cause::{CauseKind, ClusterOrigin, SharedCause, shared_causes, silent_zones};
pub use summary::{ClusterSummary, NodeCounts, SummaryContext};
