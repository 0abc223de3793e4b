//! The writes of dependency-watchdog to a seed cluster, in their order.

use anyhow::{Context, Result};
use kube::Client;
use serde_json::{Value, json};

use super::shoot_cluster::{MARKER, RECORD};
use super::{rest, wall_clock};

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/garden/leases";

/// Performs the writes of dependency-watchdog 1.7. A test decides when.
pub struct DwdWriter {
    client: Client,
}

impl DwdWriter {
    /// The name of the Lease for leader election, which Kelpie shares.
    pub const LEASE: &str = "dwd-prober-leader-election";

    /// Creates a writer. `client` needs all permissions.
    pub fn new(client: &Client) -> Self {
        Self {
            client: client.clone(),
        }
    }

    /// Becomes leader as client-go does, for a minute or until
    /// [`release_lease`](Self::release_lease).
    pub async fn acquire_lease(&self) -> Result<()> {
        let now = wall_clock::micro_time(wall_clock::now());
        let lease = json!({
            "metadata": { "name": Self::LEASE },
            "spec": {
                "holderIdentity": "dependency-watchdog-prober-0_5bf1",
                "leaseDurationSeconds": 60,
                "acquireTime": now, "renewTime": now,
                "leaseTransitions": 3,
            },
        });
        rest::create(&self.client, LEASES, &lease).await.map(|_| ())
    }

    /// Releases the Lease, as client-go does when a process ends.
    pub async fn release_lease(&self) -> Result<()> {
        let now = wall_clock::micro_time(wall_clock::now());
        let path = format!("{LEASES}/{}", Self::LEASE);
        let spec = json!({
            "holderIdentity": "", "leaseDurationSeconds": 1,
            "acquireTime": now, "renewTime": now,
        });
        rest::merge_patch(&self.client, &path, &json!({ "spec": spec }))
            .await
            .map(|_| ())
    }

    /// Performs the first write of a fence: the record and the marker in one patch.
    pub async fn record(&self, cluster: &str, deployment: &str) -> Result<()> {
        let path = path(cluster, deployment);
        let object = rest::get(&self.client, &path).await?;
        let count = object["spec"]["replicas"].as_i64().context("no replicas")?;
        let annotations = json!({ RECORD: count.to_string(), MARKER: "" });
        let patch = json!({ "metadata": { "annotations": annotations } });
        rest::merge_patch(&self.client, &path, &patch)
            .await
            .map(|_| ())
    }

    /// Performs all writes of a fence of one target.
    pub async fn fence(&self, cluster: &str, deployment: &str) -> Result<()> {
        self.record(cluster, deployment).await?;
        self.scale(cluster, deployment, 0).await
    }

    /// Performs all writes of a restore of one target. A target without replicas gets the recorded
    /// number. The marker is removed in any case.
    pub async fn restore(&self, cluster: &str, deployment: &str) -> Result<()> {
        let path = path(cluster, deployment);
        let object = rest::get(&self.client, &path).await?;
        let annotations = &object["metadata"]["annotations"];
        if object["spec"]["replicas"] == 0 {
            let recorded = annotations[RECORD].as_str();
            let count = recorded.map_or(Ok(1), str::parse::<u32>);
            self.scale(cluster, deployment, count?).await?;
        }
        if annotations.get(MARKER).is_some() {
            let patch = json!({ "metadata": { "annotations": { MARKER: Value::Null } } });
            rest::merge_patch(&self.client, &path, &patch).await?;
        }
        Ok(())
    }

    /// Performs the second write of a fence, or the first write of a restore.
    pub async fn scale(&self, cluster: &str, deployment: &str, replicas: u32) -> Result<()> {
        let path = format!("{}/scale", path(cluster, deployment));
        let patch = json!({ "spec": { "replicas": replicas } });
        rest::merge_patch(&self.client, &path, &patch)
            .await
            .map(|_| ())
    }
}

fn path(cluster: &str, deployment: &str) -> String {
    format!("/apis/apps/v1/namespaces/{cluster}/deployments/{deployment}")
}
