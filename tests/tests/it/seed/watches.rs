//! Clusters, Secrets and Machines are watched forever.

use std::pin::pin;

use futures_util::Stream;
use kelpie_core::{Eligibility, MachinePhase, eligibility};
use kelpie_e2e::{ApiServer, ControlPlane};
use kelpie_kube::seed::{Change, ClusterFacts, KubeconfigSecret, MachineChange, WatchError};
use secrecy::ExposeSecret;

use super::{apply, next, seed};

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

/// Reads one list: the objects between a restart and its end.
async fn list<T>(
    changes: &mut (impl Stream<Item = Change<T>> + Unpin),
) -> (Vec<T>, Vec<WatchError>) {
    let (mut listed, mut errors, mut has_begun) = (Vec::new(), Vec::new(), false);
    loop {
        match next(changes).await {
            Change::Restarted => {
                listed.clear();
                has_begun = true;
            }
            Change::Applied(object) => listed.push(object),
            Change::Synced if has_begun => return (listed, errors),
            Change::Failed(error) => errors.push(error),
            Change::Synced | Change::Deleted { .. } => panic!("no list without its beginning"),
        }
    }
}

fn names(clusters: &[ClusterFacts]) -> Vec<&str> {
    clusters
        .iter()
        .map(|cluster| cluster.name.as_str())
        .collect()
}

async fn delete_cluster(api: &ApiServer, name: &str) {
    api.kubectl(&["delete", CLUSTERS, name]).await.unwrap();
}

#[tokio::test]
async fn clusters_are_listed_then_watched_and_a_broken_one_disturbs_nobody() {
    let plane = ControlPlane::start().await.unwrap();
    let api = &plane.api;
    api.install_definitions(&[CLUSTERS]).await.unwrap();
    apply(api, &cluster("shoot--a", SHOOT)).await;
    let broken = r#"{"spec": {"provider": {"workers": "many"}}}"#;
    apply(api, &cluster("shoot--b", broken)).await;
    let seed = seed(api, &api.admin()).await;
    let mut clusters = pin!(seed.clusters(None));

    let (listed, errors) = list(&mut clusters).await;

    assert_eq!(errors, []);
    assert_eq!(names(&listed), ["shoot--a", "shoot--b"]);
    let shoot = listed[0].shoot.as_ref().unwrap();
    assert_eq!(eligibility(shoot), Eligibility::Run);
    let problem = listed[1].shoot.as_ref().unwrap_err();
    assert!(problem.ends_with("workers: is not a list"), "{problem}");

    apply(api, &cluster("shoot--c", SHOOT)).await;
    let Change::Applied(found) = next(&mut clusters).await else {
        panic!("a new cluster");
    };
    assert_eq!(found.name, "shoot--c");
    apply(api, &cluster("shoot--b", SHOOT)).await;
    let Change::Applied(found) = next(&mut clusters).await else {
        panic!("a mended cluster");
    };
    assert!(found.shoot.is_ok());
    delete_cluster(api, "shoot--a").await;
    let Change::Deleted { namespace, name } = next(&mut clusters).await else {
        panic!("a deleted cluster");
    };
    assert_eq!((namespace.as_str(), name.as_str()), ("", "shoot--a"));
}

#[tokio::test]
async fn lists_longer_than_a_page_are_complete_and_one_cluster_can_be_picked() {
    let plane = ControlPlane::start().await.unwrap();
    let api = &plane.api;
    api.install_definitions(&[CLUSTERS]).await.unwrap();
    let many: Vec<String> = (0..120)
        .map(|number| cluster(&format!("shoot--{number:03}"), SHOOT))
        .collect();
    let many = format!(
        r#"{{"apiVersion": "v1", "kind": "List", "items": [{}]}}"#,
        many.join(",")
    );
    apply(api, &many).await;
    let seed = seed(api, &api.admin()).await;

    let (all, _) = list(&mut pin!(seed.clusters(None))).await;
    let (one, _) = list(&mut pin!(seed.clusters(Some("shoot--007")))).await;

    assert_eq!(all.len(), 120);
    assert_eq!(names(&one), ["shoot--007"]);
}

#[tokio::test]
async fn a_watch_outlives_the_api_server_and_learns_what_went_while_it_was_blind() {
    let mut plane = ControlPlane::start().await.unwrap();
    plane.api.install_definitions(&[CLUSTERS]).await.unwrap();
    apply(&plane.api, &cluster("shoot--old", SHOOT)).await;
    let seed = seed(&plane.api, &plane.api.admin()).await;
    let mut clusters = pin!(seed.clusters(None));
    let (listed, _) = list(&mut clusters).await;
    assert_eq!(names(&listed), ["shoot--old"]);

    // Another server on the same store: what it does, the first one never hears of.
    let other = ApiServer::start(&plane.etcd, "registry").await.unwrap();
    plane.api.go_down();
    delete_cluster(&other, "shoot--old").await;
    apply(&other, &cluster("shoot--new", SHOOT)).await;
    let Change::Failed(error) = next(&mut clusters).await else {
        panic!("a broken watch");
    };
    assert!(matches!(error, WatchError::Unavailable { .. }), "{error}");
    plane.api.come_back().await.unwrap();

    let (listed, errors) = list(&mut clusters).await;

    assert_eq!(names(&listed), ["shoot--new"]);
    let is_expired = |error: &WatchError| matches!(error, WatchError::Expired { .. });
    assert!(errors.iter().any(is_expired), "{errors:?}");
}

