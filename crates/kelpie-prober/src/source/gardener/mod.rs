//! Gardener: Clusters and Machines in the seed, kubeconfig Secrets in the control namespaces.

mod cluster;
mod eligibility;
mod machine;
mod shoot;

use std::future;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use futures_util::{FutureExt, StreamExt};
use kelpie_core::prober::NodeConventions;
use kelpie_kube::client::{ApiError, ClusterClient};
use kelpie_kube::objects::ObjectKind;
use kelpie_kube::rbac::{PolicyRule, WATCH_VERBS};
use kelpie_kube::resources::KubeconfigSecret;
use kelpie_kube::watch::{OptionalEvent, Selection, WatchEvent, WatchedResource};

use super::{
    ClusterKubeconfig, ClusterMachine, ClusterObject, ClusterSource, ProbePath, SecretDescription,
    SourceTexts, map_apply,
};
use cluster::Cluster;
use machine::Machine;

const CLUSTERS: (&str, &str) = ("extensions.gardener.cloud", "clusters");
const MACHINES: (&str, &str) = ("machine.sapcloud.io", "machines");
const SECRETS: (&str, &str) = ("", "secrets");

/// The clusters of a Gardener seed.
#[derive(Clone, Debug)]
pub(crate) struct GardenerSource {
    /// Only the Cluster of this name, and its control namespace.
    pub(super) only: Option<String>,
    pub(super) internal_secret: String,
    pub(super) external_secret: Option<String>,
}

impl GardenerSource {
    /// Returns the name of the kubeconfig Secrets of a path; `None` if it is not probed.
    fn secret(&self, path: ProbePath) -> Option<&str> {
        match path {
            ProbePath::Internal => Some(&self.internal_secret),
            ProbePath::External => self.external_secret.as_deref(),
        }
    }

    /// Every object of the control namespaces.
    fn in_control_namespaces(&self) -> Selection<'_> {
        Selection {
            namespace: self.only.as_deref(),
            ..Selection::default()
        }
    }
}

impl From<KubeconfigSecret> for ClusterKubeconfig {
    fn from(secret: KubeconfigSecret) -> Self {
        Self {
            // The control namespace has the name of its cluster.
            cluster: secret.namespace,
            text: secret.kubeconfig,
        }
    }
}

impl ClusterSource for GardenerSource {
    fn clusters(&self, seed: &ClusterClient) -> BoxStream<'static, WatchEvent<ClusterObject>> {
        let selection = Selection {
            name: self.only.as_deref(),
            ..Selection::default()
        };
        let events = seed.watch::<Cluster>(selection);
        let events = events.map(|event| map_apply(event, |cluster| cluster.0));
        events.boxed()
    }

    fn kubeconfigs(
        &self,
        seed: &ClusterClient,
        path: ProbePath,
    ) -> Option<BoxStream<'static, WatchEvent<ClusterKubeconfig>>> {
        let selection = Selection {
            name: Some(self.secret(path)?),
            ..self.in_control_namespaces()
        };
        let events = seed.watch::<KubeconfigSecret>(selection);
        let events = events.map(|event| match event {
            WatchEvent::Delete { namespace, .. } => WatchEvent::Delete {
                name: namespace.clone(),
                namespace,
            },
            other => map_apply(other, ClusterKubeconfig::from),
        });
        Some(events.boxed())
    }

    fn probes(&self, path: ProbePath) -> bool {
        self.secret(path).is_some()
    }

    fn has_machines(&self) -> bool {
        true
    }

    fn read_kubeconfig(
        &self,
        seed: &ClusterClient,
        cluster: &str,
        path: ProbePath,
    ) -> BoxFuture<'static, Result<Option<ClusterKubeconfig>, ApiError>> {
        let Some(secret) = self.secret(path) else {
            return future::ready(Ok(None)).boxed();
        };
        let list = seed.list_now::<KubeconfigSecret>(Selection {
            namespace: Some(cluster),
            name: Some(secret),
            ..Selection::default()
        });
        async {
            let secrets = list.await?;
            Ok(secrets.into_iter().next().map(ClusterKubeconfig::from))
        }
        .boxed()
    }

    fn machines(
        &self,
        seed: &ClusterClient,
    ) -> Option<BoxStream<'static, OptionalEvent<ClusterMachine>>> {
        let events = seed.watch_optional::<Machine>(self.in_control_namespaces());
        let events = events.map(|event| match event {
            OptionalEvent::KindAbsent => OptionalEvent::KindAbsent,
            OptionalEvent::KindPresent => OptionalEvent::KindPresent,
            OptionalEvent::Watch(event) => {
                OptionalEvent::Watch(map_apply(event, |machine| machine.0))
            }
        });
        Some(events.boxed())
    }

    fn kind(&self, _api_version: &str) -> ObjectKind {
        Cluster::KIND
    }

    fn policy_rules(&self) -> Vec<PolicyRule> {
        let only = self.only.as_deref();
        let reason = "which clusters there are, and their Shoots";
        let mut rules = vec![PolicyRule::new(WATCH_VERBS, CLUSTERS, reason).named(only)];
        let secret = |path| {
            let reason = "the kubeconfigs of the clusters; no other Secret is requested";
            let rule = PolicyRule::new(WATCH_VERBS, SECRETS, reason).in_namespace(only);
            Some(rule.named(Some(self.secret(path)?)))
        };
        rules.extend(secret(ProbePath::Internal));
        let external = secret(ProbePath::External);
        rules.extend(external.map(|rule| rule.optional("probes over the external path")));
        let reason = "excluding nodes whose machine failed or is terminating";
        let machines = PolicyRule::new(WATCH_VERBS, MACHINES, reason).in_namespace(only);
        rules.push(machines.optional("exclusions of nodes whose machine failed"));
        rules
    }

    fn node_conventions(&self) -> NodeConventions {
        NodeConventions {
            pool_label: "worker.gardener.cloud/pool",
            unmanaged_annotation: "node.machine.sapcloud.io/not-managed-by-mcm",
            unhealthy_conditions: &[
                "KernelDeadlock",
                "ReadonlyFilesystem",
                "DiskPressure",
                "NetworkUnavailable",
            ],
            update_condition: "InPlaceUpdate",
            update_reasons: &["ReadyForUpdate", "UpdateFailed"],
            nodes_may_lack_machine: false,
        }
    }

    fn texts(&self) -> SourceTexts {
        SourceTexts {
            clusters: "Clusters",
            deleted: "the Cluster was deleted",
            no_kubeconfig: "the cluster's namespace has no kubeconfig Secret with the configured \
                            name",
            no_such_cluster: "no such Cluster",
            list_command: "kubectl get clusters",
            rbac_file: "deploy/rbac/prober-seed.yaml",
        }
    }

    fn describe_secret(&self, cluster: &str, path: ProbePath) -> SecretDescription {
        let key = match path {
            ProbePath::Internal => "kubeConfigSecretName",
            ProbePath::External => "externalKubeConfigSecretName",
        };
        SecretDescription {
            namespace: cluster.to_owned(),
            name: self.secret(path).unwrap_or_default().to_owned(),
            remedy_if_missing: format!(
                "Gardener creates it when it reconciles the Shoot; check {key}"
            ),
        }
    }
}
