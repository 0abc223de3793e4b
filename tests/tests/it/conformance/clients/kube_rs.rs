//! The Rust client, as we use it ourselves.

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

const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn the_rust_client_gets_lists_patches_scales_and_deletes() {
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
    let (how, down) = (PatchParams::default(), json!({ "spec": { "replicas": 0 } }));
    deployments
        .patch_scale("kcm", &how, &Patch::Merge(&down))
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
    let how = PatchParams::apply("test").force();
    maps.patch("a", &how, &Patch::Apply(&map)).await.unwrap();
    let mut read = maps.get("a").await.unwrap();
    let late = read.clone();
    read.data
        .get_or_insert_default()
        .insert("k".into(), "w".into());
    maps.replace("a", &PostParams::default(), &read)
        .await
        .unwrap();
    let error = maps
        .replace("a", &PostParams::default(), &late)
        .await
        .unwrap_err();
    assert!(matches!(error, kube::Error::Api(status) if status.is_conflict()));
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(maps.get_opt("a").await.unwrap().is_none());
}

#[tokio::test]
async fn the_rust_watcher_lists_watches_and_recovers_from_a_cut() {
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
            let event = timeout(PATIENCE, events.next())
                .await
                .expect("an event in time");
            match event.expect("an endless stream") {
                Ok(Event::Init) => {}
                Ok(Event::InitDone) => return "synced".to_owned(),
                Ok(Event::InitApply(map) | Event::Apply(map)) => return map.metadata.name.unwrap(),
                Ok(Event::Delete(map)) => return format!("-{}", map.metadata.name.unwrap()),
                Err(error) => println!("the watch broke off: {error}"),
            }
        };
        assert_eq!(next().await, "a");
        assert_eq!(next().await, "synced");
        store.create(&CONFIG_MAPS, "default", map("b")).unwrap();
        assert_eq!(next().await, "b");
        simulated.server.cut_watches(|_| true);
        store
            .delete(&CONFIG_MAPS, "default", "b", &kelpie_sim::Deletion::now())
            .unwrap();
        assert_eq!(next().await, "-b");
    }
}
