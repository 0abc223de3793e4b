//! A real kube-controller-manager that runs only the controllers a test needs.

use std::fs;
use std::time::Duration;

use anyhow::Result;
use xtask::cache;

use crate::api_server::KubeApiServer;
use crate::folder::Folder;
use crate::poll;
use crate::process::ServerProcess;

/// Limit for the start of all controllers, which takes a second on an idle machine.
const TIMEOUT: Duration = Duration::from_mins(1);

/// The log message of a controller whose caches are filled.
const SYNCED: &str = "Caches are synced";

/// A running kube-controller-manager. It is killed on drop.
pub struct KubeControllerManager {
    process: ServerProcess,
    // Declared after the process, which must be gone before its folder is removed.
    _folder: Folder,
}

impl KubeControllerManager {
    /// Starts controllers by name, as in `["garbage-collector-controller"]`, with the admin's
    /// permissions, and waits until their caches are synced.
    ///
    /// Install custom resource definitions first: the controllers notice later ones with a delay.
    pub async fn start(api: &KubeApiServer, controllers: &[&str], flags: &[&str]) -> Result<Self> {
        Self::start_as(&api.kubeconfig(&api.admin()), controllers, flags).await
    }

    /// Like [`start`](Self::start), with the identity and address of `kubeconfig`.
    pub async fn start_as(kubeconfig: &str, controllers: &[&str], flags: &[&str]) -> Result<Self> {
        let mut manager = Self::launch(kubeconfig, controllers, flags)?;
        let process = &mut manager.process;
        poll::until_serving(process, "controllers", TIMEOUT, async |process| {
            process.log().matches(SYNCED).count() >= controllers.len()
        })
        .await?;
        Ok(manager)
    }

    /// Starts the process without waiting for its controllers.
    pub fn launch(kubeconfig: &str, controllers: &[&str], flags: &[&str]) -> Result<Self> {
        let program = cache::find("kube-controller-manager")?;
        let folder = Folder::new("kube-controller-manager")?;
        let file = folder.path().join("kubeconfig");
        fs::write(&file, kubeconfig)?;
        let mut arguments = vec![
            format!("--kubeconfig={}", file.display()),
            format!("--controllers={}", controllers.join(",")),
            "--leader-elect=false".to_owned(),
            // No test reads its health or metrics.
            "--secure-port=0".to_owned(),
        ];
        arguments.extend(flags.iter().map(ToString::to_string));
        Ok(Self {
            process: ServerProcess::start(&program, &arguments, &folder.path().join("log"))?,
            _folder: folder,
        })
    }

    /// The process, for its log and its exit.
    pub fn process(&mut self) -> &mut ServerProcess {
        &mut self.process
    }
}
