//! Any prober: ours, or somebody else's to be put beside it.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use super::config::ProberConfig;
use crate::folder::Folder;
use crate::process::Process;
use crate::{kelpie, poll};

/// From the start to the line that says where it listens.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a command line says for the two files that a prober needs.
const CONFIG: &str = "{config}";
const KUBECONFIG: &str = "{kubeconfig}";

/// A running prober that is known by its process alone. It is killed when dropped.
pub struct Contender {
    /// The process.
    pub process: Process,
    /// Where ours serves its metrics; nothing of anybody else's is read.
    pub url: Option<String>,
    _folder: Folder,
}

impl Contender {
    /// Ours as it is released, or the program that `command` names, with its arguments; `{config}`
    /// and `{kubeconfig}` stand for the two files. Its log goes to `log`, or with the process.
    pub async fn start(
        command: &[String],
        config: &ProberConfig,
        kubeconfig: &Path,
        log: Option<&Path>,
    ) -> Result<Self> {
        let folder = Folder::new("contender")?;
        let file = folder.path().join("config.yaml");
        std::fs::write(&file, config.yaml())?;
        let (program, words) = if let Some((program, words)) = command.split_first() {
            (program.into(), words.to_vec())
        } else {
            (kelpie::release()?, gardeners_words())
        };
        let fill = |word: &String| {
            word.replace(CONFIG, &file.display().to_string())
                .replace(KUBECONFIG, &kubeconfig.display().to_string())
        };
        let words: Vec<String> = words.iter().map(fill).collect();
        let own_log = folder.path().join("log");
        let process = Process::start(&program, &words, log.unwrap_or(&own_log))?;
        let mut contender = Self {
            process,
            url: None,
            _folder: folder,
        };
        if command.is_empty() {
            contender.url = Some(contender.listening().await?);
        }
        Ok(contender)
    }

    async fn listening(&self) -> Result<String> {
        let process = &self.process;
        let found = poll::until("the prober to listen", PATIENCE, async || {
            Ok(kelpie::listens_at(&process.log()))
        });
        found.await.with_context(|| process.log_tail())
    }
}

/// What follows the program's name as Gardener starts it: ours, and what ours replaces.
pub fn gardeners_words() -> Vec<String> {
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
