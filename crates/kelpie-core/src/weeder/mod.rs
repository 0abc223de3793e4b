//! The weeder's decisions: which services have recovered, and which of their dependants are
//! deleted.
//!
//! [`Services`] follows EndpointSlices and reports the recovery of a service. A recovery opens a
//! window in the [`Windows`] of its namespace. These take in [`Pod`]s and return [`Deletion`]s one
//! by one, until the window ends or the cap of the owner is reached. A [`Skip`] reports a pod that
//! is not deleted, and the reason.

mod deletion_budget;
mod pod;
mod service;
mod window;
mod windows;

pub use pod::{Crash, Owner, Pod};
pub use service::{EndpointSlice, ReadinessRule, ServiceEvent, ServiceRef, Services};
pub use window::WindowSummary;
pub use windows::{Deletion, DeletionResult, Skip, SkipReason, WindowChange, WindowRules, Windows};
