//! Objects and the rules they live by.

use kelpie_core::Time;
use kelpie_sim::resource::{
    CONFIG_MAPS, DEFINITIONS, DEPLOYMENTS, LEASES, NAMESPACES, NODES, PODS, SECRETS,
};
use kelpie_sim::{Deletion, Part, Reason, Resource, Selection};
use serde_json::json;

use crate::{named, store};

#[test]
fn an_object_gets_what_the_server_decides() {
    let store = store();
    let made = store.create(&DEPLOYMENTS, "default", named("kcm")).unwrap();
    assert_eq!(made["kind"], "Deployment");
    assert_eq!(made["apiVersion"], "apps/v1");
    assert_eq!(made["spec"]["replicas"], 1);
    let metadata = &made["metadata"];
    assert_eq!(metadata["namespace"], "default");
    assert_eq!(metadata["generation"], 1);
    assert_eq!(metadata["creationTimestamp"], "2027-01-15T08:00:00Z");
    assert_eq!(metadata["uid"].as_str().unwrap().len(), 36);
    assert_eq!(metadata["resourceVersion"], store.version().to_string());
    assert_eq!(store.get(&DEPLOYMENTS, "default", "kcm").unwrap(), made);
}

#[test]
fn a_name_can_be_left_to_the_server() {
    let store = store();
    let pod = json!({ "metadata": { "generateName": "etcd-" } });
    let one = store.create(&PODS, "default", pod.clone()).unwrap();
    let two = store.create(&PODS, "default", pod).unwrap();
    let name = |pod: &serde_json::Value| pod["metadata"]["name"].as_str().unwrap().to_owned();
    assert!(
        name(&one).starts_with("etcd-") && name(&one).len() == 10,
        "{}",
        name(&one)
    );
    assert_ne!(name(&one), name(&two));
    let refusal = store.create(&PODS, "default", json!({})).unwrap_err();
    assert_eq!(refusal.reason, Reason::Invalid);
}

#[test]
fn a_name_is_taken_once_and_only_where_there_is_a_namespace() {
    let store = store();
    store.create(&PODS, "default", named("a")).unwrap();
    let refusal = store.create(&PODS, "default", named("a")).unwrap_err();
    assert_eq!(refusal.message, "pods \"a\" already exists");
    let refusal = store.create(&PODS, "nowhere", named("a")).unwrap_err();
    assert_eq!(refusal.message, "namespaces \"nowhere\" not found");
    let refusal = store.get(&DEPLOYMENTS, "default", "b").unwrap_err();
    assert_eq!(refusal.message, "deployments.apps \"b\" not found");
    assert_eq!(refusal.status()["details"]["group"], "apps");
}

