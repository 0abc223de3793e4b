//! Clients for Kubernetes API servers: the seed, which is trusted, and tenant clusters, which are
//! not.
//!
//! [`client::ClusterClient`] is the client for an API server that a component acts on. [`objects`]
//! reads and writes any of its objects, [`watch`] keeps a typed set of them up to date,
//! [`actuator`] fences and restores controllers, and [`leader`] elects the [`replica`] that may
//! act.
//!
//! A tenant's [`kubeconfig`] is untrusted input. It gives a
//! [`TenantConfig`](kubeconfig::TenantConfig), with which a [`tenant`] client sends requests over
//! few connections, with a deadline and without retries. [`lists`] decodes the responses.

pub mod actuator;
mod anchored_clock;
pub mod client;
pub mod events;
pub mod guard;
pub mod kubeconfig;
pub mod leader;
pub mod leader_leases;
pub mod lease_records;
pub mod lists;
pub mod objects;
pub mod projection;
pub mod rbac;
pub mod replica;
pub mod resources;
pub mod shard_leases;
mod system_clock;
pub mod tenant;
pub mod watch;

pub use anchored_clock::AnchoredClock;
pub use system_clock::SystemClock;
