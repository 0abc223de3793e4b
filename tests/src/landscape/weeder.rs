//! The product as a weeder.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use super::command_line::command_line;
use crate::folder::Folder;
use crate::kelpie::Kelpie;
use crate::poll;

/// A running `kelpie weeder`. It is killed when dropped.
pub struct Weeder {
    /// The process; its URL is that of the metrics.
    pub kelpie: Kelpie,
    _folder: Folder,
}

impl Weeder {
    /// Starts it with some flags more.
    pub async fn start(kubeconfig: &Path, config: &str, flags: &[&str]) -> Result<Self> {
        Self::start_as("kelpie", kubeconfig, config, flags).await
    }

    /// The same under another name of the program.
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

    /// All it knows, as `/debug/state` says it.
    pub async fn state(&self) -> Result<Value> {
        let reply = self.kelpie.get("/debug/state").await?;
        serde_json::from_str(&reply.body).context(reply.body)
    }

    /// What it knows of a service; `null` if it does not watch it.
    pub async fn service(&self, namespace: &str, service: &str) -> Result<Value> {
        Ok(self.state().await?["namespaces"][namespace][service].take())
    }

    /// Waits until its state of a service is such.
    pub async fn until_service(
        &self,
        what: &str,
        namespace: &str,
        service: &str,
        patience: Duration,
        is_such: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let mut last = Value::Null;
        let found = poll::until(what, patience, async || {
            last = self.service(namespace, service).await?;
            Ok(is_such(&last).then(|| last.clone()))
        });
        let found = found.await;
        found.with_context(|| format!("{last:#}\n{}", self.kelpie.process().log_tail()))
    }
}
