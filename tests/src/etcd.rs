//! A real etcd member of its own cluster.

use std::time::Duration;

use anyhow::{Result, bail};
use kube::{Client, Config};
use xtask::cache;

use crate::api_server::{get, is_ok};
use crate::folder::Folder;
use crate::process::Process;
use crate::{poll, port};

/// From the start to the first healthy answer; it takes half a second on an idle machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// What every etcd logs once it has its ports: an answer before that comes from somebody else.
const SERVING: &str = "ready to serve client requests";

/// A running etcd, spoken to without TLS. It ends when dropped.
pub struct Etcd {
    process: Process,
    url: String,
    // After the process: it must be gone before its folder goes.
    _folder: Folder,
}

impl Etcd {
    /// Starts the server named `etcd`, or of one line: `etcd-3.5`.
    pub async fn start(name: &str) -> Result<Self> {
        let program = cache::find(name)?;
        for _ in 0..port::ATTEMPTS {
            let folder = Folder::new(name)?;
            let url = format!("http://127.0.0.1:{}", port::free()?);
            let peer = format!("http://127.0.0.1:{}", port::free()?);
            let arguments = [
                format!("--data-dir={}", folder.path().join("data").display()),
                format!("--listen-client-urls={url}"),
                format!("--advertise-client-urls={url}"),
                format!("--listen-peer-urls={peer}"),
                format!("--initial-advertise-peer-urls={peer}"),
                format!("--initial-cluster=default={peer}"),
                // The data does not outlive the test.
                "--unsafe-no-fsync".to_owned(),
            ];
            let log = folder.path().join("log");
            let mut etcd = Self {
                process: Process::start(&program, &arguments, &log)?,
                url,
                _folder: folder,
            };
            if etcd.is_ready().await? {
                return Ok(etcd);
            }
        }
        bail!("{name} lost its port {} times", port::ATTEMPTS)
    }

    /// Where clients find it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The process behind it.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// What it answers on `path`, as JSON.
    pub async fn get(&self, path: &str) -> Result<serde_json::Value> {
        let answer = get(&self.client()?, path, "application/json").await?;
        Ok(serde_json::from_slice(&answer.body)?)
    }

    /// True once it is healthy, false if it lost its port.
    async fn is_ready(&mut self) -> Result<bool> {
        let client = self.client()?;
        let process = &mut self.process;
        poll::until_serving(process, "a healthy etcd", PATIENCE, async |process| {
            process.log().contains(SERVING) && is_ok(&client, "/health").await
        })
        .await
    }

    fn client(&self) -> Result<Client> {
        let mut config = Config::new(self.url.parse()?);
        config.default_retry = false;
        Ok(Client::try_from(config)?)
    }
}
