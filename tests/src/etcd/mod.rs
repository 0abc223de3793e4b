//! Real etcd members and clusters, their certificates, and their JSON API.

mod certificates;
mod cluster;
mod failpoints;
mod json_api;
mod member;
mod setup;

pub use certificates::CertificateFiles;
pub use cluster::EtcdCluster;
pub use member::EtcdMember;
pub(crate) use member::series_value;
pub use setup::EtcdSetup;

/// The etcd releases that the tests run, as the names of their servers.
pub const ETCD_RELEASES: [&str; 4] = ["etcd-3.4", "etcd-3.5", "etcd-3.6", "etcd-3.7"];
