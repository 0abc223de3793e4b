//! The watches of the Gardener source: Clusters, kubeconfig Secrets and Machines.

use futures_util::Stream;
use kelpie_core::prober::MachinePhase;
use kelpie_e2e::{ControlPlane, KubeApiServer};
use kelpie_kube::client::ApiError;
use kelpie_kube::watch::{OptionalEvent, WatchError, WatchEvent};
use kelpie_prober::source::{ClusterKubeconfig, ClusterObject, Eligibility, ProbePath};
use secrecy::ExposeSecret;

use super::{apply, connect, next};
use crate::fixture::gardener_source;

const CLUSTERS: &str = "clusters.extensions.gardener.cloud";
const MACHINES: &str = "machines.machine.sapcloud.io";

fn cluster(name: &str, shoot: &str) -> String {
    format!(
        r#"{{"apiVersion": "extensions.gardener.cloud/v1alpha1", "kind": "Cluster",
            "metadata": {{"name": "{name}"}},
            "spec": {{"cloudProfile": {{}}, "seed": {{}}, "shoot": {shoot}}}}}"#
    )
}

const SHOOT: &str = r#"{"apiVersion": "core.gardener.cloud/v1beta1", "kind": "Shoot",
    "spec": {"provider": {"workers": [{"name": "pool"}]}},
    "status": {"lastOperation": {"type": "Create", "state": "Succeeded"}}}"#;

/// Reads one complete list: the objects between a restart and its end.
async fn list<T>(
    changes: &mut (impl Stream<Item = WatchEvent<T>> + Unpin),
) -> (Vec<T>, Vec<WatchError>) {
    let (mut listed, mut errors, mut has_begun) = (Vec::new(), Vec::new(), false);
    loop {
        match next(changes).await {
            WatchEvent::Init => {
                listed.clear();
                has_begun = true;
            }
            WatchEvent::Apply(object) => listed.push(object),
            WatchEvent::InitDone if has_begun => return (listed, errors),
            WatchEvent::Error(error) => errors.push(error),
            WatchEvent::InitDone | WatchEvent::Delete { .. } => panic!("an event outside a list"),
        }
    }
}

fn names(clusters: &[ClusterObject]) -> Vec<&str> {
    clusters
        .iter()
        .map(|cluster| &*cluster.identity.id)
        .collect()
}

async fn delete_cluster(api: &KubeApiServer, name: &str) {
    api.kubectl(&["delete", CLUSTERS, name]).await.unwrap();
}

#[tokio::test]
async fn invalid_cluster_does_not_break_the_watch() {
    let control_plane = ControlPlane::start().await.unwrap();
    let api = &control_plane.api;
    api.install_crds(&[CLUSTERS]).await.unwrap();
    apply(api, &cluster("shoot--a", SHOOT)).await;
    let broken = r#"{"spec": {"provider": {"workers": "many"}}}"#;
    apply(api, &cluster("shoot--b", broken)).await;
    let api_client = connect(api, &api.admin()).await;
    let mut clusters = gardener_source(None).clusters(&api_client);

    let (listed, errors) = list(&mut clusters).await;

    assert_eq!(errors, []);
    assert_eq!(names(&listed), ["shoot--a", "shoot--b"]);
    let spec = listed[0].spec.as_ref().unwrap();
    assert_eq!(spec.eligibility, Eligibility::Run);
    let problem = listed[1].spec.as_ref().unwrap_err();
    assert!(problem.ends_with("workers: is not a list"), "{problem}");

    apply(api, &cluster("shoot--c", SHOOT)).await;
    let WatchEvent::Apply(found) = next(&mut clusters).await else {
        panic!("a new cluster");
    };
    assert_eq!(&*found.identity.id, "shoot--c");
    apply(api, &cluster("shoot--b", SHOOT)).await;
    let WatchEvent::Apply(found) = next(&mut clusters).await else {
        panic!("a repaired cluster");
    };
    assert!(found.spec.is_ok());
    delete_cluster(api, "shoot--a").await;
    let WatchEvent::Delete { namespace, name } = next(&mut clusters).await else {
        panic!("a deleted cluster");
    };
    assert_eq!((namespace.as_str(), name.as_str()), ("", "shoot--a"));
}

