//! A `kelpie weeder` process.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use super::command_line::command_line;
use crate::folder::Folder;
use crate::kelpie::Kelpie;
use crate::poll;

/// A running `kelpie weeder`. It is killed on drop.
pub struct WeederProcess {
    /// The process. Its URL is the address of the metrics.
    pub kelpie: Kelpie,
    _folder: Folder,
}

impl WeederProcess {
    /// Starts the weeder with additional flags.
    pub async fn start(kubeconfig: &Path, config: &str, flags: &[&str]) -> Result<Self> {
        Self::start_as("kelpie", kubeconfig, config, flags).await
    }

    /// Like [`start`](Self::start), with another name of the executable.
    pub async fn start_as(
        name: &str,
        kubeconfig: &Path,
        config: &str,
        flags: &[&str],
    ) -> Result<Self> {
        let (folder, arguments) = command_line("weeder", kubeconfig, config, flags)?;
        Ok(Self {
            kelpie: Kelpie::start_as(name, &arguments).await?,
            _folder: folder,
        })
    }

    /// Returns the whole `/debug/state`.
    pub async fn state(&self) -> Result<Value> {
        let response = self.kelpie.get("/debug/state").await?;
        serde_json::from_str(&response.body).context(response.body)
    }

    /// Returns the state of a service; `null` if the service is not watched.
    pub async fn service(&self, namespace: &str, service: &str) -> Result<Value> {
        Ok(self.state().await?["namespaces"][namespace][service].take())
    }

    /// Waits until the state of a service satisfies `predicate`.
    pub async fn until_service(
        &self,
        what: &str,
        namespace: &str,
        service: &str,
        timeout: Duration,
        predicate: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let mut last = Value::Null;
        let found = poll::until(what, timeout, async || {
            last = self.service(namespace, service).await?;
            Ok(predicate(&last).then(|| last.clone()))
        });
        let found = found.await;
        found.with_context(|| format!("{last:#}\n{}", self.kelpie.process().log_tail()))
    }
}