#[test]
fn a_write_that_rests_on_an_old_version_is_a_conflict() {
    let store = store();
    let read = store.create(&CONFIG_MAPS, "default", named("a")).unwrap();
    let change = |object: &mut serde_json::Value| object["data"] = json!({ "k": "v" });
    store
        .modify(&CONFIG_MAPS, "default", "a", Part::Object, change)
        .unwrap();
    let mut late = read.clone();
    late["data"] = json!({ "k": "other" });
    let refusal = store
        .update(&CONFIG_MAPS, late.clone(), Part::Object)
        .unwrap_err();
    assert_eq!(refusal.reason, Reason::Conflict);
    late["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("resourceVersion");
    store.update(&CONFIG_MAPS, late, Part::Object).unwrap();
}

#[test]
fn a_write_that_changes_nothing_makes_no_version() {
    let store = store();
    let read = store.create(&CONFIG_MAPS, "default", named("a")).unwrap();
    let version = store.version();
    let same = store
        .update(&CONFIG_MAPS, read.clone(), Part::Object)
        .unwrap();
    assert_eq!((same, store.version()), (read, version));
}

#[test]
fn the_status_is_apart_and_generations_count_what_is_wanted() {
    let store = store();
    store.create(&DEPLOYMENTS, "default", named("a")).unwrap();
    let set = |part, change: fn(&mut serde_json::Value)| {
        store
            .modify(&DEPLOYMENTS, "default", "a", part, change)
            .unwrap()
    };
    let both = |object: &mut serde_json::Value| {
        object["spec"]["replicas"] = json!(3);
        object["status"] = json!({ "replicas": 3 });
    };
    let after = set(Part::Object, both);
    assert_eq!(after["spec"]["replicas"], 3);
    assert!(after.get("status").is_none());
    assert_eq!(after["metadata"]["generation"], 2);
    let after = set(Part::Status, |object| {
        object["spec"]["replicas"] = json!(7);
        object["status"] = json!({ "replicas": 3 });
    });
    assert_eq!(after["spec"]["replicas"], 3);
    assert_eq!(after["status"]["replicas"], 3);
    assert_eq!(after["metadata"]["generation"], 2);
}

#[test]
fn finalizers_hold_a_deletion_up() {
    let store = store();
    let kept = json!({ "metadata": { "name": "a", "finalizers": ["x.io/wait"] } });
    store.create(&CONFIG_MAPS, "default", kept).unwrap();
    store
        .delete(&CONFIG_MAPS, "default", "a", &Deletion::default())
        .unwrap();
    let marked = store.get(&CONFIG_MAPS, "default", "a").unwrap();
    assert_eq!(
        marked["metadata"]["deletionTimestamp"],
        "2027-01-15T08:00:00Z"
    );
    let free = |object: &mut serde_json::Value| object["metadata"]["finalizers"] = json!([]);
    store
        .modify(&CONFIG_MAPS, "default", "a", Part::Object, free)
        .unwrap();
    assert!(store.get(&CONFIG_MAPS, "default", "a").is_err());
}

#[test]
fn a_pod_on_a_node_has_its_grace_and_one_on_none_goes_at_once() {
    let store = store();
    let mut pod = named("a");
    store.create(&PODS, "default", pod.clone()).unwrap();
    store
        .delete(&PODS, "default", "a", &Deletion::default())
        .unwrap();
    assert_eq!(store.count(&PODS), 0);
    pod["spec"] = json!({ "nodeName": "n1" });
    store.create(&PODS, "default", pod).unwrap();
    store
        .delete(&PODS, "default", "a", &Deletion::default())
        .unwrap();
    let marked = store.get(&PODS, "default", "a").unwrap();
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 30);
    store
        .delete(&PODS, "default", "a", &Deletion::now())
        .unwrap();
    assert_eq!(store.count(&PODS), 0);
}

#[test]
fn a_deletion_can_rest_on_uid_and_version() {
    let store = store();
    let made = store.create(&SECRETS, "default", named("a")).unwrap();
    let text = |field: &str| Some(made["metadata"][field].as_str().unwrap().to_owned());
    let other = Deletion {
        uid: Some("other".into()),
        ..Deletion::default()
    };
    let refusal = store.delete(&SECRETS, "default", "a", &other).unwrap_err();
    assert!(
        refusal
            .message
            .contains("the UID in the precondition (other)"),
        "{refusal}"
    );
    let same = Deletion {
        uid: text("uid"),
        version: text("resourceVersion"),
        grace: None,
    };
    store.delete(&SECRETS, "default", "a", &same).unwrap();
}

#[test]
fn nothing_comes_into_a_namespace_that_is_about_to_go() {
    let store = store();
    store.create(&NAMESPACES, "", named("shoot")).unwrap();
    store
        .delete(&NAMESPACES, "", "shoot", &Deletion::default())
        .unwrap();
    let namespace = store.get(&NAMESPACES, "", "shoot").unwrap();
    assert_eq!(namespace["status"]["phase"], "Terminating");
    let refusal = store.create(&PODS, "shoot", named("a")).unwrap_err();
    assert_eq!(refusal.reason, Reason::Forbidden);
}

#[test]
fn a_purged_namespace_is_gone_with_all_that_is_in_it() {
    let store = store();
    store.create(&NAMESPACES, "", named("shoot")).unwrap();
    store.create(&PODS, "shoot", named("a")).unwrap();
    store.create(&PODS, "default", named("b")).unwrap();
    store.purge("shoot");
    assert!(store.get(&NAMESPACES, "", "shoot").is_err());
    assert_eq!(store.count(&PODS), 1);
}

