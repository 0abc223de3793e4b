//! One real etcd member.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use xtask::cache;

use crate::etcd::{EtcdCluster, EtcdSetup};
use crate::folder::Folder;
use crate::process::ServerProcess;
use crate::{plain_http, poll, port};

/// Time limit from the start to the first healthy response. An idle machine needs half a second.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The line that every etcd logs once it has its ports. A response before that comes from another
/// server.
const SERVING: &str = "ready to serve client requests";

/// A member with its ports, flags and data, running or not. Dropping it ends the process.
pub struct EtcdMember {
    name: String,
    program: PathBuf,
    // Declared before the folder, because the process must end before its folder is removed.
    process: Option<ServerProcess>,
    folder: Folder,
    url: String,
    peer_url: String,
    metrics_url: String,
    failpoints_url: Option<String>,
    flags: Vec<String>,
    /// The values of `--initial-cluster` and `--initial-cluster-state`, which a restart repeats.
    initial_cluster: (String, String),
}

impl EtcdMember {
    /// Starts a cluster of one with the default release, `etcd`, or another one, such as
    /// `etcd-3.5`.
    pub async fn start(name: &str) -> Result<Self> {
        Self::start_with(&EtcdSetup::new(name)).await
    }

    /// Starts a cluster of one with this setup.
    pub async fn start_with(setup: &EtcdSetup) -> Result<Self> {
        let mut cluster = EtcdCluster::start(setup, 1).await?;
        cluster.members.pop().context("a cluster of one")
    }

    /// Prepares a member with free ports, without starting it.
    pub(crate) fn prepare(setup: &EtcdSetup, name: &str) -> Result<Self> {
        let scheme = if setup.secure { "https" } else { "http" };
        Ok(Self {
            name: name.to_owned(),
            program: cache::find(&setup.name)?,
            process: None,
            folder: Folder::new(&setup.name)?,
            url: format!("{scheme}://127.0.0.1:{}", port::free()?),
            peer_url: format!("http://127.0.0.1:{}", port::free()?),
            metrics_url: format!("http://127.0.0.1:{}", port::free()?),
            failpoints_url: if setup.name == cache::FAILPOINTS {
                Some(format!("http://127.0.0.1:{}", port::free()?))
            } else {
                None
            },
            flags: setup.flags().collect(),
            initial_cluster: Default::default(),
        })
    }

    /// Starts a new member, without waiting for it. `cluster` is its `--initial-cluster`, as in
    /// `m0=http://…,m1=http://…`, and `state` its `--initial-cluster-state`.
    pub(crate) fn spawn(&mut self, cluster: &str, state: &str) -> Result<()> {
        self.initial_cluster = (cluster.to_owned(), state.to_owned());
        self.run()
    }

    fn run(&mut self) -> Result<()> {
        let (cluster, state) = &self.initial_cluster;
        let mut arguments = vec![
            format!("--name={}", self.name),
            format!("--data-dir={}", self.data().display()),
            format!("--listen-client-urls={}", self.url),
            format!("--advertise-client-urls={}", self.url),
            format!("--listen-peer-urls={}", self.peer_url),
            format!("--initial-advertise-peer-urls={}", self.peer_url),
            format!("--listen-metrics-urls={}", self.metrics_url),
            format!("--initial-cluster={cluster}"),
            format!("--initial-cluster-state={state}"),
        ];
        arguments.extend(self.flags.iter().cloned());
        let log = self.folder.path().join("log");
        let failpoints = self.failpoints_url.as_deref();
        let address = failpoints.and_then(|url| url.strip_prefix("http://"));
        let variables: Vec<_> = address
            .map(|address| ("GOFAIL_HTTP", address))
            .into_iter()
            .collect();
        let process = ServerProcess::start_with_env(&variables, &self.program, &arguments, &log)?;
        self.process = Some(process);
        Ok(())
    }

    /// Returns the member's name in the cluster.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the client URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the peer URL.
    pub fn peer_url(&self) -> &str {
        &self.peer_url
    }

