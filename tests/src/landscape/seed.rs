//! The seed: an API server that holds the control planes of shoots.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use kube::Client;
use serde_json::{Value, json};

use super::shoot::Shoot;
use super::{Doorman, Proxy, rest};
use crate::folder::Folder;
use crate::{ApiServer, ControlPlane, Credentials, Etcd};

/// Gardener's kinds that the prober knows.
const KINDS: [&str; 2] = [
    "clusters.extensions.gardener.cloud",
    "machines.machine.sapcloud.io",
];

/// A seed. It ends when dropped.
pub struct Seed {
    /// The API server and its store.
    pub plane: ControlPlane,
    /// May do everything.
    pub client: Client,
    folder: Folder,
}

impl Seed {
    /// With Gardener's kinds and the namespace `garden`.
    pub async fn start() -> Result<Self> {
        let seed = Self::bare().await?;
        seed.install_kinds().await?;
        Ok(seed)
    }

    /// The same with an audit log of what `policy` says.
    pub async fn start_audited(policy: &str) -> Result<Self> {
        let etcd = Etcd::start("etcd").await?;
        let api = ApiServer::start_audited(&etcd, "registry", policy).await?;
        let seed = Self::on(ControlPlane { api, etcd }).await?;
        seed.install_kinds().await?;
        Ok(seed)
    }

    /// Without Gardener's kinds.
    pub async fn bare() -> Result<Self> {
        Self::on(ControlPlane::start().await?).await
    }

    async fn on(plane: ControlPlane) -> Result<Self> {
        // Built before anything has to be on time.
        crate::kelpie::program()?;
        let client = plane.client().await?;
        let seed = Self {
            plane,
            client,
            folder: Folder::new("seed")?,
        };
        seed.namespace("garden").await?;
        Ok(seed)
    }

    /// Installs Clusters and Machines.
    pub async fn install_kinds(&self) -> Result<()> {
        self.plane.api.install_definitions(&KINDS).await
    }

    /// Makes a namespace.
    pub async fn namespace(&self, name: &str) -> Result<()> {
        let namespace = json!({ "metadata": { "name": name } });
        rest::create(&self.client, "/api/v1/namespaces", &namespace)
            .await
            .map(|_| ())
    }

    /// A shoot whose Secret holds `kubeconfig` and whose Machines became `nodes`. It has no
    /// controllers yet.
    pub async fn shoot(&self, name: &str, kubeconfig: &str, nodes: &[String]) -> Result<Shoot> {
        let shoot = Shoot::make(&self.client, name, kubeconfig, nodes).await;
        shoot.with_context(|| format!("making the shoot {name}"))
    }

    /// The kubeconfig of somebody, as a file.
    pub fn kubeconfig(&self, who: &Credentials) -> Result<PathBuf> {
        self.keep(&self.plane.api.kubeconfig(who))
    }

    /// The same by way of `proxy`.
    pub fn kubeconfig_via(&self, proxy: &Proxy, who: &Credentials) -> Result<PathBuf> {
        self.keep(&self.plane.api.kubeconfig_at(proxy.url(), who))
    }

    /// The same by way of `doorman`; they must be known by a token.
    pub fn kubeconfig_by(&self, doorman: &Doorman, who: &Credentials) -> Result<PathBuf> {
        self.keep(&doorman.kubeconfig(who))
    }

    fn keep(&self, text: &str) -> Result<PathBuf> {
        let number = fs::read_dir(self.folder.path())?.count();
        let path = self.folder.path().join(format!("{number}.kubeconfig"));
        fs::write(&path, text)?;
        Ok(path)
    }

    /// The Events in a namespace.
    pub async fn events(&self, namespace: &str) -> Result<Vec<Value>> {
        let path = format!("/api/v1/namespaces/{namespace}/events");
        let list = rest::read(&self.client, &path).await?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }
}
