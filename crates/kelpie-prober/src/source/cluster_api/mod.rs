//! Cluster API: Clusters, Machines and kubeconfig Secrets in the management cluster.

mod cluster;
mod kubeconfig;
mod machine;

use std::future;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use futures_util::{FutureExt, StreamExt};
use kelpie_config::ProberConfig;
use kelpie_core::prober::NodeConventions;
use kelpie_kube::client::{ApiError, ClusterClient};
use kelpie_kube::objects::ObjectKind;
use kelpie_kube::rbac::{PolicyRule, WATCH_VERBS};
use kelpie_kube::watch::{OptionalEvent, Selection, WatchEvent, WatchedResource};

use super::{
    ClusterKubeconfig, ClusterMachine, ClusterObject, ClusterSource, ProbePath, SecretDescription,
    SourceTexts, UNHEALTHY_CONDITIONS, grace_period, map_apply, namespaced_id,
};
use cluster::Cluster;
use kubeconfig::KubeconfigSecret;
use machine::Machine;

/// The label with the name of the Cluster, on everything that belongs to one.
const CLUSTER_LABEL: &str = "cluster.x-k8s.io/cluster-name";

/// The clusters of a Cluster API management cluster.
#[derive(Clone, Debug)]
pub(crate) struct ClusterApiSource {
    /// Only the Clusters of this namespace.
    namespace: Option<String>,
    grace_follows_version: bool,
}

impl ClusterApiSource {
    pub(crate) fn new(config: &ProberConfig) -> Self {
        Self {
            namespace: config.namespace.clone(),
            grace_follows_version: config.grace_follows_version,
        }
    }

    fn everything(&self) -> Selection<'_> {
        Selection {
            namespace: self.namespace.as_deref(),
            ..Selection::default()
        }
    }
}

fn object(cluster: Cluster, grace_follows_version: bool) -> ClusterObject {
    let Cluster {
        mut object,
        version,
    } = cluster;
    if let (Ok(spec), Some(version), true) = (&mut object.spec, version, grace_follows_version) {
        spec.grace = spec.grace.or_else(|| grace_period::of_version(&version));
    }
    object
}

/// Keeps the events about kubeconfigs: a Cluster has Secrets with certificates too.
async fn kubeconfig_event(
    event: WatchEvent<KubeconfigSecret>,
) -> Option<WatchEvent<ClusterKubeconfig>> {
    match event {
        WatchEvent::Apply(KubeconfigSecret(kubeconfig)) => kubeconfig.map(WatchEvent::Apply),
        WatchEvent::Delete { namespace, name } => {
            let cluster = kubeconfig::cluster_of(&name)?;
            Some(WatchEvent::Delete {
                name: namespaced_id::id(&namespace, cluster),
                namespace,
            })
        }
        WatchEvent::Init => Some(WatchEvent::Init),
        WatchEvent::InitDone => Some(WatchEvent::InitDone),
        WatchEvent::Error(error) => Some(WatchEvent::Error(error)),
    }
}

