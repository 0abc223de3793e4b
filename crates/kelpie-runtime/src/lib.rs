//! The runtime of Kelpie's components: what a long-running process needs beside its own logic.
//!
//! [`watch`] is a channel whose receivers wake in FIFO order, [`supervise`](fn@supervise) restarts
//! a task that panicked, [`LastErrors`] reports an error that repeats once, [`MetricSet`] registers
//! the metrics of a component.

mod drain;
mod last_errors;
mod metric_set;
mod supervise;
pub mod watch;

pub use drain::drain;
pub use last_errors::LastErrors;
pub use metric_set::MetricSet;
pub use supervise::supervise;
