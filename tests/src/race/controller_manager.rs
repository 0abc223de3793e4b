//! A kube-controller-manager that runs as long as its Deployment has replicas.

use std::pin::{Pin, pin};
use std::time::Duration;

use anyhow::Result;
use futures_util::{Stream, StreamExt};
use k8s_openapi::api::apps::v1::Deployment;
use kube::Client;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::KubeControllerManager;
use crate::landscape::deployment_watch;

/// The name of the Deployment.
const DEPLOYMENT: &str = "kube-controller-manager";
const CONTROLLER: &str = "node-lifecycle-controller";

/// Starts and stops a real process as its Deployment is scaled. The process is killed on drop.
pub struct DeployedControllerManager {
    state: watch::Receiver<ControllerManagerState>,
    _task: JoinSet<()>,
}

/// The state of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControllerManagerState {
    /// The process was started at `since`.
    Running { since: Instant },
    /// The Deployment was seen without replicas at `at`. The process is being stopped, or is gone.
    ScaledDown { at: Instant },
}

/// The parameters of the process.
pub(super) struct ControllerManagerLauncher {
    /// The kubeconfig for the API server of the shoot cluster.
    pub(super) kubeconfig: String,
    /// The control namespace in the seed cluster.
    pub(super) namespace: String,
    /// The grace period G.
    pub(super) grace: Duration,
    /// The time between two checks of the nodes.
    pub(super) monitor_period: Duration,
    /// The time from scaling the Deployment to zero until the process is killed.
    pub(super) stop_delay: Duration,
}

impl DeployedControllerManager {
    /// Starts the process, and follows its Deployment from now on.
    pub(super) fn start(seed: &Client, launcher: ControllerManagerLauncher) -> Result<Self> {
        let (since, process) = launcher.launch()?;
        let (sender, state) = watch::channel(ControllerManagerState::Running { since });
        let mut task = JoinSet::new();
        let changes = deployment_watch::changes(seed);
        task.spawn(async move { launcher.follow(process, pin!(changes), &sender).await });
        Ok(Self { state, _task: task })
    }

    /// The current state of the process.
    pub fn state(&self) -> ControllerManagerState {
        *self.state.borrow()
    }

    /// Waits until the process runs, and returns the time of its start; `None` if it cannot be
    /// started.
    pub async fn until_running(&self) -> Option<Instant> {
        let mut state = self.state.clone();
        let found = state.wait_for(|state| matches!(state, ControllerManagerState::Running { .. }));
        match *found.await.ok()? {
            ControllerManagerState::Running { since } => Some(since),
            ControllerManagerState::ScaledDown { .. } => None,
        }
    }
}

impl ControllerManagerLauncher {
    /// Starts a process, which knows nothing of the time before. Returns the time of the start,
    /// too.
    fn launch(&self) -> Result<(Instant, KubeControllerManager)> {
        let start = Instant::now();
        let grace = format!("--node-monitor-grace-period={}s", self.grace.as_secs());
        let period = format!("--node-monitor-period={}s", self.monitor_period.as_secs());
        let flags = [grace.as_str(), period.as_str()];
        let process = KubeControllerManager::launch(&self.kubeconfig, &[CONTROLLER], &flags)?;
        Ok((start, process))
    }

    async fn follow(
        &self,
        mut process: KubeControllerManager,
        mut changes: Pin<&mut impl Stream<Item = Deployment>>,
        sender: &watch::Sender<ControllerManagerState>,
    ) {
        loop {
            self.until(&mut changes, |replicas| replicas == 0).await;
            let at = Instant::now();
            sender.send_replace(ControllerManagerState::ScaledDown { at });
            sleep(self.stop_delay).await;
            drop(process);
            self.until(&mut changes, |replicas| replicas > 0).await;
            // If the start fails, the sender is dropped, which ends each wait for the process.
            let Ok((since, next)) = self.launch() else {
                return;
            };
            process = next;
            sender.send_replace(ControllerManagerState::Running { since });
        }
    }

    async fn until(
        &self,
        changes: &mut Pin<&mut impl Stream<Item = Deployment>>,
        predicate: impl Fn(i32) -> bool,
    ) {
        while let Some(deployment) = changes.next().await {
            if self.replicas(&deployment).is_some_and(&predicate) {
                return;
            }
        }
    }

    /// Returns the desired replicas; `None` for other Deployments.
    fn replicas(&self, deployment: &Deployment) -> Option<i32> {
        let metadata = &deployment.metadata;
        let matches = metadata.namespace.as_deref() == Some(self.namespace.as_str())
            && metadata.name.as_deref() == Some(DEPLOYMENT);
        matches.then(|| deployment.spec.replicas.unwrap_or_default())
    }
}
