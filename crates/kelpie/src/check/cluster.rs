//! Checks of one cluster: its kubeconfig, API server, leases and nodes.

use kelpie_config::ProberConfig;
use std::sync::Arc;

use kelpie_core::prober::{NodeRules, PoolConditions};
use kelpie_kube::kubeconfig::TenantConfig;
use kelpie_kube::tenant::{ConnectionReuse, Tenant, TenantError};
use kelpie_prober::source::{ClusterKubeconfig, ProbePath, SecretDescription, cluster_source};
use secrecy::ExposeSecret;
use tokio::time::Instant;

use super::guard;
use super::seed::SeedInventory;
use super::table::CheckRow;
use crate::summary::pluralize;

/// Returns a row for the internal path, and one for the external path if that is probed.
pub(super) async fn check(
    config: &ProberConfig,
    inventory: &SeedInventory,
    cluster: &str,
) -> Vec<CheckRow> {
    let mut rows = match open_internal(config, inventory, cluster) {
        Ok(tenant) => {
            let pools = inventory.pools(cluster);
            let mut rows = vec![check_internal(config, cluster, &pools, &tenant).await];
            if config.guard.is_some() {
                rows.push(guard::check(config, cluster, &tenant).await);
            }
            rows
        }
        Err(row) => vec![row],
    };
    if let Some(kubeconfigs) = &inventory.external {
        let subject = format!("{cluster} (external)");
        let secret = cluster_source(config).describe_secret(cluster, ProbePath::External);
        let row = match open_tenant(kubeconfigs.get(cluster), &secret, &subject) {
            Ok(tenant) => check_external(config, &subject, &tenant).await,
            Err(row) => row,
        };
        // A path that never worked decides nothing: the cluster is protected without it.
        rows.push(row.at_most_warn());
    }
    rows
}

/// Creates the client for the path from inside the seed, or a row with the failure.
pub(crate) fn open_internal(
    config: &ProberConfig,
    inventory: &SeedInventory,
    cluster: &str,
) -> Result<Tenant, CheckRow> {
    let secret = cluster_source(config).describe_secret(cluster, ProbePath::Internal);
    open_tenant(inventory.internal.get(cluster), &secret, cluster)
}

/// Creates the client that the kubeconfig in the Secret describes, or a row with the failure.
fn open_tenant(
    kubeconfig: Option<&ClusterKubeconfig>,
    secret: &SecretDescription,
    subject: &str,
) -> Result<Tenant, CheckRow> {
    let SecretDescription {
        namespace,
        name,
        remedy_if_missing,
    } = secret;
    let Some(kubeconfig) = kubeconfig else {
        let finding = format!("no Secret {name} in namespace {namespace}");
        return Err(CheckRow::fail(subject, finding, remedy_if_missing));
    };
    let unusable = |reason: String| {
        CheckRow::fail(
            subject,
            format!("the kubeconfig in Secret {name} cannot be used: {reason}"),
            "it needs a server, its certificate authority, and a token or client certificate",
        )
    };
    let text = kubeconfig.text.as_ref();
    let text = text.map_err(|reason| unusable(reason.clone()))?;
    let access = TenantConfig::from_kubeconfig(text.expose_secret());
    let access = access.map_err(|error| unusable(error.to_string()))?;
    Ok(Tenant::new(access, ConnectionReuse::Keep))
}

async fn check_internal(
    config: &ProberConfig,
    cluster: &str,
    pools: &PoolConditions,
    tenant: &Tenant,
) -> CheckRow {
    let deadline = Instant::now() + config.probe.probe_timeout;
    if let Err(error) = tenant.version(deadline).await {
        return request_failure(cluster, "GET /version", &error);
    }
    let leases = match tenant.leases(deadline).await {
        Ok(listed) => listed.leases.len(),
        Err(error) => return request_failure(cluster, "listing node leases", &error),
    };
    let conventions = cluster_source(config).node_conventions();
    let rules = Arc::new(NodeRules::new(conventions, Arc::new(pools.clone())));
    // The machines are not read here, so their nodes count as candidates.
    let nodes = match tenant.nodes(&rules, deadline).await {
        Ok(listed) => listed.items.finish(None),
        Err(error) => return request_failure(cluster, "listing nodes", &error),
    };
    let candidates = nodes.iter().filter(|(_, excluded)| excluded.is_none());
    let counts = NodeCounts {
        nodes: nodes.len(),
        candidates: candidates.count(),
        leases,
    };
    counts.row(cluster, config.probe.min_candidates)
}

