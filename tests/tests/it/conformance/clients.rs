//! Real clients on the simulator: they get, list, watch, patch, scale and delete as on a real
//! server.

mod kelpie;
mod kube_rs;
mod kubectl;
mod python;

use kelpie_e2e::SimApiServer;
use kelpie_sim::resource::{DEPLOYMENTS, NODES, PODS};
use kelpie_sim::server::ServerHooks;
use serde_json::{Value, json};

/// Starts a simulated cluster with a Deployment, its pods and two nodes.
async fn cluster() -> SimApiServer {
    let simulated = SimApiServer::start(ServerHooks::default()).await.unwrap();
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
                // Mandatory fields for Python's client.
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

/// Reads the Deployment from the store.
fn deployment(simulated: &SimApiServer) -> Value {
    let store = simulated.server.store();
    store.get(&DEPLOYMENTS, "default", "kcm").unwrap()
}
