//! `kelpie weeder` on a real API server: services that fail and recover, and pods that crash
//! without them.
//!
//! `-- weeder --nocapture` also prints measurements.

mod deletion_rate;
mod dry_run_writes_nothing;
mod fixture;
mod gardener_rbac;
mod generated_rbac;
mod killed_and_terminated;
mod leader_election;
mod many_namespaces;
mod memory_without_window;
mod pod_deletion;
mod pod_selectors;
mod recovery_windows;
mod watch_interruptions;
