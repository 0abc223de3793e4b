//! What the weeder decides: which services have come back, and which of their dependants are deleted.
//!
//! Reading order: [`Services`] is told of slices and says when a service recovers; that opens a window
//! in the [`Windows`] of its namespace, which are told of [`Pod`]s and hand out [`Deletion`]s, one by
//! one, until the window is over or the owner's cap is reached. Who is passed over, and why, is a
//! [`Skip`].

mod pod;
mod service;
mod tally;
mod window;
mod windows;

pub use pod::{Crash, Owner, Pod};
pub use service::{Readiness, ServiceRef, Services, Slice, Swing};
pub use window::Sum;
pub use windows::{Cause, Deletion, Outcome, Rules, Skip, WindowChange, Windows};
