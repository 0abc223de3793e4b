//! The prober: observes clusters through their API servers, and fences their controllers when the
//! nodes lose contact.
//!
//! `kelpie-core` decides, this crate does the IO. The path of a cluster through the modules:
//!
//! - [`source`] watches the seed. The `registry` turns the events into actions: which clusters get
//!   a probe, and with which inputs. The `manager` runs one task for each probe.
//! - A `probe` owns all state of its cluster. Its `observer` makes an observation in each round,
//!   the evaluator of `kelpie-core` decides, and the `fence_executor` carries the decision out. The
//!   fencing calls of all clusters go through one `deadline_queue`, the most urgent first.
//! - The `reporter` publishes the results: log, `metrics`, Events, and the `state_page` behind
//!   `/debug/state`.
//!
//! `permissions` lists the RBAC rules that all of this needs.

mod deadline_queue;
mod fence_executor;
mod inputs;
mod manager;
mod metrics;
mod observer;
mod permissions;
mod probe;
mod prober;
mod registry;
mod reporter;
pub mod source;
mod state_page;
mod subsystem;

pub use metrics::register_metrics;
pub use permissions::{seed_rules, shoot_rules};
pub use prober::{Prober, ProberOptions};
pub use state_page::{ClusterState, ClusterView, LastFlow, ProberState, TargetState, Unprobed};
