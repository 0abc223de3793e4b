//! Real etcd: a member, a cluster of them, their keys, and what is asked of them by JSON.

mod cluster;
mod gateway;
mod keys;
mod member;
mod setup;

pub use cluster::Cluster;
pub use keys::Keys;
pub use member::Etcd;
pub(crate) use member::sample;
pub use setup::Setup;

/// Every line of etcd the tests run, as the names of its servers.
pub const LINES: [&str; 4] = ["etcd-3.4", "etcd-3.5", "etcd-3.6", "etcd-3.7"];
