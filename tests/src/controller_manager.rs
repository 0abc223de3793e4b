//! A real kube-controller-manager, with the controllers that a test is about and no others.

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

/// Running controllers. They end when dropped.
pub struct ControllerManager {
    process: Process,
    // After the process: it must be gone before its folder goes.
    _folder: Folder,
}

impl ControllerManager {
    /// Starts these controllers, as in `["garbage-collector-controller"]`, as the admin of `api`, and
    /// waits until each knows the cluster. Kinds that are defined later may be noticed late: define
    /// them first.
    pub async fn start(api: &ApiServer, controllers: &[&str], flags: &[&str]) -> Result<Self> {
        Self::start_as(&api.kubeconfig(&api.admin()), controllers, flags).await
    }

    /// The same with somebody else's rights, or by way of another address.
    pub async fn start_as(kubeconfig: &str, controllers: &[&str], flags: &[&str]) -> Result<Self> {
        let mut manager = Self::launch(kubeconfig, controllers, flags)?;
        let process = &mut manager.process;
        poll::until_serving(process, "controllers", PATIENCE, async |process| {
            process.log().matches(SYNCED).count() >= controllers.len()
        })
        .await?;
        Ok(manager)
    }

    /// The same without waiting for anything.
    pub fn launch(kubeconfig: &str, controllers: &[&str], flags: &[&str]) -> Result<Self> {
        let program = cache::find("kube-controller-manager")?;
        let folder = Folder::new("kube-controller-manager")?;
        let file = folder.path().join("kubeconfig");
        fs::write(&file, kubeconfig)?;
        let mut arguments = vec![
            format!("--kubeconfig={}", file.display()),
            format!("--controllers={}", controllers.join(",")),
            "--leader-elect=false".to_owned(),
            // Nobody asks it anything.
            "--secure-port=0".to_owned(),
        ];
        arguments.extend(flags.iter().map(ToString::to_string));
        Ok(Self {
            process: Process::start(&program, &arguments, &folder.path().join("log"))?,
            _folder: folder,
        })
    }

    /// The process behind it: its log, its end.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}
