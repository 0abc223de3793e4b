//! One real etcd member.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use xtask::cache;

use crate::etcd::{Cluster, Setup};
use crate::folder::Folder;
use crate::process::Process;
use crate::{poll, port, wire};

/// From the start to the first healthy answer; it takes half a second on an idle machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// What every etcd logs once it has its ports: an answer before that comes from somebody else.
const SERVING: &str = "ready to serve client requests";

/// Where a copy of its data is, beside the data.
const BACKUP: &str = "backup";

/// A member with its ports, flags and data, running or not. It ends when dropped.
pub struct Etcd {
    name: String,
    program: PathBuf,
    // Before the folder: it must be gone before its folder goes.
    process: Option<Process>,
    folder: Folder,
    url: String,
    peer_url: String,
    metrics_url: String,
    flags: Vec<String>,
    /// What it was told about the cluster when it was new: flags for a start that is not its first.
    told: (String, String),
}

impl Etcd {
    /// Starts a cluster of one: the server named `etcd`, or of one line: `etcd-3.5`.
    pub async fn start(name: &str) -> Result<Self> {
        Self::start_with(&Setup::new(name)).await
    }

    /// Starts a cluster of one with flags of its own.
    pub async fn start_with(setup: &Setup) -> Result<Self> {
        let mut cluster = Cluster::start(setup, 1).await?;
        cluster.members.pop().context("a cluster of one")
    }

    /// A member with ports of its own that does not run yet.
    pub(crate) fn prepare(setup: &Setup, name: &str) -> Result<Self> {
        let scheme = if setup.secure { "https" } else { "http" };
        Ok(Self {
            name: name.to_owned(),
            program: cache::find(&setup.name)?,
            process: None,
            folder: Folder::new(&setup.name)?,
            url: format!("{scheme}://127.0.0.1:{}", port::free()?),
            peer_url: format!("http://127.0.0.1:{}", port::free()?),
            metrics_url: format!("http://127.0.0.1:{}", port::free()?),
            flags: setup.flags().collect(),
            told: Default::default(),
        })
    }

    /// Starts a new member and does not wait for it. `cluster` is what it is told of the others, as in
    /// `m0=http://…,m1=http://…`, and `state` whether they are new as well.
    pub(crate) fn spawn(&mut self, cluster: &str, state: &str) -> Result<()> {
        self.told = (cluster.to_owned(), state.to_owned());
        self.run()
    }

    fn run(&mut self) -> Result<()> {
        let (cluster, state) = &self.told;
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
        self.process = Some(Process::start(&self.program, &arguments, &log)?);
        Ok(())
    }

    /// Its name in the cluster.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where clients find it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Where other members find it.
    pub fn peer_url(&self) -> &str {
        &self.peer_url
    }

    /// Where its metrics are, without TLS.
    pub fn metrics_url(&self) -> &str {
        &self.metrics_url
    }

    /// The process behind it.
    ///
    /// # Panics
    /// If it was killed.
    #[expect(
        clippy::expect_used,
        reason = "a test that asks after it has killed is wrong"
    )]
    pub fn process(&self) -> &Process {
        self.process.as_ref().expect("a running member")
    }

    /// Stops it in the middle of whatever it does; connections stay open.
    pub async fn pause(&self) -> Result<()> {
        let process = self.process();
        process.signal("STOP")?;
        // On a loaded machine its threads go on for a moment.
        poll::until("a stopped process", PATIENCE, async || {
            Ok(process.is_stopped()?.then_some(()))
        })
        .await
    }

    /// Lets a paused one go on.
    pub fn resume(&self) -> Result<()> {
        self.process().signal("CONT")
    }

    /// Ends it at once; its data stays.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Starts a killed one again, with its data and ports, and does not wait for it.
    pub fn relaunch(&mut self) -> Result<()> {
        self.run()
    }

    /// Starts a killed one again, with its data and ports, and waits until it serves.
    pub async fn restart(&mut self) -> Result<()> {
        self.run()?;
        ensure!(self.serves().await?, "{} lost its port", self.name);
        Ok(())
    }

    /// Takes a copy of its data, for which it is down for a moment.
    pub async fn back_up(&mut self) -> Result<()> {
        self.kill();
        copy(&self.data(), &self.folder.path().join(BACKUP))?;
        self.restart().await
    }

    /// Has the data of its [`back_up`](Self::back_up) again; what came after that never was.
    pub async fn restore(&mut self) -> Result<()> {
        self.wipe()?;
        copy(&self.folder.path().join(BACKUP), &self.data())?;
        self.restart().await
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Forgets all it had, for a member that is to be replaced.
    pub(crate) fn wipe(&mut self) -> Result<()> {
        self.kill();
        Ok(fs::remove_dir_all(self.data())?)
    }

    /// What it answers on `path`, as JSON.
    pub async fn get(&self, path: &str) -> Result<Value> {
        Ok(serde_json::from_str(
            &wire::get(&self.url, path).await?.body,
        )?)
    }

    /// The value of one of its metrics; the name with its labels, as the server writes it.
    pub async fn metric(&self, name: &str) -> Result<f64> {
        let text = wire::get(&self.metrics_url, "/metrics").await?.body;
        sample(&text, name).with_context(|| format!("{name} is not among the metrics"))
    }

    /// All its metrics, as text.
    pub async fn metrics(&self) -> Result<String> {
        Ok(wire::get(&self.metrics_url, "/metrics").await?.body)
    }

    /// True once it is healthy, false if it lost its port.
    pub(crate) async fn is_healthy(&mut self) -> Result<bool> {
        let url = self.metrics_url.clone();
        self.until_serving("a healthy etcd", async || {
            let health = wire::get(&url, "/health").await;
            health.is_ok_and(|reply| reply.status == 200)
        })
        .await
    }

    /// True once it serves clients, healthy or not; false if it lost its port.
    pub(crate) async fn serves(&mut self) -> Result<bool> {
        self.until_serving("an etcd that serves", async || true)
            .await
    }

    /// True once it tells its metrics, which it does before it serves; false if it lost its port.
    pub(crate) async fn tells_metrics(&mut self) -> Result<bool> {
        let url = self.metrics_url.clone();
        let process = self.process.as_mut().context("it was not started")?;
        poll::until_serving(process, "metrics of etcd", PATIENCE, async |_| {
            wire::get(&url, "/metrics").await.is_ok()
        })
        .await
    }

    async fn until_serving(&mut self, what: &str, answers: impl AsyncFn() -> bool) -> Result<bool> {
        let process = self.process.as_mut().context("it was not started")?;
        poll::until_serving(process, what, PATIENCE, async |process| {
            process.log().contains(SERVING) && answers().await
        })
        .await
    }
}

/// Copies a folder with all that is in it.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}

/// The value of a series in Prometheus' text.
pub(crate) fn sample(text: &str, name: &str) -> Option<f64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line?.trim().parse().ok()
}
