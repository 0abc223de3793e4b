//! The observability addon on two real API servers: a spoke and its hub.

mod addon_lifecycle;
mod collector_pod_not_ready;
mod collector_reports_forwarding;
mod concurrent_status_writes;
mod crd_validation;
mod deletion_removes_owned_objects;
mod fixture;
mod generated_rbac;
mod hub_failures;
mod hub_replication;
mod killed_at_each_write;
mod managed_cluster_addon_status;
mod operator_deployments;
mod spoke_example;
mod status_aggregation;
mod status_no_redundant_writes;
mod status_reports;
