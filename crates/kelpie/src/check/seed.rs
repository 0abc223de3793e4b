//! Is the seed there, and may we do what the prober does?

use std::collections::{BTreeMap, BTreeSet};

use kelpie_config::ProberConfig;
use kelpie_core::{Eligibility, eligibility};
use kelpie_kube::leader::ElectionSettings;
use kelpie_kube::seed::{ClusterFacts, KubeconfigSecret, Seed};
use kelpie_prober::seed_needs;

use super::question::{self, all};
use super::row::{Row, Table};

/// Where the permissions come from.
const RBAC: &str = "deploy/rbac/prober-seed.yaml";

/// Version, kinds and permissions. False: there is no point in going on.
pub(super) async fn look(
    seed: &Seed,
    config: &ProberConfig,
    election: Option<&ElectionSettings>,
    table: &mut Table,
) -> bool {
    if !question::version(seed, table).await {
        return false;
    }
    let mut kinds = BTreeSet::new();
    for target in &config.targets {
        let resource = &target.resource;
        if !kinds.insert((&resource.api_version, &resource.kind)) {
            continue;
        }
        let kind = format!("{} {}", resource.api_version, resource.kind);
        table.add(match seed.routine_targets().resolve(resource).await {
            Ok(_) => Row::ok("targets", format!("{kind} can be scaled")),
            Err(error) => Row::fail(
                "targets",
                error.to_string(),
                "correct apiVersion and kind in dependentResourceInfos, or install the kind",
            ),
        });
    }
    question::permissions(seed, &seed_needs(config, election), RBAC, table).await
}

/// What the seed has.
pub(super) struct Landscape {
    clusters: Vec<ClusterFacts>,
    /// By namespace.
    pub(super) internal: BTreeMap<String, KubeconfigSecret>,
    /// By namespace; `None`: there is no external probe.
    pub(super) external: Option<BTreeMap<String, KubeconfigSecret>>,
}

/// Lists Clusters and their Secrets; `None` if that cannot be done.
pub(super) async fn list(
    seed: &Seed,
    config: &ProberConfig,
    table: &mut Table,
) -> Option<Landscape> {
    let only = config.namespace.as_deref();
    let clusters = all("Clusters", RBAC, seed.clusters(only), table).await;
    let internal = seed.secrets(&config.kubeconfig_secret, only);
    let internal = all("Secrets", RBAC, internal, table).await;
    let external = match &config.external_kubeconfig_secret {
        Some(name) => Some(all("Secrets", RBAC, seed.secrets(name, only), table).await?),
        None => None,
    };
    let by_namespace = |secrets: Vec<KubeconfigSecret>| {
        let pair = |secret: KubeconfigSecret| (secret.namespace.clone(), secret);
        secrets.into_iter().map(pair).collect()
    };
    Some(Landscape {
        clusters: clusters?,
        internal: by_namespace(internal?),
        external: external.map(by_namespace),
    })
}

impl Landscape {
    /// The clusters that the prober would probe, or the one asked for, and rows about the others.
    pub(super) fn to_probe(&self, only: Option<&str>, table: &mut Table) -> (Vec<&str>, Vec<Row>) {
        let (mut to_probe, mut rows) = (Vec::new(), Vec::new());
        let (mut probed, mut left_out) = (0, 0);
        for cluster in &self.clusters {
            let name = cluster.name.as_str();
            let is_wanted = only.is_none_or(|only| only == name);
            match cluster.shoot.as_ref().map(eligibility) {
                Ok(Eligibility::Run) => {
                    probed += 1;
                    to_probe.extend(is_wanted.then_some(name));
                }
                Ok(other) => {
                    left_out += 1;
                    if only == Some(name) {
                        let remedy = "nothing; it gets a probe when that has changed";
                        rows.push(Row::warn(name, format!("no probe: {}", why(other)), remedy));
                    }
                }
                Err(problem) if is_wanted => rows.push(Row::fail(
                    name,
                    format!("its Shoot cannot be read: {problem}"),
                    "it keeps the probe it has; Gardener's next reconciliation writes it anew",
                )),
                Err(_) => {}
            }
        }
        let all = self.clusters.len();
        table.add(Row::ok(
            "clusters",
            format!("{all} in the seed, {probed} to be probed, {left_out} left out"),
        ));
        if let Some(only) = only
            && !self.clusters.iter().any(|cluster| cluster.name == only)
        {
            let remedy = "`kubectl get clusters` lists them";
            rows.push(Row::fail(only, "there is no such Cluster", remedy));
        }
        (to_probe, rows)
    }
}

fn why(eligibility: Eligibility) -> String {
    match eligibility {
        Eligibility::Run => String::new(),
        Eligibility::NotYet(why) => why.to_string(),
        Eligibility::Remove(why) => why.to_string(),
    }
}
