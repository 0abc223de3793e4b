//! Any prober: Kelpie or another program, to compare them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::command_line::ALLOW_LOCAL_CLUSTERS;
use super::prober_config_file::ProberConfigFile;
use crate::folder::Folder;
use crate::process::ServerProcess;
use crate::{etcd, kelpie, plain_http, poll};

/// Limit for the start, until the address is logged.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Placeholders in a command line for the two files that a prober needs.
const CONFIG: &str = "{config}";
const KUBECONFIG: &str = "{kubeconfig}";

/// A running prober, observed only through its process. It is killed on drop.
pub struct AnyProber {
    /// The process, for its log, memory and CPU time.
    pub process: ServerProcess,
    /// The address of the metrics; `None` unless the program is called `kelpie`.
    pub url: Option<String>,
    _folder: Folder,
}

impl AnyProber {
    /// Starts Kelpie with all optimisations, or the program and arguments of `command` unless it is
    /// empty. `{config}` and `{kubeconfig}` in it are replaced by the paths of the two files.
    ///
    /// The output goes to `log`. Without one it is lost when the prober is dropped.
    pub async fn start(
        command: &[String],
        config: &ProberConfigFile,
        kubeconfig: &Path,
        log: Option<&Path>,
    ) -> Result<Self> {
        Self::start_with_flags(command, &[], config, kubeconfig, log).await
    }

    /// Like [`start`](Self::start), with additional flags.
    pub async fn start_with_flags(
        command: &[String],
        flags: &[String],
        config: &ProberConfigFile,
        kubeconfig: &Path,
        log: Option<&Path>,
    ) -> Result<Self> {
        let folder = Folder::new("any-prober")?;
        let file = folder.path().join("config.yaml");
        std::fs::write(&file, config.yaml())?;
        let (program, arguments) = if let Some((program, arguments)) = command.split_first() {
            (PathBuf::from(program), arguments.to_vec())
        } else {
            (kelpie::dist_binary()?, gardener_args())
        };
        let fill = |argument: &String| {
            argument
                .replace(CONFIG, &file.display().to_string())
                .replace(KUBECONFIG, &kubeconfig.display().to_string())
        };
        let mut arguments: Vec<String> = arguments.iter().chain(flags).map(fill).collect();
        let is_kelpie = program.file_name().is_some_and(|name| name == "kelpie");
        if is_kelpie {
            arguments.push(ALLOW_LOCAL_CLUSTERS.to_owned());
        }
        let own_log = folder.path().join("log");
        let process = ServerProcess::start(&program, &arguments, log.unwrap_or(&own_log))?;
        let mut prober = Self {
            process,
            url: None,
            _folder: folder,
        };
        if is_kelpie {
            prober.url = Some(prober.until_listening().await?);
        }
        Ok(prober)
    }

    /// Returns true if this replica is the leader; `None` if it does not say so.
    pub async fn leads(&self) -> Option<bool> {
        let metrics = plain_http::get(self.url.as_deref()?, "/metrics").await;
        let value = etcd::series_value(&metrics.ok()?.body, "kelpie_prober_leader")?;
        Some(value > 0.5)
    }

    async fn until_listening(&self) -> Result<String> {
        let process = &self.process;
        let found = poll::until("the prober to listen", TIMEOUT, async || {
            Ok(kelpie::listen_url(&process.log()))
        });
        found.await.with_context(|| process.log_tail())
    }
}

/// The arguments with which Gardener starts its prober, both dependency-watchdog and Kelpie.
pub fn gardener_args() -> Vec<String> {
    let flags = [
        "prober",
        "--config-file={config}",
        "--kubeconfig={kubeconfig}",
        "--kube-api-qps=20",
        "--kube-api-burst=100",
        "--metrics-bind-addr=127.0.0.1:0",
        "--health-bind-addr=127.0.0.1:0",
    ];
    flags.map(str::to_owned).to_vec()
}
