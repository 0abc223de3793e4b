//! Checks of the seed, and the clusters that it has.

use std::collections::{BTreeMap, BTreeSet};

use kelpie_config::ProberConfig;
use kelpie_core::prober::{ActuatorKind, PoolConditions};
use kelpie_kube::client::ClusterClient;
use kelpie_kube::leader::ElectionSettings;
use kelpie_prober::seed_rules;
use kelpie_prober::source::{
    ClusterKubeconfig, ClusterLabels, ClusterObject, ProbePath, SourceTexts, cluster_source,
};

use super::api_server::{self, list_all};
use super::table::{CheckRow, CheckTable};

/// Makes a row of a list that failed and that clusters are probed without.
fn dispensable(subject: &'static str, finding: String, remedy: String) -> CheckRow {
    let finding = finding + "; everything else works without them";
    CheckRow::warn(subject, finding, remedy)
}

/// Checks the seed's version, the kinds of the targets and the prober's permissions. Returns false
/// if there is no point in further checks.
pub(crate) async fn check(
    seed: &ClusterClient,
    config: &ProberConfig,
    election: Option<&ElectionSettings>,
    table: &mut CheckTable,
) -> bool {
    if !api_server::check_version(seed, table).await {
        return false;
    }
    let mut kinds = BTreeSet::new();
    for target in &config.targets {
        let resource = &target.resource;
        if !kinds.insert((&resource.api_version, &resource.kind)) {
            continue;
        }
        let kind = format!("{} {}", resource.api_version, resource.kind);
        table.add(match seed.routine_actuators().check_kind(target).await {
            Ok(()) => {
                let finding = match target.actuator {
                    ActuatorKind::Scale => "can be scaled",
                    ActuatorKind::Pause => "can be paused",
                };
                CheckRow::ok("targets", format!("{kind} {finding}"))
            }
            // A cluster without them is probed, too.
            Err(error) if target.actuator == ActuatorKind::Pause && target.optional => {
                let remedy = "install Cluster API, or remove them from dependentResourceInfos";
                CheckRow::warn("targets", error.to_string(), remedy)
            }
            Err(error) => CheckRow::fail(
                "targets",
                error.to_string(),
                "fix apiVersion and kind in dependentResourceInfos, or install the kind",
            ),
        });
    }
    let file = cluster_source(config).texts().rbac_file;
    api_server::check_permissions(seed, &seed_rules(config, election), file, table).await
}

/// The clusters of a seed and the kubeconfigs for them.
pub(crate) struct SeedInventory {
    texts: SourceTexts,
    clusters: Vec<ClusterObject>,
    /// The kubeconfigs of the internal path, by cluster.
    pub(crate) internal: BTreeMap<String, ClusterKubeconfig>,
    /// The kubeconfigs of the external path, by cluster. `None` if the external probe is off, or
    /// if they cannot be listed.
    pub(crate) external: Option<BTreeMap<String, ClusterKubeconfig>>,
}

impl SeedInventory {
    /// Lists the clusters and their kubeconfigs. If a list fails, adds a row and returns `None`.
    pub(crate) async fn list(
        seed: &ClusterClient,
        config: &ProberConfig,
        table: &mut CheckTable,
    ) -> Option<Self> {
        let source = cluster_source(config);
        let texts = source.texts();
        let file = texts.rbac_file;
        let clusters = list_all(
            texts.clusters,
            file,
            source.clusters(seed),
            CheckRow::fail,
            table,
        )
        .await;
        let internal = source.kubeconfigs(seed, ProbePath::Internal)?;
        let internal = list_all("Secrets", file, internal, CheckRow::fail, table).await;
        let external = match source.kubeconfigs(seed, ProbePath::External) {
            Some(external) => {
                let subject = "external Secrets";
                list_all(subject, file, external, dispensable, table).await
            }
            None => None,
        };
        let by_cluster = |kubeconfigs: Vec<ClusterKubeconfig>| {
            let pair = |kubeconfig: ClusterKubeconfig| (kubeconfig.cluster.clone(), kubeconfig);
            kubeconfigs.into_iter().map(pair).collect()
        };
        Some(Self {
            texts,
            clusters: clusters?,
            internal: by_cluster(internal?),
            external: external.map(by_cluster),
        })
    }

    /// Returns the clusters that some prober has to watch, with their labels.
    pub(crate) fn eligible(&self) -> impl Iterator<Item = (&str, &ClusterLabels)> {
        let eligible = self.clusters.iter().filter(|cluster| {
            let spec = cluster.spec.as_ref();
            spec.is_ok_and(|spec| spec.eligibility.reason().is_none())
        });
        eligible.map(|cluster| (&*cluster.identity.id, &cluster.labels))
    }

    /// Returns the unhealthy conditions of a cluster's worker pools.
    pub(crate) fn pools(&self, cluster: &str) -> PoolConditions {
        let mut clusters = self.clusters.iter();
        let known = clusters.find(|known| *known.identity.id == *cluster);
        let spec = known.and_then(|known| known.spec.as_ref().ok());
        spec.map(|spec| spec.pools.clone()).unwrap_or_default()
    }

    /// Returns the clusters that the prober would probe, and rows about clusters that it would
    /// not. With `only`, both are limited to that cluster. The row with the counts of all clusters
    /// goes to `table`.
    pub(crate) fn clusters_to_probe(
        &self,
        only: Option<&str>,
        table: &mut CheckTable,
    ) -> (Vec<&str>, Vec<CheckRow>) {
        let (mut to_probe, mut rows) = (Vec::new(), Vec::new());
        let (mut probed, mut excluded) = (0, 0);
        for cluster in &self.clusters {
            let name = &*cluster.identity.id;
            let is_selected = only.is_none_or(|only| only == name);
            match cluster.spec.as_ref().map(|spec| spec.eligibility.reason()) {
                Ok(None) => {
                    probed += 1;
                    to_probe.extend(is_selected.then_some(name));
                }
                Ok(Some(reason)) => {
                    excluded += 1;
                    if only == Some(name) {
                        let finding = format!("not probed: {reason}");
                        let remedy = "no action needed; the probe starts when this changes";
                        rows.push(CheckRow::warn(name, finding, remedy));
                    }
                }
                Err(problem) if is_selected => rows.push(CheckRow::fail(
                    name,
                    format!("its object cannot be read: {problem}"),
                    "its current probe continues; fix the object, or wait until its owner does",
                )),
                Err(_) => {}
            }
        }
        let all = self.clusters.len();
        let finding = format!("{all} on the seed, {probed} to be probed, {excluded} excluded");
        table.add(CheckRow::ok("clusters", finding));
        if let Some(only) = only
            && !self
                .clusters
                .iter()
                .any(|cluster| *cluster.identity.id == *only)
        {
            let remedy = format!("list the clusters with `{}`", self.texts.list_command);
            rows.push(CheckRow::fail(only, self.texts.no_such_cluster, remedy));
        }
        (to_probe, rows)
    }
}
