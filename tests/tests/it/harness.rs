//! Tests of the harness itself: servers start, report their versions, and end with their test.

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kelpie_e2e::{ControlPlane, EtcdMember, KubeApiServer, KubeControllerManager, poll};
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use tokio::runtime::Builder;
use xtask::cache;

#[tokio::test]
async fn api_server_has_pinned_version() {
    let control_plane = ControlPlane::start().await.unwrap();
    let client = control_plane.client().await.unwrap();

    let version = client.apiserver_version().await.unwrap();

    let expected = match cache::assets() {
        None => cache::kubernetes_version().unwrap(),
        // Servers from another folder have their own version.
        Some(_) => printed_version(),
    };
    assert_eq!(version.git_version, expected);
    assert_eq!(
        format!("v{}.{}", version.major, version.minor),
        expected.rsplit_once('.').unwrap().0
    );
}

fn printed_version() -> String {
    let server = cache::find("kube-apiserver").unwrap();
    let output = Command::new(server).arg("--version").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.trim().trim_start_matches("Kubernetes ").to_owned()
}

#[tokio::test]
async fn all_etcd_versions_start() {
    for line in ["3.4", "3.5", "3.6", "3.7"] {
        let etcd = EtcdMember::start(&format!("etcd-{line}")).await.unwrap();
        let health = etcd.get("/health").await.unwrap();
        assert_eq!(health["health"], "true", "etcd {line}: {health}");
        let version = etcd.get("/version").await.unwrap();
        let version = version["etcdserver"].as_str().unwrap();
        assert!(version.starts_with(&format!("{line}.")), "{version}");
    }
}

#[tokio::test]
async fn prefixes_separate_clusters() {
    let etcd = EtcdMember::start("etcd").await.unwrap();
    let (one, other) = tokio::try_join!(
        KubeApiServer::start(&etcd, "one"),
        KubeApiServer::start(&etcd, "other"),
    )
    .unwrap();
    let maps = async |api: &KubeApiServer| {
        let client = api.client(&api.admin()).await.unwrap();
        Api::<ConfigMap>::namespaced(client, "default")
    };
    let (maps_of_one, maps_of_other) = (maps(&one).await, maps(&other).await);

    let mut map = ConfigMap::default();
    map.metadata.name = Some("only-in-one".into());
    maps_of_one
        .create(&PostParams::default(), &map)
        .await
        .unwrap();

    let names = async |maps: Api<ConfigMap>| {
        let list = maps.list_metadata(&ListParams::default()).await.unwrap();
        let names = list.items.into_iter().filter_map(|map| map.metadata.name);
        names.collect::<Vec<String>>()
    };
    assert!(names(maps_of_one).await.contains(&"only-in-one".to_owned()));
    assert!(
        !names(maps_of_other)
            .await
            .contains(&"only-in-one".to_owned())
    );
}

#[tokio::test]
async fn garbage_collector_deletes_orphans() {
    let control_plane = ControlPlane::start().await.unwrap();
    let controllers = ["garbage-collector-controller"];
    let manager = KubeControllerManager::start(&control_plane.api, &controllers, &[]).await;
    let _manager = manager.unwrap();
    let maps = Api::<ConfigMap>::namespaced(control_plane.client().await.unwrap(), "default");
    let create = async |name: &str, owner: Option<OwnerReference>| {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(name.into());
        map.metadata.owner_references = owner.map(|owner| vec![owner]);
        maps.create(&PostParams::default(), &map).await.unwrap()
    };
    let owner = create("owner", None).await;
    let reference = OwnerReference {
        api_version: "v1".into(),
        kind: "ConfigMap".into(),
        name: "owner".into(),
        uid: owner.metadata.uid.unwrap(),
        ..OwnerReference::default()
    };
    create("owned", Some(reference)).await;
    create("free", None).await;

    let now = DeleteParams::default();
    maps.delete("owner", &now).await.unwrap();

    poll::until(
        "the deletion of the owned object",
        Duration::from_mins(1),
        async || Ok(maps.get_opt("owned").await?.is_none().then_some(())),
    )
    .await
    .unwrap();
    assert!(maps.get_opt("free").await.unwrap().is_some());
}

#[test]
fn panicking_test_kills_its_servers() {
    let test = thread::spawn(|| {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let control_plane = runtime.block_on(ControlPlane::start()).unwrap();
        let processes = [
            control_plane.api.process().id(),
            control_plane.etcd.process().id(),
        ];
        assert!(processes.into_iter().all(is_running));
        std::panic::panic_any(processes);
    });

    let processes: [u32; 2] = *test.join().unwrap_err().downcast().unwrap();

    for process in processes {
        assert!(!is_running(process), "{process} is still running");
    }
}

fn is_running(process: u32) -> bool {
    Path::new(&format!("/proc/{process}")).exists()
}
