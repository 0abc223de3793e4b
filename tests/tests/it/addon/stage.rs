//! A spoke, a hub, and the product on them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use kelpie_e2e::landscape::rest;
use kelpie_e2e::{ApiServer, Etcd, Kelpie, kelpie, poll};
use kube::Client;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::history::History;

/// How long anything may take that is expected to happen, on a loaded machine.
pub(super) const PATIENCE: Duration = Duration::from_mins(1);

pub(super) const NAMESPACE: &str = "open-cluster-management-addon-observability";
pub(super) const NAME: &str = "observability-addon";
/// What the spoke is called, and its namespace on the hub.
pub(super) const CLUSTER: &str = "spoke-1";

const GROUP: &str = "/apis/observability.open-cluster-management.io/v1beta1";

/// One API server with the addon's kind and the namespace of its addon.
pub(super) struct Cluster {
    pub(super) api: ApiServer,
    pub(super) client: Client,
    namespace: &'static str,
    folder: TempDir,
}

impl Cluster {
    async fn start(etcd: &Etcd, prefix: &str, namespace: &'static str) -> Self {
        let api = ApiServer::start(etcd, prefix).await.unwrap();
        let client = api.client(&api.admin()).await.unwrap();
        let cluster = Self {
            api,
            client,
            namespace,
            folder: TempDir::new().unwrap(),
        };
        cluster.namespace(namespace).await;
        cluster
    }

    pub(super) async fn namespace(&self, name: &str) {
        let namespace = json!({ "metadata": { "name": name } });
        rest::create(&self.client, "/api/v1/namespaces", &namespace)
            .await
            .unwrap();
    }

    /// Installs a definition and waits until it is served.
    pub(super) async fn install(&self, definition: &str) {
        let file = self.folder.path().join("crd.yaml");
        fs::write(&file, definition).unwrap();
        let file = format!("--filename={}", file.display());
        self.api.kubectl(&["apply", &file]).await.unwrap();
        let wait = [
            "wait",
            "--for=condition=Established",
            "--timeout=60s",
            &file,
        ];
        self.api.kubectl(&wait).await.unwrap();
    }

    /// A kubeconfig of the admin, as a file.
    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.keep("admin.kubeconfig", &self.api.kubeconfig(&self.api.admin()))
    }

    pub(super) fn keep(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// The path of the addons in its namespace.
    pub(super) fn addons(&self) -> String {
        format!("{GROUP}/namespaces/{}/observabilityaddons", self.namespace)
    }

    pub(super) fn path(&self) -> String {
        format!("{}/{NAME}", self.addons())
    }

    pub(super) async fn create_addon(&self, spec: &Value) -> Value {
        let addon = json!({
            "apiVersion": "observability.open-cluster-management.io/v1beta1",
            "kind": "ObservabilityAddon",
            "metadata": { "name": NAME },
            "spec": spec,
        });
        // A definition is served by all parts of the server a moment after it is established.
        poll::until("the addon to be accepted", PATIENCE, async || {
            Ok(rest::create(&self.client, &self.addons(), &addon)
                .await
                .ok())
        })
        .await
        .unwrap()
    }

    pub(super) async fn addon(&self) -> Value {
        rest::read(&self.client, &self.path()).await.unwrap()
    }

    pub(super) async fn merge_status(&self, status: &Value) -> Value {
        let path = format!("{}/status", self.path());
        let patch = json!({ "status": status });
        rest::merge(&self.client, &path, &patch).await.unwrap()
    }

    /// Waits until this standard type is the only one that is True.
    pub(super) async fn until(&self, standing: &str) -> Value {
        let mut last = Value::Null;
        let found = poll::until(standing, PATIENCE, async || {
            let addon = rest::find(&self.client, &self.path()).await?;
            last = addon.unwrap_or_default();
            Ok((trues(&last) == [standing]).then(|| last.clone()))
        });
        match found.await {
            Ok(addon) => addon,
            Err(error) => panic!("{error:#}; the last was {:#}", last["status"]),
        }
    }

    /// Follows its addon from now on.
    pub(super) async fn history(&self) -> History {
        History::start(&self.client, self.namespace).await
    }
}

/// A spoke without a hub: half the servers.
pub(super) struct Alone {
    pub(super) spoke: Cluster,
    etcd: Etcd,
}

impl Alone {
    /// With the kind and an addon.
    pub(super) async fn start() -> Self {
        let stage = Self::bare().await;
        stage.spoke.install(&definition().await).await;
        stage.spoke.create_addon(&json!({})).await;
        stage
    }

    /// Without the kind.
    pub(super) async fn bare() -> Self {
        // Built before anything has to be on time.
        kelpie::program().unwrap();
        let etcd = Etcd::start("etcd").await.unwrap();
        Self {
            spoke: Cluster::start(&etcd, "spoke", NAMESPACE).await,
            etcd,
        }
    }

