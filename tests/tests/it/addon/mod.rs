//! The observability addon on two real API servers: a spoke and its hub. Its behaviour is tested on
//! simulated ones, in `crates/kelpie-addon/tests`.

mod addon_lifecycle;
mod collector_reports_forwarding;
mod crd_validation;
mod deletion_removes_owned_objects;
mod fixture;
mod generated_rbac;
mod hub_replication;
mod managed_cluster_addon_status;
mod openshift;
mod operator_deployments;
mod spoke_example;
mod status_no_redundant_writes;
mod status_reports;
