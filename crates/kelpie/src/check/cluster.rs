//! Could this cluster be probed?

use std::collections::BTreeMap;

use kelpie_config::ProberConfig;
use kelpie_kube::kubeconfig::Access;
use kelpie_kube::seed::KubeconfigSecret;
use kelpie_kube::tenant::{Haste, Keeping, Tenant, TenantError};
use secrecy::ExposeSecret;
use tokio::time::Instant;

use super::row::Row;
use super::seed::Landscape;
use crate::summary::counted;

/// A row for the way inside, and one for the external path if that is probed.
pub(super) async fn look(config: &ProberConfig, landscape: &Landscape, cluster: &str) -> Vec<Row> {
    let name = &config.kubeconfig_secret;
    let mut rows = match open(&landscape.internal, cluster, name, cluster) {
        Ok(tenant) => vec![inside(config, cluster, tenant).await],
        Err(row) => vec![row],
    };
    let external = config.external_kubeconfig_secret.as_ref();
    if let (Some(name), Some(secrets)) = (external, &landscape.external) {
        let about = format!("{cluster} (external)");
        rows.push(match open(secrets, cluster, name, &about) {
            Ok(tenant) => outside(config, &about, tenant).await,
            Err(row) => row,
        });
    }
    rows
}

/// The client that the kubeconfig in the Secret describes.
fn open(
    secrets: &BTreeMap<String, KubeconfigSecret>,
    cluster: &str,
    name: &str,
    about: &str,
) -> Result<Tenant, Row> {
    let Some(secret) = secrets.get(cluster) else {
        return Err(Row::fail(
            about,
            format!("no Secret {name} in namespace {cluster}"),
            "Gardener makes it when it reconciles the shoot; is the name the configured one?",
        ));
    };
    let unusable = |why: String| {
        Row::fail(
            about,
            format!("the kubeconfig in Secret {name} cannot be used: {why}"),
            "it needs a server, its certificate authority and a token or client certificate",
        )
    };
    let Some(kubeconfig) = &secret.kubeconfig else {
        return Err(unusable(secret.problem.unwrap_or("it is empty").to_owned()));
    };
    let access = Access::from_kubeconfig(kubeconfig.expose_secret());
    let access = access.map_err(|error| unusable(error.to_string()))?;
    Ok(Tenant::new(access, Keeping::Kept))
}

async fn inside(config: &ProberConfig, cluster: &str, mut tenant: Tenant) -> Row {
    let deadline = Instant::now() + config.probe.probe_timeout;
    let probed = tenant.probe(Haste::Routine, deadline).await;
    if let Err(error) = probed.version {
        return refused(cluster, "/version", &error);
    }
    let leases = match probed.leases {
        Some(Ok(leases)) => leases.leases.len(),
        Some(Err(error)) => return refused(cluster, "the node leases", &error),
        None => return Row::fail(cluster, "the leases were not listed", "run this again"),
    };
    let nodes = match tenant.nodes(deadline).await {
        Ok(nodes) => nodes.len(),
        Err(error) => return refused(cluster, "the nodes", &error),
    };
    found(cluster, nodes, leases, config.probe.min_candidates)
}

fn found(cluster: &str, nodes: usize, leases: usize, required: u32) -> Row {
    let count =
        |number: usize, one, many| counted(u32::try_from(number).unwrap_or(u32::MAX), one, many);
    let seen = format!(
        "{}, {}",
        count(nodes, "node", "nodes"),
        count(leases, "lease", "leases")
    );
    if nodes < required as usize {
        let remedy = format!("nothing: it takes {required} nodes (minCandidateNodes) to fence");
        Row::warn(cluster, seen, remedy)
    } else if leases < nodes {
        let remedy = "nodes without a lease do not count; do their kubelets run?";
        Row::warn(cluster, seen, remedy)
    } else {
        Row::ok(cluster, seen)
    }
}

async fn outside(config: &ProberConfig, about: &str, mut tenant: Tenant) -> Row {
    let deadline = Instant::now() + config.probe.probe_timeout;
    match tenant.version(deadline).await {
        Ok(()) => Row::ok(about, "answers"),
        Err(error) => refused(about, "/version", &error),
    }
}

fn refused(about: &str, what: &str, error: &TenantError) -> Row {
    let found = format!("{what}: {error}");
    let remedy = match error.status() {
        Some(401) => "its API server does not know the credentials: was the Secret renewed?",
        Some(403) => "deploy/rbac/prober-shoot.yaml has what is needed there",
        Some(429) => "it has too much to do: run this again later",
        Some(_) => "its API server is not well: look at its pods in the control namespace",
        None => "is its API server up, and may pods here reach it (network policies)?",
    };
    if error.is_transient() && error.status() == Some(429) {
        return Row::warn(about, found, remedy);
    }
    Row::fail(about, found, remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_nodes_and_missing_leases_are_worth_knowing() {
        let row = |nodes, leases| format!("{:?}", found("a", nodes, leases, 2));
        assert!(row(3, 3).contains("grade: Ok"));
        assert!(row(1, 1).contains("minCandidateNodes"));
        assert!(row(0, 0).contains("0 nodes, 0 leases"));
        assert!(row(3, 2).contains("grade: Warn"));
    }

    #[test]
    fn what_stands_in_the_secret_is_told_without_its_content() {
        let secret = |kubeconfig: Option<&[u8]>, problem| KubeconfigSecret {
            namespace: "a".into(),
            name: "probe".into(),
            kubeconfig: kubeconfig.map(|bytes| bytes.to_vec().into()),
            problem,
        };
        let row = |secret| {
            let secrets = BTreeMap::from([("a".to_owned(), secret)]);
            format!("{:?}", open(&secrets, "a", "probe", "a").err())
        };
        let missing = open(&BTreeMap::new(), "a", "probe", "a").err();
        assert!(format!("{missing:?}").contains("no Secret probe in namespace a"));
        let empty = row(secret(None, Some("it has no key `kubeconfig`")));
        assert!(empty.contains("it has no key `kubeconfig`"), "{empty}");
        let bad = row(secret(Some(b"token: hunter2"), None));
        assert!(bad.contains("cannot be used"), "{bad}");
        assert!(!bad.contains("hunter2"), "{bad}");
    }
}
