//! kube-rs, which Kelpie uses itself.

use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kelpie_e2e::Credentials;
use kelpie_sim::resource::CONFIG_MAPS;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher::{self, Event, watcher};
use serde_json::json;
use tokio::time::timeout;

use super::{cluster, deployment};

const TIMEOUT: Duration = Duration::from_secs(30);

#[tokio::test]
async fn kube_rs_reads_and_writes() {
    let simulated = cluster().await;
    let client = simulated.client(&Credentials::admin()).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let listed = pods
        .list(&ListParams::default().labels("app=kcm").limit(1))
        .await
        .unwrap();
    assert_eq!(listed.items.len(), 1);
    assert!(listed.metadata.continue_.is_some());

    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    let scale = deployments.get_scale("kcm").await.unwrap();
    assert_eq!(scale.spec.unwrap().replicas, Some(2));
    let (params, down) = (PatchParams::default(), json!({ "spec": { "replicas": 0 } }));
    deployments
        .patch_scale("kcm", &params, &Patch::Merge(&down))
        .await
        .unwrap();
    assert_eq!(deployment(&simulated)["spec"]["replicas"], 0);

    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let map = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": "a" },
        "data": { "k": "v" },
    });
    let params = PatchParams::apply("test").force();
    maps.patch("a", &params, &Patch::Apply(&map)).await.unwrap();
    let mut read = maps.get("a").await.unwrap();
    let stale = read.clone();
    read.data
        .get_or_insert_default()
        .insert("k".into(), "w".into());
    maps.replace("a", &PostParams::default(), &read)
        .await
        .unwrap();
    let error = maps
        .replace("a", &PostParams::default(), &stale)
        .await
        .unwrap_err();
    assert!(matches!(error, kube::Error::Api(status) if status.is_conflict()));
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(maps.get_opt("a").await.unwrap().is_none());
}

#[tokio::test]
async fn kube_rs_watcher_recovers() {
    let simulated = cluster().await;
    let store = simulated.server.store();
    let map = |name: &str| json!({ "metadata": { "name": name } });
    store.create(&CONFIG_MAPS, "default", map("a")).unwrap();
    let client = simulated.client(&Credentials::admin()).await.unwrap();
    for config in [
        watcher::Config::default(),
        watcher::Config::default().streaming_lists(),
    ] {
        let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
        let mut events = pin!(watcher(maps, config));
        let mut next = async || loop {
            let event = timeout(TIMEOUT, events.next())
                .await
                .expect("an event in time");
            match event.expect("an endless stream") {
                Ok(Event::Init) => {}
                Ok(Event::InitDone) => return "synced".to_owned(),
                Ok(Event::InitApply(map) | Event::Apply(map)) => return map.metadata.name.unwrap(),
                Ok(Event::Delete(map)) => return format!("-{}", map.metadata.name.unwrap()),
                Err(error) => println!("the watch failed: {error}"),
            }
        };
        assert_eq!(next().await, "a");
        assert_eq!(next().await, "synced");
        store.create(&CONFIG_MAPS, "default", map("b")).unwrap();
        assert_eq!(next().await, "b");
        simulated.server.reset_watches(|_| true);
        store
            .delete(
                &CONFIG_MAPS,
                "default",
                "b",
                &kelpie_sim::DeleteOptions::immediate(),
            )
            .unwrap();
        assert_eq!(next().await, "-b");
    }
}
