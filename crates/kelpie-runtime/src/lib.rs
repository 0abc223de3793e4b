//! The runtime of Kelpie's components: what a long-running process needs beside its own logic.

mod last_errors;
mod metric_set;
mod supervise;
pub mod watch;

pub use last_errors::LastErrors;
pub use metric_set::MetricSet;
pub use supervise::{drain, supervise};
