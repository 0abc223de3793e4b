//! A real Prometheus, or a `VictoriaMetrics`, on loopback: read from and written to.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use xtask::cache;

use crate::folder::Folder;
use crate::process::Process;
use crate::{poll, port, wire};

/// From the start to the first answer; it takes a tenth of a second on an idle machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Stands for the server's own address in its configuration.
pub const ITSELF: &str = "{itself}";

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Prometheus,
    VictoriaMetrics,
}

/// A server for metrics, running or not. It ends when dropped.
pub struct MetricsServer {
    kind: Kind,
    program: PathBuf,
    // Before the folder: it must be gone before its folder goes.
    process: Option<Process>,
    folder: Folder,
    address: String,
    flags: Vec<String>,
    is_tls: bool,
}

/// What tells a series from others.
pub type Labels = BTreeMap<String, String>;

/// The samples of each series: milliseconds since 1970, and value.
pub type Samples = BTreeMap<Labels, Vec<(i64, f64)>>;

impl MetricsServer {
    /// A Prometheus with this configuration, in which [`ITSELF`] stands for its own address.
    pub async fn prometheus(configuration: &str, flags: &[&str]) -> Result<Self> {
        Self::start(Kind::Prometheus, configuration, flags).await
    }

    /// A Prometheus that takes remote writes and scrapes nothing.
    pub async fn hub(flags: &[&str]) -> Result<Self> {
        let flags = [&["--web.enable-remote-write-receiver"], flags].concat();
        Self::prometheus("global: {}\n", &flags).await
    }

    /// A `VictoriaMetrics`, which takes remote writes as it is.
    pub async fn victoria_metrics() -> Result<Self> {
        // Queries find what was just written.
        let flags = ["-search.latencyOffset=0s", "-search.disableCache"];
        Self::start(Kind::VictoriaMetrics, "", &flags).await
    }

    async fn start(kind: Kind, configuration: &str, flags: &[&str]) -> Result<Self> {
        for _ in 0..port::ATTEMPTS {
            let mut server = Self::prepare(kind, configuration, flags)?;
            server.run()?;
            if server.is_serving().await? {
                return Ok(server);
            }
        }
        bail!("somebody else was faster at every port")
    }

    fn prepare(kind: Kind, configuration: &str, flags: &[&str]) -> Result<Self> {
        let name = match kind {
            Kind::Prometheus => "prometheus",
            Kind::VictoriaMetrics => "victoria-metrics",
        };
        let folder = Folder::new(name)?;
        let address = format!("127.0.0.1:{}", port::free()?);
        let configuration = configuration.replace(ITSELF, &address);
        fs::write(folder.path().join("config.yaml"), configuration)?;
        Ok(Self {
            kind,
            program: cache::find(name)?,
            process: None,
            folder,
            address,
            flags: flags.iter().map(|&flag| flag.to_owned()).collect(),
            is_tls: flags.iter().any(|flag| flag.starts_with("--web.config")),
        })
    }

    fn run(&mut self) -> Result<()> {
        let path = |name: &str| self.folder.path().join(name).display().to_string();
        let mut arguments = match self.kind {
            Kind::Prometheus => vec![
                format!("--config.file={}", path("config.yaml")),
                format!("--storage.tsdb.path={}", path("data")),
                format!("--web.listen-address={}", self.address),
            ],
            Kind::VictoriaMetrics => vec![
                format!("-httpListenAddr={}", self.address),
                format!("-storageDataPath={}", path("data")),
            ],
        };
        arguments.extend(self.flags.iter().cloned());
        let log = self.folder.path().join("log");
        self.process = Some(Process::start(&self.program, &arguments, &log)?);
        Ok(())
    }

    /// True once it answers, false if it lost its port.
    async fn is_serving(&mut self) -> Result<bool> {
        let url = self.url();
        let kind = self.kind;
        let process = self.process.as_mut().context("it was not started")?;
        poll::until_serving(
            process,
            "a metrics server",
            PATIENCE,
            async |process| match kind {
                // It answers some requests before that.
                Kind::Prometheus => process.log().contains("Server is ready to receive"),
                Kind::VictoriaMetrics => wire::get(&url, "/health").await.is_ok(),
            },
        )
        .await
    }

    /// Where it is.
    pub fn url(&self) -> String {
        let scheme = if self.is_tls { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// A folder of its own, for files that it is told of.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Ends it at once; its data stays.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Starts a killed one again, with its data and port.
    pub async fn restart(&mut self) -> Result<()> {
        self.run()?;
        ensure!(self.is_serving().await?, "it lost its port");
        Ok(())
    }

    /// What a query gives; a range like `up[1h]` gives the samples as they are stored.
    pub async fn query(&self, query: &str) -> Result<Samples> {
        if self.kind == Kind::VictoriaMetrics {
            wire::get(&self.url(), "/internal/force_flush").await?;
        }
        let mut target = "/api/v1/query?query=".to_owned();
        for byte in query.bytes() {
            write!(target, "%{byte:02X}")?;
        }
        let reply = wire::get(&self.url(), &target).await?;
        ensure!(reply.status == 200, "{query}: {}", reply.body);
        let answer: Value = serde_json::from_str(&reply.body)?;
        let series = answer["data"]["result"].as_array().context("no result")?;
        series.iter().map(read).collect()
    }
}

/// One series of an answer.
fn read(series: &Value) -> Result<(Labels, Vec<(i64, f64)>)> {
    let labels = serde_json::from_value(series["metric"].clone())?;
    let one = series["value"].as_array().map(|_| &series["value"]);
    let several = series["values"].as_array().into_iter().flatten();
    let samples = one.into_iter().chain(several).map(|sample| {
        let seconds = sample[0].as_f64().context("no time")?;
        // As text, which has all digits.
        let value = sample[1].as_str().context("no value")?;
        #[expect(clippy::cast_possible_truncation, reason = "a time of our days")]
        let millis = (seconds * 1_000.0).round() as i64;
        Ok((millis, value.parse()?))
    });
    Ok((labels, samples.collect::<Result<_>>()?))
}
