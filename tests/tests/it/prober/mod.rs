//! `kelpie prober` on real API servers: a seed, its shoots, and kubelets that can be cut off.
//!
//! All times are scaled down together (`Timings`). `-- prober --nocapture` also prints
//! measurements.

mod candidate_nodes;
mod cluster_eligibility;
mod cluster_sources;
mod dry_run_writes_nothing;
mod existing_fence_at_start;
mod explain_during_fence;
mod external_probe;
mod fence_cancelled_midway;
mod fence_denied_by_rbac;
mod fence_latency;
mod fixture;
mod gardener_rbac;
mod guard_against_controller_manager;
mod guard_commands;
mod handover_with_dependency_watchdog;
mod health_checks_paused;
mod hostile_api_servers;
mod killed_at_each_request;
mod kubeconfig_secret_rotation;
mod kubectl_plugin;
mod leader_election;
mod leader_failover;
mod operate_guide_examples;
mod outage_of_all_clusters;
mod partition_fenced_and_restored;
mod pause_switch;
mod race_against_controller_manager;
mod race_with_second_fault;
mod scale_targets;
mod seed_fault_diagnoses;
mod seed_refuses_requests;
mod seed_request_backlog;
mod shards;
mod soak;
mod startup_failures;
mod tenant_connections;
mod webhook_outage;
mod wrong_node_clocks;