/// The nodes of a cluster, those of them whose leases count, and the leases.
#[derive(Clone, Copy)]
struct NodeCounts {
    nodes: usize,
    candidates: usize,
    leases: usize,
}

impl NodeCounts {
    fn row(self, cluster: &str, required: u32) -> CheckRow {
        let Self {
            nodes,
            candidates,
            leases,
        } = self;
        let finding = format!(
            "{}, {}",
            pluralize(nodes, "node", "nodes"),
            pluralize(leases, "lease", "leases")
        );
        if nodes > 0 && candidates == 0 {
            let finding = format!("{finding}, and every node is excluded: it is not protected");
            let remedy = "check the conditions of the nodes; `kelpie explain` counts the reasons";
            CheckRow::warn(cluster, finding, remedy)
        } else if nodes < required as usize {
            let remedy = format!(
                "no action needed; a cluster is fenced only if it has at least {required} nodes \
             (minCandidateNodes)"
            );
            CheckRow::warn(cluster, finding, remedy)
        } else if leases < nodes {
            let remedy = "nodes without a lease do not count; check their kubelets";
            CheckRow::warn(cluster, finding, remedy)
        } else {
            CheckRow::ok(cluster, finding)
        }
    }
}

async fn check_external(config: &ProberConfig, subject: &str, tenant: &Tenant) -> CheckRow {
    let deadline = Instant::now() + config.probe.probe_timeout;
    match tenant.version(deadline).await {
        Ok(()) => CheckRow::ok(subject, "API server reachable"),
        Err(error) => request_failure(subject, "GET /version", &error),
    }
}

fn request_failure(subject: &str, request: &str, error: &TenantError) -> CheckRow {
    let finding = format!("{request}: {error}");
    let remedy = match error.status() {
        Some(401) => "the credentials were rejected; renew the Secret",
        Some(403) => "apply deploy/rbac/prober-shoot.yaml in the cluster",
        Some(429) => "the API server is overloaded; run the check again later",
        Some(_) => "check the pods of the API server in the control plane namespace",
        None if error.is_transient() => {
            "check the name resolution, the routes and the limits of this host"
        }
        None => "check that the API server runs, and that network policies allow the connection",
    };
    if error.status() == Some(429) {
        return CheckRow::warn(subject, finding, remedy);
    }
    CheckRow::fail(subject, finding, remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_nodes_or_leases_warn() {
        let row = |nodes, leases| {
            let candidates = nodes;
            let counts = NodeCounts {
                nodes,
                candidates,
                leases,
            };
            format!("{:?}", counts.row("a", 2))
        };
        assert!(row(3, 3).contains("status: Ok"));
        assert!(row(1, 1).contains("minCandidateNodes"));
        assert!(row(0, 0).contains("0 nodes, 0 leases"));
        assert!(row(3, 2).contains("status: Warn"));
    }

    #[test]
    fn cluster_without_candidates_warns() {
        let counts = NodeCounts {
            nodes: 3,
            candidates: 0,
            leases: 3,
        };
        let row = format!("{:?}", counts.row("a", 2));
        assert!(row.contains("status: Warn"), "{row}");
        assert!(row.contains("it is not protected"), "{row}");
    }

    #[test]
    fn secret_content_is_not_revealed() {
        let secret = SecretDescription {
            namespace: "a".into(),
            name: "probe".into(),
            remedy_if_missing: "create it".into(),
        };
        let kubeconfig = |text: Result<&[u8], &'static str>| ClusterKubeconfig {
            cluster: "a".into(),
            text: text
                .map(|bytes| bytes.to_vec().into())
                .map_err(str::to_owned),
        };
        let row = |kubeconfig| format!("{:?}", open_tenant(Some(&kubeconfig), &secret, "a").err());
        let missing = open_tenant(None, &secret, "a").err();
        assert!(format!("{missing:?}").contains("no Secret probe in namespace a"));
        let empty = row(kubeconfig(Err("it has no key `kubeconfig`")));
        assert!(empty.contains("it has no key `kubeconfig`"), "{empty}");
        let bad = row(kubeconfig(Ok(b"token: hunter2")));
        assert!(bad.contains("cannot be used"), "{bad}");
        assert!(!bad.contains("hunter2"), "{bad}");
    }
}