#[tokio::test]
async fn long_lists_are_complete() {
    let control_plane = ControlPlane::start().await.unwrap();
    let api = &control_plane.api;
    api.install_crds(&[CLUSTERS]).await.unwrap();
    let items: Vec<String> = (0..120)
        .map(|number| cluster(&format!("shoot--{number:03}"), SHOOT))
        .collect();
    let list_object = format!(
        r#"{{"apiVersion": "v1", "kind": "List", "items": [{}]}}"#,
        items.join(",")
    );
    apply(api, &list_object).await;
    let api_client = connect(api, &api.admin()).await;

    let (all, _) = list(&mut gardener_source(None).clusters(&api_client)).await;
    let (one, _) = list(&mut gardener_source(Some("shoot--007")).clusters(&api_client)).await;

    assert_eq!(all.len(), 120);
    assert_eq!(names(&one), ["shoot--007"]);
}

#[tokio::test]
async fn watch_recovers_from_restart() {
    let mut control_plane = ControlPlane::start().await.unwrap();
    control_plane.api.install_crds(&[CLUSTERS]).await.unwrap();
    apply(&control_plane.api, &cluster("shoot--old", SHOOT)).await;
    let api_client = connect(&control_plane.api, &control_plane.api.admin()).await;
    let mut clusters = gardener_source(None).clusters(&api_client);
    let (listed, _) = list(&mut clusters).await;
    assert_eq!(names(&listed), ["shoot--old"]);

    // A second server on the same store. The watch of the first one misses its writes.
    let other = KubeApiServer::start(&control_plane.etcd, "registry")
        .await
        .unwrap();
    control_plane.api.kill();
    delete_cluster(&other, "shoot--old").await;
    apply(&other, &cluster("shoot--new", SHOOT)).await;
    let WatchEvent::Error(error) = next(&mut clusters).await else {
        panic!("a failed watch");
    };
    assert!(matches!(error.cause, ApiError::Unavailable(_)), "{error}");
    control_plane.api.restart().await.unwrap();

    let (listed, errors) = list(&mut clusters).await;

    assert_eq!(names(&listed), ["shoot--new"]);
    let is_expired = |error: &WatchError| error.cause == ApiError::Expired;
    assert!(errors.iter().any(is_expired), "{errors:?}");
}

#[tokio::test]
async fn machines_kind_may_come_and_go() {
    let control_plane = ControlPlane::start().await.unwrap();
    let api = &control_plane.api;
    let api_client = connect(api, &api.admin()).await;
    let mut machines = gardener_source(None).machines(&api_client).unwrap();
    assert!(matches!(
        next(&mut machines).await,
        OptionalEvent::KindAbsent
    ));

    api.install_crds(&[MACHINES]).await.unwrap();

    assert!(matches!(
        next(&mut machines).await,
        OptionalEvent::KindPresent
    ));
    for expected in ["Init", "InitDone"] {
        let OptionalEvent::Watch(change) = next(&mut machines).await else {
            panic!("{expected}");
        };
        assert_eq!(format!("{change:?}"), expected);
    }
    let machine = r#"{"apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "Machine",
        "metadata": {"name": "m", "namespace": "default", "labels": {"node": "n"}},
        "spec": {"class": {"kind": "MachineClass", "name": "c"}}}"#;
    apply(api, machine).await;
    let OptionalEvent::Watch(WatchEvent::Apply(found)) = next(&mut machines).await else {
        panic!("a machine");
    };
    assert_eq!(found.node.as_deref(), Some("n"));
    assert_eq!(found.phase, MachinePhase::Alive);
    let status = r#"{"status": {"currentStatus": {"phase": "Terminating"}}}"#;
    let patch = [
        "patch",
        MACHINES,
        "m",
        "--subresource=status",
        "--type=merge",
        "-p",
        status,
    ];
    api.kubectl(&patch).await.unwrap();
    let OptionalEvent::Watch(WatchEvent::Apply(found)) = next(&mut machines).await else {
        panic!("a terminating machine");
    };
    assert_eq!(found.phase, MachinePhase::Terminating);

    api.kubectl(&["delete", "crd", MACHINES]).await.unwrap();
    // A missing kind may be transient. It counts as gone after a minute.
    loop {
        match next(&mut machines).await {
            OptionalEvent::Watch(WatchEvent::Error(error)) if error.cause == ApiError::NotFound => {
                break;
            }
            OptionalEvent::Watch(_) => {}
            other => panic!("{other:?}"),
        }
    }

    // The kind returns, and the watch starts with a new list.
    api.install_crds(&[MACHINES]).await.unwrap();
    while !matches!(
        next(&mut machines).await,
        OptionalEvent::Watch(WatchEvent::Init)
    ) {}
}

