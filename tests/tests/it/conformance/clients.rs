//! Real clients on the simulator: they get, list, watch, patch, scale and delete without noticing.

mod kube_rs;
mod kubectl;
mod own;
mod python;

use kelpie_e2e::Simulated;
use kelpie_sim::resource::{DEPLOYMENTS, NODES, PODS};
use kelpie_sim::server::Hooks;
use serde_json::{Value, json};

/// A simulated cluster with a deployment, its pods and two nodes.
async fn cluster() -> Simulated {
    let simulated = Simulated::start(Hooks::default()).await.unwrap();
    let store = simulated.server.store();
    let labels = json!({ "app": "kcm" });
    let deployment = json!({
        "metadata": { "name": "kcm", "labels": labels },
        "spec": {
            "replicas": 2,
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{ "name": "main", "image": "none" }] },
            },
        },
    });
    store.create(&DEPLOYMENTS, "default", deployment).unwrap();
    for name in ["kcm-a", "kcm-b"] {
        let pod = json!({
            "metadata": { "name": name, "labels": labels },
            "spec": { "containers": [{ "name": "main", "image": "none" }] },
        });
        store.create(&PODS, "default", pod).unwrap();
    }
    for name in ["n1", "n2"] {
        let node = json!({
            "metadata": { "name": name },
            "status": {
                "conditions": [{ "type": "Ready", "status": "True" }],
                // Python's client wants all of it.
                "nodeInfo": {
                    "architecture": "amd64",
                    "bootID": "",
                    "containerRuntimeVersion": "",
                    "kernelVersion": "",
                    "kubeProxyVersion": "",
                    "kubeletVersion": "v1.36.4",
                    "machineID": "",
                    "operatingSystem": "linux",
                    "osImage": "",
                    "systemUUID": "",
                },
            },
        });
        store.create(&NODES, "", node).unwrap();
    }
    simulated
}

/// The deployment as it is in the store.
fn deployment(simulated: &Simulated) -> Value {
    let store = simulated.server.store();
    store.get(&DEPLOYMENTS, "default", "kcm").unwrap()
}
