//! A kubelet of sorts: each collector's pod is a process with the arguments and the environment of its
//! container, and the API server is told when it is ready.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use anyhow::Result;
use kelpie_e2e::Kelpie;
use kelpie_e2e::landscape::rest;
use kube::Client;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::collectors::core;
use super::stage::Cluster;

/// Between two looks at the pods.
const PAUSE: Duration = Duration::from_millis(100);

/// The pods that run in the addon's namespace.
#[derive(Default)]
pub(super) struct Pods(Mutex<Vec<String>>);

struct Kubelet {
    client: Client,
    kubeconfig: PathBuf,
    /// By the names of their pods; whether they were ready.
    running: BTreeMap<String, (Kelpie, bool)>,
}

impl Pods {
    /// Runs them while a test goes on.
    pub(super) async fn during(spoke: &Cluster, test: impl AsyncFnOnce(&Self)) {
        let kubelet = Kubelet {
            client: spoke.client.clone(),
            kubeconfig: spoke.kubeconfig(),
            running: BTreeMap::new(),
        };
        let pods = Self::default();
        tokio::select! {
            () = kubelet.run(&pods) => {}
            () = test(&pods) => {}
        }
    }

    /// Their names.
    pub(super) fn names(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl Kubelet {
    async fn run(mut self, pods: &Pods) {
        loop {
            // A pod that goes while we look at it is gone at the next look.
            let _ = self.look().await;
            *pods.0.lock().unwrap() = self.running.keys().cloned().collect();
            sleep(PAUSE).await;
        }
    }

    async fn look(&mut self) -> Result<()> {
        let pods = rest::read(&self.client, &core("pods")).await?;
        let pods = pods["items"].as_array().cloned().unwrap_or_default();
        let name = |pod: &Value| pod["metadata"]["name"].as_str().map(str::to_owned);
        let wanted: Vec<String> = pods.iter().filter_map(name).collect();
        self.running.retain(|pod, _| wanted.contains(pod));
        for pod in &pods {
            let Some(name) = name(pod) else { continue };
            if let Some((process, is_ready)) = self.running.get_mut(&name) {
                if !*is_ready && process.get("/readyz").await?.status == 200 {
                    tell(&self.client, &name).await?;
                    *is_ready = true;
                }
            } else {
                let process = start(&pod["spec"]["containers"][0], &self.kubeconfig).await?;
                self.running.insert(name, (process, false));
            }
        }
        Ok(())
    }
}

/// The container's own process, with an address and credentials that work here, and in a hurry: an
/// addon's interval is 15 s at least.
async fn start(container: &Value, kubeconfig: &Path) -> Result<Kelpie> {
    let arguments = container["args"].as_array().into_iter().flatten();
    let arguments = arguments.filter_map(Value::as_str).map(|argument| {
        match argument.split_once('=') {
            Some(("--listen", _)) => "--listen=127.0.0.1:0",
            Some(("--interval", _)) => "--interval=1s",
            _ => argument,
        }
        .to_owned()
    });
    let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
    let more = ["--degrade-after=0s", &kubeconfig].map(str::to_owned);
    let arguments: Vec<String> = arguments.chain(more).collect();
    let variables = container["env"].as_array().into_iter().flatten();
    let variables: Vec<(&str, &str)> = variables
        .filter_map(|variable| Some((variable["name"].as_str()?, variable["value"].as_str()?)))
        .collect();
    Kelpie::start_in(&variables, &arguments).await
}

async fn tell(client: &Client, pod: &str) -> Result<()> {
    let status = json!({ "status": {
        "phase": "Running",
        "conditions": [{ "type": "Ready", "status": "True" }],
    } });
    let path = format!("{}/{pod}/status", core("pods"));
    rest::merge(client, &path, &status).await.map(|_| ())
}
