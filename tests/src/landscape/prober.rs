//! The product as a prober.

use std::path::Path;
use std::process::Output;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use super::command_line::command_line;
use super::config::ProberConfig;
use crate::folder::Folder;
use crate::kelpie::{self, Kelpie};
use crate::poll;
use crate::wire::Reply;

/// A running `kelpie prober`. It is killed when dropped.
pub struct Prober {
    /// The process; its URL is that of the metrics.
    pub kelpie: Kelpie,
    _folder: Folder,
}

impl Prober {
    /// Starts it with some flags more.
    pub async fn start(kubeconfig: &Path, config: &ProberConfig, flags: &[&str]) -> Result<Self> {
        let (folder, arguments) = command_line("prober", kubeconfig, &config.yaml(), flags)?;
        Ok(Self {
            kelpie: Kelpie::start(&arguments).await?,
            _folder: folder,
        })
    }

    /// Starts it under the name that Gardener starts, with exactly these flags after the usual ones.
    pub async fn start_as_predecessor(
        kubeconfig: &Path,
        config: &str,
        flags: &[&str],
    ) -> Result<Self> {
        let (folder, arguments) = command_line("prober", kubeconfig, config, flags)?;
        Ok(Self {
            kelpie: Kelpie::start_as("dependency-watchdog", &arguments).await?,
            _folder: folder,
        })
    }

    /// Runs it until it ends by itself, and gives all it said; for starts that cannot work.
    pub async fn fail(kubeconfig: &Path, config: &ProberConfig, flags: &[&str]) -> Result<Output> {
        let (folder, arguments) = command_line("prober", kubeconfig, &config.yaml(), flags)?;
        let output = kelpie::run(&arguments).await;
        drop(folder);
        output
    }

    /// All it has logged so far.
    pub fn log(&self) -> String {
        self.kelpie.log()
    }

    /// The lines of the log with all of these words.
    pub fn lines(&self, words: &[&str]) -> Vec<String> {
        self.kelpie.lines(words)
    }

    /// Waits for a line with all of these words.
    pub async fn until_line(&self, words: &[&str], patience: Duration) -> Result<String> {
        self.kelpie.until_line(words, patience).await
    }

    /// What it knows of a cluster; nothing if it does not probe it.
    pub async fn state(&self, cluster: &str) -> Result<Option<Value>> {
        let reply = self
            .kelpie
            .get(&format!("/debug/state?cluster={cluster}"))
            .await?;
        if reply.status == 404 {
            return Ok(None);
        }
        let state: Value = serde_json::from_str(&reply.body).context(reply.body.clone())?;
        Ok(Some(state["clusters"][cluster].clone()))
    }

    /// Waits until its state of a cluster is such; `null` stands for a cluster it does not probe.
    pub async fn until_state(
        &self,
        what: &str,
        cluster: &str,
        patience: Duration,
        is_such: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let mut last = Value::Null;
        let found = poll::until(what, patience, async || {
            last = self.state(cluster).await?.unwrap_or_default();
            Ok(is_such(&last).then(|| last.clone()))
        });
        let found = found.await;
        found.with_context(|| format!("{cluster}: {last:#}\n{}", self.kelpie.process().log_tail()))
    }

    /// Waits for a verdict on a cluster: `fence`, `hold`, `release`.
    pub async fn until_verdict(
        &self,
        cluster: &str,
        verdict: &str,
        patience: Duration,
    ) -> Result<Value> {
        let what = format!("the verdict {verdict}");
        let is_such = |state: &Value| state["decision"]["verdict"] == verdict;
        self.until_state(&what, cluster, patience, is_such).await
    }

    /// Waits until it no longer probes a cluster.
    pub async fn until_unprobed(&self, cluster: &str, patience: Duration) -> Result<()> {
        let gone = self.until_state("no probe", cluster, patience, Value::is_null);
        gone.await.map(|_| ())
    }

    /// GETs a page of its health address.
    pub async fn health(&self, target: &str) -> Result<Reply> {
        self.kelpie.health(target).await
    }
}
