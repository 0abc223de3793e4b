//! The weeder: deletes crash-looping pods after the service they depend on has recovered.
//!
//! `kelpie-core` decides, this crate does the IO. `docs/ARCHITECTURE.md` shows the path of a
//! recovery through the modules.

mod deletion_limiter;
mod metrics;
mod namespace_worker;
mod permissions;
mod reporter;
mod service_watcher;
mod state_page;
mod watch_pool;
mod weeder;

pub use metrics::register_metrics;
pub use permissions::policy_rules;
pub use weeder::{Weeder, WeederOptions};
