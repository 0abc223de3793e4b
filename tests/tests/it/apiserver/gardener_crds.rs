//! Gardener's custom resources on a real API server.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kelpie_e2e::ControlPlane;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams};
use serde_json::json;

#[tokio::test]
async fn clusters_and_machines_can_be_created() {
    let control_plane = ControlPlane::start().await.unwrap();
    let names = [
        "clusters.extensions.gardener.cloud",
        "machines.machine.sapcloud.io",
    ];

    control_plane.api.install_crds(&names).await.unwrap();

    let client = control_plane.client().await.unwrap();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for name in names {
        let definition = definitions.get(name).await.unwrap();
        let conditions = definition.status.unwrap().conditions.unwrap();
        let established = conditions.iter().find(|found| found.type_ == "Established");
        assert_eq!(established.unwrap().status, "True", "{name}");
    }

    let kind = GroupVersionKind::gvk("extensions.gardener.cloud", "v1alpha1", "Cluster");
    let resource = ApiResource::from_gvk(&kind);
    let clusters: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let spec = json!({ "cloudProfile": {}, "seed": {}, "shoot": { "kind": "Shoot" } });
    let cluster = DynamicObject::new("shoot--garden--one", &resource).data(json!({ "spec": spec }));
    clusters
        .create(&PostParams::default(), &cluster)
        .await
        .unwrap();
    let read = clusters.get("shoot--garden--one").await.unwrap();
    assert_eq!(read.data["spec"]["shoot"]["kind"], "Shoot");

    let kind = GroupVersionKind::gvk("machine.sapcloud.io", "v1alpha1", "Machine");
    let resource = ApiResource::from_gvk(&kind);
    let machines: Api<DynamicObject> = Api::namespaced_with(client, "default", &resource);
    let spec = json!({ "class": { "kind": "MachineClass", "name": "small" }, "providerID": "a/b" });
    let machine = DynamicObject::new("node-1", &resource).data(json!({ "spec": spec }));
    machines
        .create(&PostParams::default(), &machine)
        .await
        .unwrap();
    let read = machines.get("node-1").await.unwrap();
    assert_eq!(read.data["spec"]["providerID"], "a/b");
}