impl ClusterSource for ClusterApiSource {
    fn clusters(&self, seed: &ClusterClient) -> BoxStream<'static, WatchEvent<ClusterObject>> {
        let grace_follows_version = self.grace_follows_version;
        let events = seed.watch::<Cluster>(self.everything());
        let events = events.map(move |event| {
            let event = map_apply(event, |cluster| object(cluster, grace_follows_version));
            namespaced_id::with_deleted_id(event)
        });
        events.boxed()
    }

    fn kubeconfigs(
        &self,
        seed: &ClusterClient,
        path: ProbePath,
    ) -> Option<BoxStream<'static, WatchEvent<ClusterKubeconfig>>> {
        let selection = Selection {
            labels: Some(CLUSTER_LABEL),
            ..self.everything()
        };
        let events = || seed.watch::<KubeconfigSecret>(selection);
        let is_probed = self.probes(path);
        is_probed.then(|| events().filter_map(kubeconfig_event).boxed())
    }

    fn probes(&self, path: ProbePath) -> bool {
        path == ProbePath::Internal
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
        if !self.probes(path) {
            return future::ready(Ok(None)).boxed();
        }
        let (namespace, name) = namespaced_id::parts(cluster);
        let list = seed.list_now::<KubeconfigSecret>(Selection {
            namespace: Some(namespace),
            name: Some(&kubeconfig::secret_of(name)),
            ..Selection::default()
        });
        async {
            let secrets = list.await?;
            Ok(secrets.into_iter().find_map(|secret| secret.0))
        }
        .boxed()
    }

    fn machines(
        &self,
        seed: &ClusterClient,
    ) -> Option<BoxStream<'static, OptionalEvent<ClusterMachine>>> {
        let events = seed.watch_optional::<Machine>(self.everything());
        Some(machine::by_cluster(events).boxed())
    }

    fn kind(&self, api_version: &str) -> ObjectKind {
        let mut older = Cluster::OLDER.iter();
        let older = older.find(|kind| kind.api_version() == api_version);
        older.copied().unwrap_or(Cluster::KIND)
    }

    fn policy_rules(&self) -> Vec<PolicyRule> {
        const GROUP: &str = "cluster.x-k8s.io";
        let rule = |resource, reason| {
            PolicyRule::new(WATCH_VERBS, resource, reason).in_namespace(self.namespace.as_deref())
        };
        let clusters = rule((GROUP, "clusters"), "which clusters there are");
        let reason = "the kubeconfigs of the clusters; RBAC cannot restrict Secrets by label, and \
                      only those of a Cluster are requested";
        let secrets = rule(("", "secrets"), reason);
        let reason = "excluding nodes whose machine failed or is being deleted";
        let machines = rule((GROUP, "machines"), reason);
        let missing = "exclusions of nodes whose machine failed";
        vec![clusters, secrets, machines.optional(missing)]
    }

    fn node_conventions(&self) -> NodeConventions {
        NodeConventions {
            unhealthy_conditions: UNHEALTHY_CONDITIONS,
            // The nodes of a MachinePool have none.
            nodes_may_lack_machine: true,
            ..NodeConventions::default()
        }
    }

    fn texts(&self) -> SourceTexts {
        SourceTexts {
            clusters: "Clusters",
            deleted: "the Cluster was deleted",
            no_kubeconfig: "the Cluster has no kubeconfig Secret",
            no_such_cluster: "no such Cluster",
            list_command: "kubectl get clusters.cluster.x-k8s.io --all-namespaces",
            rbac_file: "what `kelpie generate rbac-prober-seed --config-file FILE` prints",
        }
    }

    fn describe_secret(&self, cluster: &str, _path: ProbePath) -> SecretDescription {
        let (namespace, name) = namespaced_id::parts(cluster);
        SecretDescription {
            namespace: namespace.to_owned(),
            name: kubeconfig::secret_of(name),
            remedy_if_missing: format!(
                "Cluster API creates it with the control plane; one that was created by hand needs \
                 the label {CLUSTER_LABEL}"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::source::grace_period::GRACE_ANNOTATION;

    #[test]
    fn grace_period_follows_annotation_then_version() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        for (annotation, version, follows, expected) in [
            (json!(null), "v1.33.0", true, seconds(50)),
            (json!(null), "v1.31.0", true, None),
            (json!(null), "v1.33.0", false, None),
            (json!("45s"), "v1.33.0", true, seconds(45)),
            (json!("45s"), "v1.33.0", false, seconds(45)),
        ] {
            let cluster = json!({
                "metadata": { "annotations": { GRACE_ANNOTATION: annotation } },
                "spec": { "topology": { "version": version } },
            });
            let found = object(Cluster::read("ns", "a", &cluster), follows);
            let grace = found.spec.unwrap().grace;
            assert_eq!(grace, expected, "{cluster} {follows}");
        }
    }
}
