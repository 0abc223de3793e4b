//! The runtime of Kelpie's components: what a long-running process needs beside its own logic.
//!
//! [`watch`] is a channel whose receivers wake in FIFO order, [`supervise`](fn@supervise) restarts
//! a task that panicked, [`LastErrors`] reports an error that repeats once.

mod drain;
mod last_errors;
mod supervise;
pub mod watch;

pub use drain::drain;
pub use last_errors::LastErrors;
pub use supervise::supervise;
