//! dependency-watchdog, as far as a seed sees it: what it writes, and in which order.

use anyhow::{Context, Result};
use kube::Client;
use serde_json::{Value, json};

use super::shoot::{MARKER, RECORD};
use super::{rest, wall_clock};

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/garden/leases";

/// Plays the writes of dependency-watchdog 1.7. It decides nothing.
pub struct Predecessor {
    client: Client,
}

impl Predecessor {
    /// The Lease that both use.
    pub const LEASE: &str = "dwd-prober-leader-election";

    /// With all rights.
    pub fn new(client: &Client) -> Self {
        Self {
            client: client.clone(),
        }
    }

    /// Leads, for a minute or until it [`resign`](Self::resign)s: what client-go writes.
    pub async fn lead(&self) -> Result<()> {
        let now = wall_clock::micro(wall_clock::now());
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

    /// Gives the Lease back, as client-go does at the end of a process.
    pub async fn resign(&self) -> Result<()> {
        let now = wall_clock::micro(wall_clock::now());
        let path = format!("{LEASES}/{}", Self::LEASE);
        let spec = json!({
            "holderIdentity": "", "leaseDurationSeconds": 1,
            "acquireTime": now, "renewTime": now,
        });
        rest::merge(&self.client, &path, &json!({ "spec": spec }))
            .await
            .map(|_| ())
    }

    /// The first write of a fence: the record and the marker in one patch.
    pub async fn record(&self, shoot: &str, deployment: &str) -> Result<()> {
        let path = path(shoot, deployment);
        let object = rest::read(&self.client, &path).await?;
        let count = object["spec"]["replicas"].as_i64().context("no replicas")?;
        let annotations = json!({ RECORD: count.to_string(), MARKER: "" });
        let patch = json!({ "metadata": { "annotations": annotations } });
        rest::merge(&self.client, &path, &patch).await.map(|_| ())
    }

    /// A whole fence of one target.
    pub async fn fence(&self, shoot: &str, deployment: &str) -> Result<()> {
        self.record(shoot, deployment).await?;
        self.scale(shoot, deployment, 0).await
    }

    /// A whole restore of one target: what has no replicas gets the recorded ones, and the marker goes
    /// whether that was needed or not.
    pub async fn restore(&self, shoot: &str, deployment: &str) -> Result<()> {
        let path = path(shoot, deployment);
        let object = rest::read(&self.client, &path).await?;
        let annotations = &object["metadata"]["annotations"];
        if object["spec"]["replicas"] == 0 {
            let recorded = annotations[RECORD].as_str();
            let count = recorded.map_or(Ok(1), str::parse::<u32>);
            self.scale(shoot, deployment, count?).await?;
        }
        if annotations.get(MARKER).is_some() {
            let patch = json!({ "metadata": { "annotations": { MARKER: Value::Null } } });
            rest::merge(&self.client, &path, &patch).await?;
        }
        Ok(())
    }

    /// The second write of a fence, or the first of a restore.
    pub async fn scale(&self, shoot: &str, deployment: &str, replicas: u32) -> Result<()> {
        let path = format!("{}/scale", path(shoot, deployment));
        let patch = json!({ "spec": { "replicas": replicas } });
        rest::merge(&self.client, &path, &patch).await.map(|_| ())
    }
}

fn path(shoot: &str, deployment: &str) -> String {
    format!("/apis/apps/v1/namespaces/{shoot}/deployments/{deployment}")
}