#[tokio::test]
async fn machines_are_looked_for_until_there_is_such_a_kind() {
    let plane = ControlPlane::start().await.unwrap();
    let api = &plane.api;
    let seed = seed(api, &api.admin()).await;
    let mut machines = pin!(seed.machines(None));
    assert!(matches!(
        next(&mut machines).await,
        MachineChange::KindAbsent
    ));

    api.install_definitions(&[MACHINES]).await.unwrap();

    assert!(matches!(
        next(&mut machines).await,
        MachineChange::KindPresent
    ));
    for expected in ["Restarted", "Synced"] {
        let MachineChange::Machine(change) = next(&mut machines).await else {
            panic!("{expected}");
        };
        assert_eq!(format!("{change:?}"), expected);
    }
    let machine = r#"{"apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "Machine",
        "metadata": {"name": "m", "namespace": "default", "labels": {"node": "n"}},
        "spec": {"class": {"kind": "MachineClass", "name": "c"}}}"#;
    apply(api, machine).await;
    let MachineChange::Machine(Change::Applied(found)) = next(&mut machines).await else {
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
    let MachineChange::Machine(Change::Applied(found)) = next(&mut machines).await else {
        panic!("a terminating machine");
    };
    assert_eq!(found.phase, MachinePhase::Terminating);

    api.kubectl(&["delete", "crd", MACHINES]).await.unwrap();
    // That may be a hiccup: it is gone once it was not found for a minute.
    loop {
        match next(&mut machines).await {
            MachineChange::Machine(Change::Failed(WatchError::Absent { .. })) => break,
            MachineChange::Machine(_) => {}
            other => panic!("{other:?}"),
        }
    }

    // And again, with a list from the beginning.
    api.install_definitions(&[MACHINES]).await.unwrap();
    while !matches!(
        next(&mut machines).await,
        MachineChange::Machine(Change::Restarted)
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
async fn only_secrets_of_the_name_are_ever_asked_for() {
    let plane = ControlPlane::start().await.unwrap();
    let api = &plane.api;
    for (namespace, name) in [
        ("default", "shoot-access"),
        ("default", "other"),
        ("kube-public", "shoot-access"),
    ] {
        apply(api, &secret(namespace, name, "kubeconfig")).await;
    }
    // Whoever asks for more than the Secrets of this name is refused.
    let role = r#"{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "narrow"},
        "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list", "watch"],
            "resourceNames": ["shoot-access"]}]}"#;
    apply(api, role).await;
    bind(api, "narrow").await;
    let user = api.user("narrow", &[]).unwrap();
    let seed = seed(api, &user).await;
    let mut secrets = pin!(seed.secrets("shoot-access", None));

    let (listed, errors) = list(&mut secrets).await;

    assert_eq!(errors, []);
    let found: Vec<_> = listed
        .iter()
        .map(|found| found.namespace.as_str())
        .collect();
    assert_eq!(found, ["default", "kube-public"]);
    assert_eq!(content(&listed[0]).unwrap(), b"hello");
    assert!(!format!("{listed:?}").contains("hello"));

    apply(api, &secret("kube-system", "shoot-access", "token")).await;
    let Change::Applied(found) = next(&mut secrets).await else {
        panic!("a new Secret");
    };
    assert_eq!(found.namespace, "kube-system");
    assert_eq!(content(&found), None);
    assert_eq!(found.problem, Some("it has no key `kubeconfig`"));
}

fn content(secret: &KubeconfigSecret) -> Option<&[u8]> {
    secret.kubeconfig.as_ref().map(ExposeSecret::expose_secret)
}

async fn bind(api: &ApiServer, name: &str) {
    let (role, user) = (format!("--clusterrole={name}"), format!("--user={name}"));
    let bind = ["create", "clusterrolebinding", name, &role, &user];
    api.kubectl(&bind).await.unwrap();
}

#[tokio::test]
async fn a_watch_that_is_refused_names_the_remedy_and_goes_on_once_it_is_granted() {
    let plane = ControlPlane::start().await.unwrap();
    let api = &plane.api;
    api.install_definitions(&[CLUSTERS]).await.unwrap();
    let user = api.user("reader", &[]).unwrap();
    let seed = seed(api, &user).await;
    let mut clusters = pin!(seed.clusters(None));
    let Change::Failed(error) = next(&mut clusters).await else {
        panic!("it is refused");
    };
    assert!(matches!(error, WatchError::Denied { .. }), "{error}");
    let said = error.to_string();
    assert!(said.contains("grant list and watch"), "{said}");
    assert!(said.contains(CLUSTERS), "{said}");

    let verbs = "--verb=list,watch";
    let resource = format!("--resource={CLUSTERS}");
    let role = ["create", "clusterrole", "reader", verbs, &resource];
    api.kubectl(&role).await.unwrap();
    bind(api, "reader").await;

    let (listed, _) = list(&mut clusters).await;
    assert_eq!(names(&listed), [""; 0]);
}
