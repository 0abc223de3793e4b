//! A real Prometheus or `VictoriaMetrics` on loopback, to read from and to write to.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use xtask::cache;

use crate::folder::Folder;
use crate::process::ServerProcess;
use crate::{plain_http, poll, port};

/// Limit for the start, which takes a tenth of a second on an idle machine.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A placeholder for the server's own address in its configuration.
pub const OWN_ADDRESS: &str = "{itself}";

/// The program behind a [`MetricsServer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MetricsBackend {
    Prometheus,
    VictoriaMetrics,
}

/// A metrics server, running or stopped. It is killed on drop.
pub struct MetricsServer {
    backend: MetricsBackend,
    program: PathBuf,
    // Declared before the folder, because it must be gone before its folder is removed.
    process: Option<ServerProcess>,
    folder: Folder,
    address: String,
    flags: Vec<String>,
    is_tls: bool,
}

/// The labels that identify a series.
pub type PromLabels = BTreeMap<String, String>;

/// The samples of each series, as pairs of milliseconds since the Unix epoch and value.
pub type PromSamples = BTreeMap<PromLabels, Vec<(i64, f64)>>;

impl MetricsServer {
    /// Starts a Prometheus with this configuration, in which [`OWN_ADDRESS`] is replaced by its
    /// address.
    pub async fn prometheus(configuration: &str, flags: &[&str]) -> Result<Self> {
        Self::start(MetricsBackend::Prometheus, configuration, flags).await
    }

    /// Starts a Prometheus that accepts remote writes and scrapes nothing.
    pub async fn hub(flags: &[&str]) -> Result<Self> {
        let flags = [&["--web.enable-remote-write-receiver"], flags].concat();
        Self::prometheus("global: {}\n", &flags).await
    }

    /// Starts a `VictoriaMetrics`, which accepts remote writes by default.
    pub async fn victoria_metrics() -> Result<Self> {
        // Makes new samples visible to queries at once.
        let flags = ["-search.latencyOffset=0s", "-search.disableCache"];
        Self::start(MetricsBackend::VictoriaMetrics, "", &flags).await
    }

    async fn start(backend: MetricsBackend, configuration: &str, flags: &[&str]) -> Result<Self> {
        for _ in 0..port::ATTEMPTS {
            let mut server = Self::prepare(backend, configuration, flags)?;
            server.run()?;
            if server.until_serving().await? {
                return Ok(server);
            }
        }
        bail!("the metrics server lost its port {} times", port::ATTEMPTS)
    }

    fn prepare(backend: MetricsBackend, configuration: &str, flags: &[&str]) -> Result<Self> {
        let name = match backend {
            MetricsBackend::Prometheus => "prometheus",
            MetricsBackend::VictoriaMetrics => "victoria-metrics",
        };
        let folder = Folder::new(name)?;
        let address = format!("127.0.0.1:{}", port::free()?);
        let configuration = configuration.replace(OWN_ADDRESS, &address);
        fs::write(folder.path().join("config.yaml"), configuration)?;
        Ok(Self {
            backend,
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
        let mut arguments = match self.backend {
            MetricsBackend::Prometheus => vec![
                format!("--config.file={}", path("config.yaml")),
                format!("--storage.tsdb.path={}", path("data")),
                format!("--web.listen-address={}", self.address),
            ],
            MetricsBackend::VictoriaMetrics => vec![
                format!("-httpListenAddr={}", self.address),
                format!("-storageDataPath={}", path("data")),
            ],
        };
        arguments.extend(self.flags.iter().cloned());
        let log = self.folder.path().join("log");
        self.process = Some(ServerProcess::start(&self.program, &arguments, &log)?);
        Ok(())
    }

    /// Waits until the server is ready. Returns false if it lost its port.
    async fn until_serving(&mut self) -> Result<bool> {
        let url = self.url();
        let backend = self.backend;
        let process = self
            .process
            .as_mut()
            .context("the server was not started")?;
        poll::until_serving(
            process,
            "a metrics server",
            TIMEOUT,
            async |process| match backend {
                // It responds to some requests before it is ready.
                MetricsBackend::Prometheus => process.log().contains("Server is ready to receive"),
                MetricsBackend::VictoriaMetrics => plain_http::get(&url, "/health").await.is_ok(),
            },
        )
        .await
    }

    /// The address of the server.
    pub fn url(&self) -> String {
        let scheme = if self.is_tls { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// The folder of the server, for files that its configuration refers to.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Kills the server. Its data stays.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Starts a killed server again, with its data and port.
    pub async fn restart(&mut self) -> Result<()> {
        self.run()?;
        ensure!(
            self.until_serving().await?,
            "the metrics server lost its port"
        );
        Ok(())
    }

    /// Evaluates a query. A range like `up[1h]` returns the samples as they are stored.
    pub async fn query(&self, query: &str) -> Result<PromSamples> {
        if self.backend == MetricsBackend::VictoriaMetrics {
            plain_http::get(&self.url(), "/internal/force_flush").await?;
        }
        let mut target = "/api/v1/query?query=".to_owned();
        for byte in query.bytes() {
            write!(target, "%{byte:02X}")?;
        }
        let response = plain_http::get(&self.url(), &target).await?;
        ensure!(response.status == 200, "{query}: {}", response.body);
        let result: Value = serde_json::from_str(&response.body)?;
        let series = result["data"]["result"].as_array().context("no result")?;
        series.iter().map(parse_series).collect()
    }
}

/// Parses one series of a query result.
fn parse_series(series: &Value) -> Result<(PromLabels, Vec<(i64, f64)>)> {
    let labels = serde_json::from_value(series["metric"].clone())?;
    let one = series["value"].as_array().map(|_| &series["value"]);
    let several = series["values"].as_array().into_iter().flatten();
    let samples = one.into_iter().chain(several).map(|sample| {
        let seconds = sample[0].as_f64().context("no time")?;
        // The value is a string with all digits.
        let value = sample[1].as_str().context("no value")?;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "timestamps are far below 2^53 milliseconds"
        )]
        let millis = (seconds * 1_000.0).round() as i64;
        Ok((millis, value.parse()?))
    });
    Ok((labels, samples.collect::<Result<_>>()?))
}
