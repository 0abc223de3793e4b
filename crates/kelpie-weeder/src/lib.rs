//! The weeder: a shell round the decisions of kelpie-core.
//!
//! Reading order, the way of a recovery: the `lookout` follows the slices of the configured services
//! and tells the task of a namespace when one comes back. That task, a `plot`, owns the windows of its
//! namespace: it watches the dependants while one is open, and deletes those in CrashLoopBackOff, each
//! when the `pacer` lets it. The `scribe` tells people: log, `metrics`, Events, and the `board` behind
//! `/debug/state`. What all of that must be allowed to do stands in `permissions`.

mod board;
mod exhibit;
mod lookout;
mod metrics;
mod pacer;
mod permissions;
mod plot;
mod scribe;
mod weeder;

pub use board::{Last, ServiceState, State};
pub use exhibit::Exhibit;
pub use permissions::needs;
pub use weeder::{Options, Weeder};
