//! `kelpie etcd` with real etcd members of every release.
//!
//! `-- etcd --nocapture` also prints the measurements, next to those of etcd's own endpoints.
//! `-- --ignored` runs the long tests.

mod alarms;
mod authentication;
mod booting_member;
mod check_command;
mod client_certificates;
mod defragmentation;
mod fixture;
mod grpc_health;
mod hanging_disk;
mod harness;
mod http_contract;
mod listeners;
mod lost_quorum;
mod malformed_requests;
mod membership;
mod misconfiguration;
mod probe_cost;
mod resource_usage;
mod stalled_write;
mod stopped_process;
mod stuck_raft_loop;
mod stuck_watch;
mod upstream_parity;
mod upstream_table;