    /// Returns the URL of the metrics listener, which has no TLS.
    pub fn metrics_url(&self) -> &str {
        &self.metrics_url
    }

    /// Returns the URL of the failpoints, if the release has them.
    pub(crate) fn failpoints_url(&self) -> Option<&str> {
        self.failpoints_url.as_deref()
    }

    /// Returns the member's process.
    ///
    /// # Panics
    /// If the member was killed.
    #[expect(
        clippy::expect_used,
        reason = "a test must not use the process of a killed member"
    )]
    pub fn process(&self) -> &ServerProcess {
        self.process.as_ref().expect("a running member")
    }

    /// Stops the process with SIGSTOP. Its connections stay open.
    pub async fn pause(&self) -> Result<()> {
        let process = self.process();
        process.signal("STOP")?;
        // On a busy machine its threads continue for a moment.
        poll::until("a stopped process", TIMEOUT, async || {
            Ok(process.is_stopped()?.then_some(()))
        })
        .await
    }

    /// Resumes a paused member.
    pub fn resume(&self) -> Result<()> {
        self.process().signal("CONT")
    }

    /// Kills the process. The data stays.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Restarts a killed member with its data and ports, without waiting for it.
    pub fn relaunch(&mut self) -> Result<()> {
        self.run()
    }

    /// Restarts a killed member with its data and ports, and waits until it serves.
    pub async fn restart(&mut self) -> Result<()> {
        self.run()?;
        ensure!(self.serves().await?, "{} lost its port", self.name);
        Ok(())
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Kills the member and removes its data, before it is replaced.
    pub(crate) fn wipe(&mut self) -> Result<()> {
        self.kill();
        Ok(fs::remove_dir_all(self.data())?)
    }

    /// Returns the JSON response for `path`.
    pub async fn get(&self, path: &str) -> Result<Value> {
        Ok(serde_json::from_str(
            &plain_http::get(&self.url, path).await?.body,
        )?)
    }

    /// Returns the value of a series. `name` includes the labels, as the server writes them.
    pub async fn metric(&self, name: &str) -> Result<f64> {
        let text = plain_http::get(&self.metrics_url, "/metrics").await?.body;
        series_value(&text, name).with_context(|| format!("{name} is not among the metrics"))
    }

    /// Returns the metrics page as text.
    pub async fn metrics(&self) -> Result<String> {
        Ok(plain_http::get(&self.metrics_url, "/metrics").await?.body)
    }

    /// Waits until the member is healthy. Returns false if it lost its port.
    pub(crate) async fn is_healthy(&mut self) -> Result<bool> {
        let url = self.metrics_url.clone();
        self.until_serving("a healthy etcd", async || {
            let health = plain_http::get(&url, "/health").await;
            health.is_ok_and(|reply| reply.status == 200)
        })
        .await
    }

    /// Waits until the member serves clients, healthy or not. Returns false if it lost its port.
    pub(crate) async fn serves(&mut self) -> Result<bool> {
        self.until_serving("an etcd that serves", async || true)
            .await
    }

    /// Waits until the member serves its metrics, which it does before it serves clients. Returns
    /// false if it lost its port.
    pub(crate) async fn serves_metrics(&mut self) -> Result<bool> {
        let url = self.metrics_url.clone();
        let process = self.process.as_mut().context("it was not started")?;
        poll::until_serving(process, "metrics of etcd", TIMEOUT, async |_| {
            plain_http::get(&url, "/metrics").await.is_ok()
        })
        .await
    }

    async fn until_serving(
        &mut self,
        what: &str,
        is_ready: impl AsyncFn() -> bool,
    ) -> Result<bool> {
        let process = self.process.as_mut().context("it was not started")?;
        poll::until_serving(process, what, TIMEOUT, async |process| {
            process.log().contains(SERVING) && is_ready().await
        })
        .await
    }
}

/// Returns the value of a series in a Prometheus text exposition.
pub(crate) fn series_value(text: &str, name: &str) -> Option<f64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line?.trim().parse().ok()
}
