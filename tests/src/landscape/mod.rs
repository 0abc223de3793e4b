//! A Gardener landscape: a seed cluster with the control planes of its shoot clusters, kubelets
//! that renew leases, pods that follow their Deployments, and ways to break all of it.
//!
//! Read in this order:
//!
//! - [`SeedCluster`] is an API server with Gardener's custom resources. [`ShootCluster`] is a
//!   control namespace in it, with the Cluster, the kubeconfig Secret, the Machines and the
//!   Deployments to fence. [`Kubelets`] renew the leases of the nodes of an API server until they
//!   are cut off.
//! - [`FakeDeploymentController`] makes replicas ready. [`TargetTimeline`] records each change of
//!   the Deployments to fence. [`Canary`] measures the speed of the machine.
//! - [`TcpProxy`] breaks connections. [`Interceptor`] sees each request and decides about it.
//!   [`FakeApiServer`] responds as no API server would.
//! - [`ProberProcess`] runs `kelpie prober` with a [`ProberConfigFile`], and its durations follow
//!   from [`Timings`]. [`AnyProber`] runs any prober, to compare them. [`DwdWriter`] writes what
//!   dependency-watchdog writes.
//! - [`WeederNamespace`] holds services and pods that crash without them. [`WeederProcess`] runs
//!   `kelpie weeder`.

mod any_prober;
mod canary;
mod command_line;
mod deployment_controller;
pub(crate) mod deployment_watch;
mod dwd_writer;
mod fake_api_server;
mod interceptor;
mod kubelets;
mod prober;
mod prober_config_file;
mod rbac;
pub mod rest;
mod seed_cluster;
mod shoot_cluster;
mod target_timeline;
mod tcp_proxy;
mod timings;
pub(crate) mod wall_clock;
mod weeder;
pub mod weeder_namespace;

pub use any_prober::{AnyProber, gardener_args};
pub use canary::Canary;
pub(crate) use command_line::ALLOW_LOCAL_CLUSTERS;
pub use deployment_controller::FakeDeploymentController;
pub use dwd_writer::DwdWriter;
pub use fake_api_server::{FakeApiServer, FakeResponse};
pub use interceptor::{InterceptAction, InterceptedRequest, Interceptor};
pub use kubelets::{Kubelets, LeaseRenewal};
pub use prober::ProberProcess;
pub use prober_config_file::{ProberConfigFile, ScaleConfig, TargetConfig};
pub use rbac::{
    create_tenant_token, create_tenant_user, grant_gardener_prober_role,
    grant_gardener_weeder_role, grant_guard_rules,
};
pub use seed_cluster::SeedCluster;
pub use shoot_cluster::{LEASE_RECORDS, MARKER, RECORD, ShootCluster, TargetView};
pub use target_timeline::{TargetChange, TargetTimeline};
pub use tcp_proxy::{ProxyFault, TcpProxy};
pub use timings::Timings;
pub use wall_clock::now as wall_clock_now;
pub use weeder::WeederProcess;
pub use weeder_namespace::{TestPod, WeederNamespace};
