//! The observability addon: its definition, its operator, its status on spoke and hub.
//!
//! Reading order: an [`Addon`] is what was read of the object that `definition` defines. Everybody
//! writes its status through a [`StatusWriter`], which holds them to the rules of
//! [`kelpie_core::addon`]; a collector speaks through a [`Reporter`].
//! The [`StatusController`] aggregates what they say and replicates it to the `hub`; when the hub
//! deletes the addon, `farewell` cleans the spoke first. The [`Operator`] deploys the
//! collectors. On the hub, the [`Hop`] shows every cluster's addon in the hub's own kind. What
//! each of them must be allowed to do stands in `permissions`.

mod addon;
mod backoff;
mod controller;
mod definition;
mod farewell;
mod hop;
mod hub;
mod link;
mod made;
mod metrics;
mod operator;
mod permissions;
mod post;
mod reporter;
mod spec;
mod writer;

pub use addon::{ADDON, Addon, AddonRef};
pub use controller::StatusController;
pub use definition::definition;
pub use hop::Hop;
pub use link::HubOptions;
pub use metrics::exhibit;
pub use operator::{Allowlist, Operator, OperatorOptions, Rule, Source};
pub use permissions::{collector_needs, hop_needs, hub_needs, operator_needs, status_needs};
pub use post::Options;
pub use reporter::Reporter;
pub use spec::Spec;
pub use writer::{StatusWriter, WriteError, Written};