#[test]
fn a_definition_makes_its_resource_known() {
    let store = store();
    let machines = Resource::new("machine.sapcloud.io", "machines");
    assert!(!store.knows(&machines));
    let definition = json!({
        "metadata": { "name": "machines.machine.sapcloud.io" },
        "spec": {
            "group": "machine.sapcloud.io",
            "scope": "Namespaced",
            "names": { "kind": "Machine", "plural": "machines", "shortNames": ["mc"] },
            "versions": [
                { "name": "v1alpha1", "served": true, "storage": true, "subresources": { "status": {} } },
            ],
        },
    });
    store.create(&DEFINITIONS, "", definition).unwrap();
    let machine = store.create(&machines, "default", named("m")).unwrap();
    assert_eq!(machine["apiVersion"], "machine.sapcloud.io/v1alpha1");
    store
        .delete(
            &DEFINITIONS,
            "",
            "machines.machine.sapcloud.io",
            &Deletion::now(),
        )
        .unwrap();
    assert!(!store.knows(&machines));
    assert_eq!(store.count(&machines), 0);
}

#[test]
fn a_nodes_lease_is_renewed_in_place_and_reads_like_any_other() {
    let store = store();
    let node = store.create(&NODES, "", named("n1")).unwrap();
    let lease = json!({
        "metadata": {
            "name": "n1",
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Node", "name": "n1", "uid": node["metadata"]["uid"],
            }],
        },
        "spec": { "holderIdentity": "n1", "leaseDurationSeconds": 40 },
    });
    store.create(&LEASES, "kube-node-lease", lease).unwrap();
    let before = store.version();
    let at = Time::from_unix(1_800_000_010, 500_000_000);
    store.renew("kube-node-lease", "n1", at).unwrap();
    let read = store.get(&LEASES, "kube-node-lease", "n1").unwrap();
    assert_eq!(read["spec"]["renewTime"], "2027-01-15T08:00:10.500000Z");
    assert_eq!(read["spec"]["holderIdentity"], "n1");
    assert_eq!(
        read["metadata"]["ownerReferences"][0]["uid"],
        node["metadata"]["uid"]
    );
    assert_eq!(
        read["metadata"]["resourceVersion"],
        (before + 1).to_string()
    );
    let mut seen = Vec::new();
    store.renewals("kube-node-lease", |name, at| {
        seen.push((name.to_owned(), at));
    });
    assert_eq!(seen, [("n1".to_owned(), Some(at))]);
}

#[test]
fn a_lease_that_says_more_is_kept_as_it_is() {
    let store = store();
    let lease = json!({
        "metadata": { "name": "leader", "annotations": { "a": "b" } },
        "spec": { "holderIdentity": "me", "leaseDurationSeconds": 15, "leaseTransitions": 2 },
    });
    store.create(&LEASES, "default", lease).unwrap();
    store
        .renew("default", "leader", Time::from_unix(1_800_000_010, 0))
        .unwrap();
    let read = store.get(&LEASES, "default", "leader").unwrap();
    assert_eq!(read["spec"]["leaseTransitions"], 2);
    assert_eq!(read["spec"]["renewTime"], "2027-01-15T08:00:10.000000Z");
    assert_eq!(read["metadata"]["annotations"]["a"], "b");
}

#[test]
fn lists_are_in_order_and_of_what_is_selected() {
    let store = store();
    for (namespace, name, app) in [
        ("kube-system", "a", "etcd"),
        ("default", "c", "etcd"),
        ("default", "b", "kcm"),
    ] {
        let pod = json!({ "metadata": { "name": name, "labels": { "app": app } } });
        store.create(&PODS, namespace, pod).unwrap();
    }
    let names = |selection: &Selection| -> Vec<String> {
        let (pods, version) = store.list(&PODS, selection).unwrap();
        assert_eq!(version, store.version());
        let name = |pod: &serde_json::Value| pod["metadata"]["name"].as_str().unwrap().to_owned();
        pods.iter().map(name).collect()
    };
    assert_eq!(names(&Selection::all()), ["b", "c", "a"]);
    assert_eq!(names(&Selection::in_namespace("default")), ["b", "c"]);
    assert_eq!(
        names(&Selection::all().labelled("app=etcd").unwrap()),
        ["c", "a"]
    );
    let named = Selection::all()
        .with_fields(&PODS, "metadata.name=a")
        .unwrap();
    assert_eq!(names(&named), ["a"]);
}

#[test]
fn the_same_seed_and_calls_give_the_same_bytes() {
    let run = || {
        let store = store();
        let pod = json!({ "metadata": { "generateName": "p-" } });
        for _ in 0..20 {
            store.create(&PODS, "default", pod.clone()).unwrap();
        }
        format!("{:?}", store.list(&PODS, &Selection::all()).unwrap())
    };
    assert_eq!(run(), run());
}
