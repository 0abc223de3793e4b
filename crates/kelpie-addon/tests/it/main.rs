//! The addon's controllers on simulated API servers, in virtual time.

// Test helpers may panic too.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

mod aggregation;
mod broken_inputs;
mod concurrent_writes;
mod crash_at_each_write;
mod fault_at_each_call;
mod fixture;
mod hop_queue;
mod hub_failures;
mod hub_replication;
mod managed_cluster_addon;
mod older_schema;
mod openshift;
mod operator;
mod owned_objects;
mod pod_readiness;
mod reconcile_triggers;
mod reports;
