//! Cluster sources: the platforms whose clusters are watched.
//!
//! A source turns the resources of its platform into [`ClusterObject`]s, kubeconfigs and machines,
//! all by the id of their cluster. Nothing outside of a source's own module knows its kinds.

mod cluster_api;
mod gardener;
mod grace_period;
mod labels;
mod namespaced_id;
mod secrets;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use kelpie_config::{ProberConfig, SourceConfig};
use kelpie_core::prober::{MachinePhase, NodeConventions, PoolConditions};
use kelpie_kube::actuator::TargetScope;
use kelpie_kube::client::{ApiError, ClusterClient};
use kelpie_kube::events::ObjectRef;
use kelpie_kube::objects::ObjectKind;
use kelpie_kube::rbac::PolicyRule;
use kelpie_kube::watch::{OptionalEvent, WatchEvent};
use secrecy::SecretSlice;

pub use labels::ClusterLabels;

/// Returns the source of the clusters that a configuration is about.
pub fn cluster_source(config: &ProberConfig) -> Arc<dyn ClusterSource> {
    match &config.source {
        SourceConfig::Gardener {
            kubeconfig_secret,
            external_kubeconfig_secret,
        } => Arc::new(gardener::GardenerSource {
            only: config.namespace.clone(),
            internal_secret: kubeconfig_secret.clone(),
            external_secret: external_kubeconfig_secret.clone(),
        }),
        SourceConfig::ClusterApi => Arc::new(cluster_api::ClusterApiSource::new(config)),
        SourceConfig::Secrets(secrets) => Arc::new(secrets::SecretSource::new(config, secrets)),
    }
}

/// A platform whose clusters are watched. The streams never end.
pub trait ClusterSource: Send + Sync {
    /// Watches the clusters of the platform. A `Delete` event carries the id of the cluster as the
    /// name.
    fn clusters(&self, seed: &ClusterClient) -> BoxStream<'static, WatchEvent<ClusterObject>>;

    /// Watches the kubeconfigs of the clusters. A `Delete` event carries the id of the cluster as
    /// the name.     /// Returns `None` if the path is not probed.
    fn kubeconfigs(
        &self,
        seed: &ClusterClient,
        path: ProbePath,
    ) -> Option<BoxStream<'static, WatchEvent<ClusterKubeconfig>>>;

    /// Returns whether the clusters are probed over this path.
    fn probes(&self, path: ProbePath) -> bool;

    /// Returns whether the platform has machines.
    fn has_machines(&self) -> bool;

    /// Reads the kubeconfig of one cluster, without a cache and without a limit on requests.
    /// Returns `None` if there is no Secret, or if the path is not probed.
    fn read_kubeconfig(
        &self,
        seed: &ClusterClient,
        cluster: &str,
        path: ProbePath,
    ) -> BoxFuture<'static, Result<Option<ClusterKubeconfig>, ApiError>>;

    /// Watches the machines of the clusters. Returns `None` if the platform has none. A `Delete`
    /// event carries the id of the cluster as the namespace.
    fn machines(
        &self,
        seed: &ClusterClient,
    ) -> Option<BoxStream<'static, OptionalEvent<ClusterMachine>>>;

    /// Returns the kind of the objects that stand for clusters, in this version if there are
    /// several.
    fn kind(&self, api_version: &str) -> ObjectKind;

    /// Returns the permissions that the watches need.
    fn policy_rules(&self) -> Vec<PolicyRule>;

    /// Returns how the platform marks its nodes.
    fn node_conventions(&self) -> NodeConventions;

    /// Returns the words in which messages speak of the platform's objects.
    fn texts(&self) -> SourceTexts;

    /// Describes the kubeconfig Secret of a cluster, for messages about it.
    fn describe_secret(&self, cluster: &str, path: ProbePath) -> SecretDescription;
}

/// The words in which messages speak of a platform's objects.
#[derive(Clone, Copy, Debug)]
pub struct SourceTexts {
    /// The objects that stand for clusters, in the plural.
    pub clusters: &'static str,
    /// The reason of the end of a probe whose cluster's object is gone.
    pub deleted: &'static str,
    /// The problem of a cluster without a kubeconfig Secret.
    pub no_kubeconfig: &'static str,
    /// The finding about a cluster that does not exist.
    pub no_such_cluster: &'static str,
    /// The command that lists the clusters.
    pub list_command: &'static str,
    /// The file that grants the permissions on the seed.
    pub rbac_file: &'static str,
}

/// The kubeconfig Secret of a cluster in messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretDescription {
    /// The namespace of the Secret.
    pub namespace: String,
    /// The name of the Secret.
    pub name: String,
    /// What to do if it does not exist.
    pub remedy_if_missing: String,
}

/// A network path to a cluster's API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbePath {
    /// From inside the seed.
    Internal,
    /// The path that kubelets use.
    External,
}

/// The identity of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterIdentity {
    /// The name of the cluster in logs, metrics, Events and on the state page. It is unique.
    pub id: Arc<str>,
    /// The namespace of the cluster's control plane objects, among them the targets.
    pub namespace: Arc<str>,
    /// The object that Events about the cluster refer to. Its namespace is empty if it is
    /// cluster-scoped.
    pub object: ObjectRef,
}

impl ClusterIdentity {
    /// Returns the place of the cluster's targets.
    pub fn target_scope(&self) -> TargetScope {
        TargetScope {
            namespace: Arc::clone(&self.namespace),
            cluster: self.object.name.as_str().into(),
        }
    }
}

/// A cluster, or the reason why its object cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterObject {
    /// The identity of the cluster.
    pub identity: ClusterIdentity,
    /// The cluster, or the reason why its object cannot be read.
    pub spec: Result<ClusterSpec, String>,
    /// The labels of the object, by which shards select it.
    pub labels: ClusterLabels,
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
    /// The id of the cluster.
    pub cluster: String,
    /// The text, or the reason why there is none.
    pub text: Result<SecretSlice<u8>, String>,
}

/// A machine of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterMachine {
    /// The id of the cluster.
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

/// Conditions that exclude a node on platforms whose worker pools name none of their own.
const UNHEALTHY_CONDITIONS: &[&str] = &["DiskPressure", "NetworkUnavailable"];

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
