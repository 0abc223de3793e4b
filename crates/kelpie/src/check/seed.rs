//! Is the seed there, and may we do what the prober does?

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use kelpie_config::ProberConfig;
use kelpie_core::{Eligibility, eligibility};
use kelpie_kube::leader::ElectionSettings;
use kelpie_kube::seed::{
    Answer, Change, ClusterFacts, KubeconfigSecret, Seed, SeedError, WatchError,
};
use kelpie_prober::{Need, seed_needs};
use tokio::time::timeout;

use super::row::{Row, Table};

/// For a whole list.
const PATIENCE: Duration = Duration::from_mins(1);

/// Where the permissions come from.
const RBAC: &str = "deploy/rbac/prober-seed.yaml";

/// Version, kinds and permissions. False: there is no point in going on.
pub(super) async fn look(
    seed: &Seed,
    config: &ProberConfig,
    election: Option<&ElectionSettings>,
    table: &mut Table,
) -> bool {
    match seed.version().await {
        Ok(version) => table.add(Row::ok("seed", format!("Kubernetes {version}"))),
        Err(error) => {
            table.add(refused("seed", &error));
            return false;
        }
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
    for need in seed_needs(config, election) {
        match ask(seed, &need).await {
            Ok(row) => table.add(row),
            Err(error) => {
                table.add(refused("permission", &error));
                return false;
            }
        }
    }
    true
}

fn refused(about: &str, error: &SeedError) -> Row {
    let remedy = match error {
        SeedError::Kubeconfig { .. } | SeedError::Setup { .. } => "mend the kubeconfig",
        SeedError::Denied { .. } => "use credentials that the seed accepts",
        SeedError::Unavailable { .. } => "is this the right kubeconfig, and the seed reachable?",
    };
    Row::fail(about, error.to_string(), remedy)
}

async fn ask(seed: &Seed, need: &Need) -> Result<Row, SeedError> {
    const ABOUT: &str = "permission";
    let questions: Vec<_> = need.permissions().collect();
    let mut denied = Vec::new();
    for (permission, answer) in seed.may(&questions).await? {
        if answer != Answer::Allowed {
            denied.push(permission.to_string());
        }
    }
    if denied.is_empty() {
        let verbs = need.verbs.join(", ");
        let first = questions.first().map(ToString::to_string);
        let first = first.unwrap_or_default();
        // The first question begins with the first verb.
        let object = first.split_once(' ').map_or("", |(_, object)| object);
        return Ok(Row::ok(ABOUT, format!("may {verbs} {object}")));
    }
    let found = format!("may not {}", denied.join(", nor "));
    Ok(match need.lost {
        Some(lost) => Row::warn(
            ABOUT,
            found,
            format!("without it there are no {lost}; {RBAC} has it"),
        ),
        None => Row::fail(
            ABOUT,
            found,
            format!("it is for {}; {RBAC} has it", need.reason),
        ),
    })
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
    let clusters = all("Clusters", seed.clusters(only), table).await;
    let internal = seed.secrets(&config.kubeconfig_secret, only);
    let internal = all("Secrets", internal, table).await;
    let external = match &config.external_kubeconfig_secret {
        Some(name) => Some(all("Secrets", seed.secrets(name, only), table).await?),
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

/// The first complete list of a watch.
async fn all<T>(
    what: &'static str,
    changes: impl Stream<Item = Change<T>>,
    table: &mut Table,
) -> Option<Vec<T>> {
    let mut changes = pin!(changes);
    let listing = async {
        let mut found = Vec::new();
        while let Some(change) = changes.next().await {
            match change {
                Change::Restarted => found.clear(),
                Change::Applied(object) => found.push(object),
                Change::Deleted { .. } => {}
                Change::Synced => break,
                Change::Failed(error) => return Err(error),
            }
        }
        Ok(found)
    };
    let failed = match timeout(PATIENCE, listing).await {
        Ok(Ok(found)) => return Some(found),
        Ok(Err(error)) => {
            let remedy = match &error {
                WatchError::Denied { .. } => format!("{RBAC} has what is needed"),
                WatchError::Absent { .. } => "is this a seed of Gardener?".to_owned(),
                _ => "is the seed's API server well?".to_owned(),
            };
            Row::fail(what, error.to_string(), remedy)
        }
        Err(_) => Row::fail(
            what,
            format!("not listed within {PATIENCE:?}"),
            "is the seed's API server well?",
        ),
    };
    table.add(failed);
    None
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
