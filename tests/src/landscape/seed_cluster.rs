//! A seed cluster: an API server that holds the control planes of shoot clusters.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use kube::Client;
use serde_json::{Value, json};

use super::shoot_cluster::ShootCluster;
use super::{Interceptor, TcpProxy, rest};
use crate::folder::Folder;
use crate::{ControlPlane, Credentials, EtcdMember, KubeApiServer};

/// The custom resources of Gardener that the prober reads.
const GARDENER_CRDS: [&str; 2] = [
    "clusters.extensions.gardener.cloud",
    "machines.machine.sapcloud.io",
];

/// A running seed cluster. Its servers are killed on drop.
pub struct SeedCluster {
    /// The API server and its etcd.
    pub control_plane: ControlPlane,
    /// A client with all permissions.
    pub client: Client,
    folder: Folder,
}

impl SeedCluster {
    /// Starts a seed cluster with Gardener's custom resources and the namespace `garden`.
    pub async fn start() -> Result<Self> {
        let seed = Self::start_without_crds().await?;
        seed.install_gardener_crds().await?;
        Ok(seed)
    }

    /// Like [`start`](Self::start), with an audit log according to `policy`.
    pub async fn start_with_audit_log(policy: &str) -> Result<Self> {
        let etcd = EtcdMember::start("etcd").await?;
        let api = KubeApiServer::start_with_audit_log(&etcd, "registry", policy).await?;
        let seed = Self::with_control_plane(ControlPlane { api, etcd }).await?;
        seed.install_gardener_crds().await?;
        Ok(seed)
    }

    /// Starts a seed cluster without Gardener's custom resources.
    pub async fn start_without_crds() -> Result<Self> {
        Self::with_control_plane(ControlPlane::start().await?).await
    }

    async fn with_control_plane(control_plane: ControlPlane) -> Result<Self> {
        // Builds the binary now, before a test measures time.
        crate::kelpie::binary()?;
        let client = control_plane.client().await?;
        let seed = Self {
            control_plane,
            client,
            folder: Folder::new("seed")?,
        };
        seed.create_namespace("garden").await?;
        Ok(seed)
    }

    /// Installs the custom resource definitions of Clusters and Machines.
    pub async fn install_gardener_crds(&self) -> Result<()> {
        self.control_plane.api.install_crds(&GARDENER_CRDS).await
    }

    /// Creates a namespace in the seed cluster.
    pub async fn create_namespace(&self, name: &str) -> Result<()> {
        let namespace = json!({ "metadata": { "name": name } });
        rest::create(&self.client, "/api/v1/namespaces", &namespace)
            .await
            .map(|_| ())
    }

    /// Creates a shoot cluster with a Machine for each of `nodes`. Its Secret holds `kubeconfig`.
    /// It has no targets yet.
    pub async fn create_cluster(
        &self,
        name: &str,
        kubeconfig: &str,
        nodes: &[String],
    ) -> Result<ShootCluster> {
        let cluster = ShootCluster::create(&self.client, name, kubeconfig, nodes).await;
        cluster.with_context(|| format!("creating the cluster {name}"))
    }

    /// Writes a kubeconfig for this user to a file, and returns its path.
    pub fn kubeconfig_file(&self, user: &Credentials) -> Result<PathBuf> {
        self.write_file(&self.control_plane.api.kubeconfig(user))
    }

    /// Like [`kubeconfig_file`](Self::kubeconfig_file), through `proxy`.
    pub fn kubeconfig_file_via_proxy(
        &self,
        proxy: &TcpProxy,
        user: &Credentials,
    ) -> Result<PathBuf> {
        self.write_file(&self.control_plane.api.kubeconfig_for_url(proxy.url(), user))
    }

    /// Like [`kubeconfig_file`](Self::kubeconfig_file), through `interceptor`. The user must
    /// authenticate with a token.
    pub fn kubeconfig_file_via_interceptor(
        &self,
        interceptor: &Interceptor,
        user: &Credentials,
    ) -> Result<PathBuf> {
        self.write_file(&interceptor.kubeconfig(user))
    }

    fn write_file(&self, text: &str) -> Result<PathBuf> {
        let number = fs::read_dir(self.folder.path())?.count();
        let path = self.folder.path().join(format!("{number}.kubeconfig"));
        fs::write(&path, text)?;
        Ok(path)
    }

    /// Lists the Events in a namespace.
    pub async fn events(&self, namespace: &str) -> Result<Vec<Value>> {
        let path = format!("/api/v1/namespaces/{namespace}/events");
        let list = rest::get(&self.client, &path).await?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }
}
