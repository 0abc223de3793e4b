//! From the observation of one round to the decision about a cluster.

mod decision;
mod evaluator;
mod external_path;
mod observation;
mod rule;
mod schedule;
mod trip;

pub use decision::{Decision, Reasons};
pub use evaluator::Evaluator;
pub use observation::{FenceState, ListResult, Observation};
pub use rule::{Rule, RuleProperties, TripPhase, Verdict};
pub use schedule::{Throttle, Wake, WakeReason};
