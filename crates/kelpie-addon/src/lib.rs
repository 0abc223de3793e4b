//! The observability addon: its custom resource, its operator, its status on spoke and hub.
//!
//! An [`ObservabilityAddon`] is read from the API server; [`custom_resource_definition`] defines it
//! there. All processes write its status through a [`StatusWriter`], which enforces the rules of
//! [`kelpie_core::addon`].
//!
//! On the spoke, the [`AddonOperator`] deploys the collectors. The [`StatusController`] aggregates
//! their conditions and replicates the status to the hub (`hub_replication`). When the addon is
//! deleted on the hub, `finalizer` cleans up the spoke first. `addon_lease` tells the hub's agent
//! that the addon is alive. On the hub, the
//! [`HubStatusController`] shows each cluster's addon in its `ManagedClusterAddOn`. `permissions`
//! has the RBAC rules of each process.

mod addon;
mod addon_lease;
mod backoff;
mod cluster_queue;
mod confirmed_read;
mod context;
mod crd;
mod finalizer;
mod hub_client;
mod hub_replication;
mod hub_status;
mod metrics;
mod operator;
mod owned;
mod permissions;
mod spec;
mod status_controller;
mod status_writer;

pub use addon::{ADDON, AddonRef, ObservabilityAddon};
pub use context::AddonOptions;
pub use crd::custom_resource_definition;
pub use hub_client::{HubConnector, HubOptions};
pub use hub_status::HubStatusController;
pub use metrics::register_metrics;
pub use operator::{
    AddonOperator, Allowlist, AllowlistRule, OperatorOptions, Placement, PrometheusRef,
};
pub use permissions::{collector_rules, hub_rules, hub_status_rules, operator_rules, status_rules};
pub use spec::AddonSpec;
pub use status_controller::StatusController;
pub use status_writer::{StatusWriter, WriteError, WriteOutcome};
