//! A kube-controller-manager that lives as long as its Deployment has replicas.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use futures_util::{Stream, StreamExt};
use k8s_openapi::api::apps::v1::Deployment;
use kube::Client;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::landscape::deployments;
use crate::{ApiServer, ControllerManager};

/// The Deployment that stands for it.
const NAME: &str = "kube-controller-manager";
const CONTROLLER: &str = "node-lifecycle-controller";

/// Starts and ends the real process. It ends when dropped.
pub struct Keeper {
    state: watch::Receiver<Life>,
    _keeping: JoinSet<()>,
}

/// How the process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// It runs since then.
    Since(Instant),
    /// Its Deployment was seen without replicas at that time, and it is gone since.
    Scaled(Instant),
}

/// What the keeper needs to know.
pub(super) struct Charge {
    /// Where it runs.
    pub(super) api: Arc<ApiServer>,
    /// The control namespace in the seed.
    pub(super) shoot: String,
    /// G.
    pub(super) grace: Duration,
    /// It lives on so long after its Deployment was scaled to nothing.
    pub(super) stop: Duration,
}

impl Keeper {
    /// Starts it, and follows its Deployment from then on.
    pub(super) fn start(seed: &Client, charge: Charge) -> Result<Self> {
        let (start, process) = charge.launch()?;
        let (tell, state) = watch::channel(Life::Since(start));
        let mut keeping = JoinSet::new();
        let changes = deployments::changes(seed);
        keeping.spawn(async move { charge.keep(process, pin!(changes), &tell).await });
        Ok(Self {
            state,
            _keeping: keeping,
        })
    }

    /// How it is now.
    pub fn life(&self) -> Life {
        *self.state.borrow()
    }

    /// Waits until it runs.
    pub async fn until_running(&self) -> Option<Instant> {
        let mut state = self.state.clone();
        let found = state.wait_for(|life| matches!(life, Life::Since(_)));
        match *found.await.ok()? {
            Life::Since(start) => Some(start),
            Life::Scaled(_) => None,
        }
    }
}

impl Charge {
    /// The process, and when it was started: it knows nothing of what was before.
    fn launch(&self) -> Result<(Instant, ControllerManager)> {
        let start = Instant::now();
        let grace = format!("--node-monitor-grace-period={}s", self.grace.as_secs());
        let kubeconfig = self.api.kubeconfig(&self.api.admin());
        let process = ControllerManager::launch(&kubeconfig, &[CONTROLLER], &[&grace])?;
        Ok((start, process))
    }

    async fn keep(
        &self,
        mut process: ControllerManager,
        mut changes: Pin<&mut impl Stream<Item = Deployment>>,
        tell: &watch::Sender<Life>,
    ) {
        loop {
            self.until(&mut changes, |replicas| replicas == 0).await;
            tell.send_replace(Life::Scaled(Instant::now()));
            sleep(self.stop).await;
            drop(process);
            self.until(&mut changes, |replicas| replicas > 0).await;
            // Nobody is told that it runs if it does not; whoever waits for it gives up.
            let Ok((start, next)) = self.launch() else {
                return;
            };
            process = next;
            tell.send_replace(Life::Since(start));
        }
    }

    async fn until(
        &self,
        changes: &mut Pin<&mut impl Stream<Item = Deployment>>,
        is_such: impl Fn(i32) -> bool,
    ) {
        while let Some(deployment) = changes.next().await {
            if self.replicas(&deployment).is_some_and(&is_such) {
                return;
            }
        }
    }

    /// How many replicas it shall have, if it is ours.
    fn replicas(&self, deployment: &Deployment) -> Option<i32> {
        let metadata = &deployment.metadata;
        let is_ours = metadata.namespace.as_deref() == Some(self.shoot.as_str())
            && metadata.name.as_deref() == Some(NAME);
        is_ours.then(|| deployment.spec.replicas.unwrap_or_default())
    }
}
