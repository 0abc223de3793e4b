//! A `kelpie prober` process.

use std::path::Path;
use std::process::Output;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use super::command_line::command_line;
use super::prober_config_file::ProberConfigFile;
use crate::folder::Folder;
use crate::kelpie::{self, Kelpie};
use crate::plain_http::HttpResponse;
use crate::poll;

/// A running `kelpie prober`. It is killed on drop.
pub struct ProberProcess {
    /// The process. Its URL is the address of the metrics.
    pub kelpie: Kelpie,
    _folder: Folder,
}

impl ProberProcess {
    /// Starts the prober with additional flags.
    pub async fn start(
        kubeconfig: &Path,
        config: &ProberConfigFile,
        flags: &[&str],
    ) -> Result<Self> {
        let (folder, arguments) = command_line("prober", kubeconfig, &config.yaml(), flags)?;
        Ok(Self {
            kelpie: Kelpie::start(&arguments).await?,
            _folder: folder,
        })
    }

    /// Starts the prober as `dependency-watchdog`, the name that Gardener starts, with additional
    /// flags.
    pub async fn start_as_dwd(kubeconfig: &Path, config: &str, flags: &[&str]) -> Result<Self> {
        let (folder, arguments) = command_line("prober", kubeconfig, config, flags)?;
        Ok(Self {
            kelpie: Kelpie::start_as("dependency-watchdog", &arguments).await?,
            _folder: folder,
        })
    }

    /// Runs the prober until it exits, and returns its output. For configurations that fail at the
    /// start.
    pub async fn run_to_exit(
        kubeconfig: &Path,
        config: &ProberConfigFile,
        flags: &[&str],
    ) -> Result<Output> {
        let (folder, arguments) = command_line("prober", kubeconfig, &config.yaml(), flags)?;
        let output = kelpie::run(&arguments).await;
        drop(folder);
        output
    }

    /// The log so far.
    pub fn log(&self) -> String {
        self.kelpie.log()
    }

    /// Returns the log lines that contain all of these words.
    pub fn lines(&self, words: &[&str]) -> Vec<String> {
        self.kelpie.lines(words)
    }

    /// Waits for a log line that contains all of these words.
    pub async fn until_line(&self, words: &[&str], timeout: Duration) -> Result<String> {
        self.kelpie.until_line(words, timeout).await
    }

    /// Returns the state of a cluster from `/debug/state`; `None` if the cluster is not probed.
    pub async fn state(&self, cluster: &str) -> Result<Option<Value>> {
        let response = self
            .kelpie
            .get(&format!("/debug/state?cluster={cluster}"))
            .await?;
        if response.status == 404 {
            return Ok(None);
        }
        let state: Value = serde_json::from_str(&response.body).context(response.body.clone())?;
        Ok(Some(state["clusters"][cluster].clone()))
    }

    /// Waits until the state of a cluster satisfies `predicate`. A cluster that is not probed has
    /// the state `null`.
    pub async fn until_state(
        &self,
        what: &str,
        cluster: &str,
        timeout: Duration,
        predicate: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let mut last = Value::Null;
        let found = poll::until(what, timeout, async || {
            last = self.state(cluster).await?.unwrap_or_default();
            Ok(predicate(&last).then(|| last.clone()))
        });
        let found = found.await;
        found.with_context(|| format!("{cluster}: {last:#}\n{}", self.kelpie.process().log_tail()))
    }

    /// Waits for a verdict on a cluster: `fence`, `hold` or `release`.
    pub async fn until_verdict(
        &self,
        cluster: &str,
        verdict: &str,
        timeout: Duration,
    ) -> Result<Value> {
        let what = format!("the verdict {verdict}");
        let predicate = |state: &Value| state["decision"]["verdict"] == verdict;
        self.until_state(&what, cluster, timeout, predicate).await
    }

    /// Waits until a cluster is not probed any more.
    pub async fn until_unprobed(&self, cluster: &str, timeout: Duration) -> Result<()> {
        let gone = self.until_state("no probe", cluster, timeout, Value::is_null);
        gone.await.map(|_| ())
    }

    /// GETs `target` from the health address.
    pub async fn health(&self, target: &str) -> Result<HttpResponse> {
        self.kelpie.health(target).await
    }
}
