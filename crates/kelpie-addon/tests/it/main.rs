//! The addon's controllers on simulated API servers, in virtual time.

// Test helpers may panic too.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

mod aggregation;
mod concurrent_writes;
mod crash_at_each_write;
mod fixture;
mod hub_failures;
mod hub_replication;
mod managed_cluster_addon;
mod operator;
mod owned_objects;
mod pod_readiness;
mod reports;