fn secret(namespace: &str, name: &str, key: &str) -> String {
    format!(
        r#"{{"apiVersion": "v1", "kind": "Secret",
            "metadata": {{"name": "{name}", "namespace": "{namespace}"}},
            "data": {{"{key}": "aGVsbG8="}}}}"#
    )
}

#[tokio::test]
async fn secrets_are_requested_by_name_only() {
    let control_plane = ControlPlane::start().await.unwrap();
    let api = &control_plane.api;
    for (namespace, name) in [
        ("default", "shoot-access"),
        ("default", "other"),
        ("kube-public", "shoot-access"),
    ] {
        apply(api, &secret(namespace, name, "kubeconfig")).await;
    }
    // The role rejects requests for Secrets of other names.
    let role = r#"{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "narrow"},
        "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list", "watch"],
            "resourceNames": ["shoot-access"]}]}"#;
    apply(api, role).await;
    bind(api, "narrow").await;
    let user = api.user("narrow", &[]).unwrap();
    let api_client = connect(api, &user).await;
    let mut secrets = gardener_source(None)
        .kubeconfigs(&api_client, ProbePath::Internal)
        .unwrap();

    let (listed, errors) = list(&mut secrets).await;

    assert_eq!(errors, []);
    let found: Vec<_> = listed.iter().map(|found| found.cluster.as_str()).collect();
    assert_eq!(found, ["default", "kube-public"]);
    assert_eq!(content(&listed[0]).unwrap(), b"hello");
    assert!(!format!("{listed:?}").contains("hello"));

    apply(api, &secret("kube-system", "shoot-access", "token")).await;
    let WatchEvent::Apply(found) = next(&mut secrets).await else {
        panic!("a new Secret");
    };
    assert_eq!(found.cluster, "kube-system");
    assert_eq!(content(&found), Err("it has no key `kubeconfig`"));
}

fn content(kubeconfig: &ClusterKubeconfig) -> Result<&[u8], &str> {
    let text = kubeconfig.text.as_ref();
    text.map(ExposeSecret::expose_secret)
        .map_err(String::as_str)
}

/// Binds the user `name` to the `ClusterRole` of the same name.
async fn bind(api: &KubeApiServer, name: &str) {
    let (role, user) = (format!("--clusterrole={name}"), format!("--user={name}"));
    let bind = ["create", "clusterrolebinding", name, &role, &user];
    api.kubectl(&bind).await.unwrap();
}

#[tokio::test]
async fn denied_watch_names_the_remedy_and_recovers() {
    let control_plane = ControlPlane::start().await.unwrap();
    let api = &control_plane.api;
    api.install_crds(&[CLUSTERS]).await.unwrap();
    let user = api.user("reader", &[]).unwrap();
    let api_client = connect(api, &user).await;
    let mut clusters = gardener_source(None).clusters(&api_client);
    let WatchEvent::Error(error) = next(&mut clusters).await else {
        panic!("a denied watch");
    };
    assert!(error.cause.denied().is_some(), "{error}");
    let message = error.to_string();
    assert!(message.contains("grant list and watch"), "{message}");
    assert!(message.contains(CLUSTERS), "{message}");

    let verbs = "--verb=list,watch";
    let resource = format!("--resource={CLUSTERS}");
    let role = ["create", "clusterrole", "reader", verbs, &resource];
    api.kubectl(&role).await.unwrap();
    bind(api, "reader").await;

    let (listed, _) = list(&mut clusters).await;
    assert_eq!(names(&listed), [""; 0]);
}
