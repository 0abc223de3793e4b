//! A real kube-controller-manager on a real API server.

use std::fs;

use anyhow::Result;
use xtask::cache;

use crate::api_server::ApiServer;
use crate::folder::Folder;
use crate::process::Process;

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

    /// The process behind it.
    pub fn process(&self) -> &Process {
        &self.process
    }
}