    /// `kelpie addon status`, for nobody but the spoke.
    pub(super) async fn status(&self, flags: &[&str]) -> Kelpie {
        server(&self.spoke, "status", flags).await
    }
}

pub(super) struct Stage {
    pub(super) spoke: Cluster,
    pub(super) hub: Cluster,
    _etcd: Etcd,
}

impl Stage {
    /// Both clusters with the kind, and an addon on each.
    pub(super) async fn start() -> Self {
        Self::bare().await.furnished().await
    }

    /// The same with a hub whose store is at hand.
    pub(super) async fn with_hub_on(etcd: &Etcd) -> Self {
        let alone = Alone::bare().await;
        let stage = Self {
            spoke: alone.spoke,
            hub: Cluster::start(etcd, "hub", CLUSTER).await,
            _etcd: alone.etcd,
        };
        stage.furnished().await
    }

    async fn furnished(self) -> Self {
        for cluster in [&self.spoke, &self.hub] {
            cluster.install(&definition().await).await;
            cluster.create_addon(&json!({})).await;
        }
        self
    }

    /// Both clusters, without the kind.
    pub(super) async fn bare() -> Self {
        let Alone { spoke, etcd } = Alone::bare().await;
        let hub = Cluster::start(&etcd, "hub", CLUSTER).await;
        Self {
            spoke,
            hub,
            _etcd: etcd,
        }
    }

    /// `kelpie addon status`, replicating to the hub.
    pub(super) async fn status(&self, flags: &[&str]) -> Kelpie {
        self.status_via(&self.hub.kubeconfig(), flags).await
    }

    /// The same with another way to the hub.
    pub(super) async fn status_via(&self, hub: &Path, flags: &[&str]) -> Kelpie {
        let hub = format!("--hub-kubeconfig={}", hub.display());
        let namespace = format!("--hub-namespace={CLUSTER}");
        let flags = [&[hub.as_str(), &namespace], flags].concat();
        server(&self.spoke, "status", &flags).await
    }
}

/// A server of the addon on a spoke.
pub(super) async fn server(spoke: &Cluster, what: &str, flags: &[&str]) -> Kelpie {
    server_as(&spoke.kubeconfig(), what, flags).await
}

/// The same with somebody's rights.
pub(super) async fn server_as(kubeconfig: &Path, what: &str, flags: &[&str]) -> Kelpie {
    let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
    let fixed = [
        "addon",
        what,
        &kubeconfig,
        "--metrics-bind-addr=127.0.0.1:0",
        "--health-bind-addr=127.0.0.1:0",
        "--log-level=debug",
    ];
    let arguments = [&fixed, flags].concat();
    Kelpie::start(&arguments).await.unwrap()
}

/// A command of the addon that ends by itself.
pub(super) async fn run(spoke: &Cluster, arguments: &[&str]) -> Output {
    let kubeconfig = format!("--kubeconfig={}", spoke.kubeconfig().display());
    let arguments = [&["addon"], arguments, &[&kubeconfig]].concat();
    kelpie::run(&arguments).await.unwrap()
}

/// A collector's word; its exit code and what was said.
pub(super) async fn report(
    spoke: &Cluster,
    component: &str,
    reason: &str,
    more: &[&str],
) -> (Option<i32>, String) {
    let arguments = ["report", "--component", component, "--reason", reason];
    let output = run(spoke, &[&arguments, more].concat()).await;
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(said).unwrap())
}

/// The definition as the product prints it.
pub(super) async fn definition() -> String {
    let output = kelpie::run(&["crd"]).await.unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// A component's condition, as the operator would write it.
pub(super) fn component(kind: &str, reason: &str) -> Value {
    json!({
        "type": kind,
        "status": "True",
        "reason": reason,
        "message": "by hand",
        "lastTransitionTime": "2023-11-14T22:13:20Z",
    })
}

pub(super) const M: &str = "MetricsCollectorStatus";
pub(super) const U: &str = "UwlMetricsCollectorStatus";

const STANDARD: [&str; 5] = [
    "Available",
    "Degraded",
    "Disabled",
    "NotSupported",
    "Progressing",
];

/// The standard types that are True.
pub(super) fn trues(addon: &Value) -> Vec<&str> {
    let conditions = addon["status"]["conditions"].as_array();
    let conditions = conditions.into_iter().flatten();
    let holds = conditions.filter(|condition| condition["status"] == "True");
    let kinds = holds.filter_map(|condition| condition["type"].as_str());
    kinds.filter(|kind| STANDARD.contains(kind)).collect()
}

pub(super) fn condition<'a>(addon: &'a Value, kind: &str) -> &'a Value {
    let conditions = addon["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions
        .find(|condition| condition["type"] == kind)
        .unwrap_or(&Value::Null)
}
