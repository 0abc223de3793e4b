//! The weeder: deletes crash-looping pods after the service they depend on has recovered.
//!
//! `kelpie-core` decides, this crate does the IO. The path of a recovery through the modules:
//!
//! - The `service_watcher` follows the EndpointSlices of the configured services. When a service
//!   recovers, it sends a message to the task of the service's namespace.
//! - This task, a `namespace_worker`, owns the windows of its namespace. While a window is open, it
//!   watches the dependants and deletes those in CrashLoopBackOff, at the pace of the
//!   `deletion_limiter`.
//! - The `reporter` publishes the results: log, `metrics`, Events, and the `state_page` behind
//!   `/debug/state`.
//!
//! `permissions` lists the RBAC rules that all of this needs.

mod deletion_limiter;
mod metrics;
mod namespace_worker;
mod permissions;
mod reporter;
mod service_watcher;
mod state_page;
mod weeder;

pub use metrics::register_metrics;
pub use permissions::policy_rules;
pub use weeder::{Weeder, WeederOptions};
