//! A real kube-controller-manager on a real API server.

use std::fs;
use std::time::Duration;

use anyhow::Result;
use xtask::cache;

use crate::api_server::ApiServer;
use crate::folder::Folder;
use crate::poll;
use crate::process::Process;

/// From the start to controllers that know the cluster; it takes a second on an idle machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// What it logs when a controller has read what it needs to know.
const SYNCED: &str = "Caches are synced";

/// A running controller manager. It ends when dropped.
pub struct ControllerManager {
    process: Process,
    // After the process: it must be gone before its folder goes.
    _folder: Folder,
}

impl ControllerManager {
    /// Starts one with these controllers and no others, and some flags more. It acts at once: nobody
    /// is elected, and it listens nowhere.
    pub fn start(api: &ApiServer, controllers: &[&str], flags: &[&str]) -> Result<Self> {
        let folder = Folder::new("kube-controller-manager")?;
        let kubeconfig = folder.path().join("kubeconfig");
        fs::write(&kubeconfig, api.kubeconfig(&api.admin()))?;
        let fixed = [
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--controllers={}", controllers.join(",")),
            "--leader-elect=false".to_owned(),
            "--secure-port=0".to_owned(),
        ];
        let flags = flags.iter().map(|flag| (*flag).to_owned());
        let arguments: Vec<String> = fixed.into_iter().chain(flags).collect();
        let program = cache::find("kube-controller-manager")?;
        let log = folder.path().join("log");
        Ok(Self {
            process: Process::start(&program, &arguments, &log)?,
            _folder: folder,
        })
    }

    /// Waits until so many controllers know the cluster. Kinds that are defined later may be noticed
    /// late: define them before the start.
    pub async fn until_synced(&mut self, controllers: usize) -> Result<()> {
        poll::until_serving(
            &mut self.process,
            "controllers",
            PATIENCE,
            async |process| process.log().matches(SYNCED).count() >= controllers,
        )
        .await?;
        Ok(())
    }

    /// The process behind it.
    pub fn process(&self) -> &Process {
        &self.process
    }
}
