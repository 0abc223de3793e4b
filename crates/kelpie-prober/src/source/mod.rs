//! Cluster sources: the platforms whose clusters are watched.
//!
//! A source turns the resources of its platform into [`ClusterObject`]s, kubeconfigs and machines,
//! all by the name of their cluster. Nothing outside of a source's own module knows its kinds.

mod gardener;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use kelpie_config::ProberConfig;
use kelpie_core::prober::{MachinePhase, NodeConventions, PoolConditions};
use kelpie_kube::client::{ApiError, ClusterClient};
use kelpie_kube::events::ObjectRef;
use kelpie_kube::rbac::PolicyRule;
use kelpie_kube::watch::{OptionalEvent, WatchEvent};
use secrecy::SecretSlice;

/// Returns the source of the clusters that a configuration is about.
pub fn cluster_source(config: &ProberConfig) -> Arc<dyn ClusterSource> {
    Arc::new(gardener::GardenerSource::new(config))
}

/// A platform whose clusters are watched. The streams never end.
pub trait ClusterSource: Send + Sync {
    /// Watches the clusters of the platform.
    fn clusters(&self, seed: &ClusterClient) -> BoxStream<'static, WatchEvent<ClusterObject>>;

    /// Watches the kubeconfigs of the clusters. A `Delete` event carries the name of the cluster.
    /// Returns `None` if the path is not probed.
    fn kubeconfigs(
        &self,
        seed: &ClusterClient,
        path: ProbePath,
    ) -> Option<BoxStream<'static, WatchEvent<ClusterKubeconfig>>>;

    /// Reads the kubeconfig of one cluster, without a cache and without a limit on requests.
    /// Returns `None` if there is no Secret, or if the path is not probed.
    fn read_kubeconfig(
        &self,
        seed: &ClusterClient,
        cluster: &str,
        path: ProbePath,
    ) -> BoxFuture<'static, Result<Option<ClusterKubeconfig>, ApiError>>;

    /// Watches the machines of the clusters. A `Delete` event carries the name of the cluster as
    /// the namespace.
    fn machines(&self, seed: &ClusterClient) -> BoxStream<'static, OptionalEvent<ClusterMachine>>;

    /// Returns the permissions that the watches need.
    fn policy_rules(&self) -> Vec<PolicyRule>;

    /// Returns the object that Events about a cluster refer to, without its namespace.
    fn cluster_object(&self, cluster: &str) -> ObjectRef;

    /// Returns how the platform marks its nodes.
    fn node_conventions(&self) -> NodeConventions;
}

/// A network path to a cluster's API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbePath {
    /// From inside the seed.
    Internal,
    /// The path that kubelets use.
    External,
}

/// A cluster, or the reason why its object cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterObject {
    /// The name of the cluster and of its control namespace.
    pub name: String,
    /// The cluster, or the reason why its object cannot be read.
    pub spec: Result<ClusterSpec, String>,
}

/// A cluster as its platform describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterSpec {
    /// Eligible clusters get a probe.
    pub eligibility: Eligibility,
    /// The cluster's own grace period, which wins over the configured one.
    pub grace: Option<Duration>,
    /// Unhealthy conditions of the worker pools that name their own.
    pub pools: PoolConditions,
}

/// The eligibility of a cluster for a probe, with the reason where it gets none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eligibility {
    /// A probe is started; a running one goes on.
    Run,
    /// No probe is started; a running one goes on.
    NotYet(&'static str),
    /// No probe is started; a running one is removed.
    Remove(&'static str),
}

/// A kubeconfig of a cluster, or the reason why its Secret holds none.
#[derive(Clone, Debug)]
pub struct ClusterKubeconfig {
    /// The name of the cluster.
    pub cluster: String,
    /// The text, or the reason why there is none.
    pub text: Result<SecretSlice<u8>, &'static str>,
}

/// A machine of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterMachine {
    /// The name of the cluster.
    pub cluster: String,
    /// The name of the machine.
    pub name: String,
    /// The node that the machine became; `None` before it joined.
    pub node: Option<Arc<str>>,
    /// The phase of the machine.
    pub phase: MachinePhase,
}

impl Eligibility {
    /// Returns the reason why there is no probe.
    pub fn reason(self) -> Option<&'static str> {
        match self {
            Self::Run => None,
            Self::NotYet(reason) | Self::Remove(reason) => Some(reason),
        }
    }
}

/// Converts the object of an `Apply` event.
fn map_apply<T, U>(event: WatchEvent<T>, convert: impl FnOnce(T) -> U) -> WatchEvent<U> {
    match event {
        WatchEvent::Init => WatchEvent::Init,
        WatchEvent::Apply(object) => WatchEvent::Apply(convert(object)),
        WatchEvent::Delete { namespace, name } => WatchEvent::Delete { namespace, name },
        WatchEvent::InitDone => WatchEvent::InitDone,
        WatchEvent::Error(error) => WatchEvent::Error(error),
    }
}
