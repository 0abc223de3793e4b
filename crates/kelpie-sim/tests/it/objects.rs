//! The API's rules for objects.

use kelpie_core::Time;
use kelpie_sim::resource::{
    CONFIG_MAPS, DEFINITIONS, DEPLOYMENTS, LEASES, NAMESPACES, NODES, PODS, SECRETS,
};
use kelpie_sim::{DeleteOptions, GroupResource, ObjectSelector, StatusReason, WriteScope};
use serde_json::json;

use crate::{named, store};

#[test]
fn create_sets_server_fields() {
    let store = store();
    let created = store.create(&DEPLOYMENTS, "default", named("kcm")).unwrap();
    assert_eq!(created["kind"], "Deployment");
    assert_eq!(created["apiVersion"], "apps/v1");
    assert_eq!(created["spec"]["replicas"], 1);
    let metadata = &created["metadata"];
    assert_eq!(metadata["namespace"], "default");
    assert_eq!(metadata["generation"], 1);
    assert_eq!(metadata["creationTimestamp"], "2027-01-15T08:00:00Z");
    assert_eq!(metadata["uid"].as_str().unwrap().len(), 36);
    assert_eq!(metadata["resourceVersion"], store.version().to_string());
    assert_eq!(store.get(&DEPLOYMENTS, "default", "kcm").unwrap(), created);
}

#[test]
fn generates_names() {
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
    let error = store.create(&PODS, "default", json!({})).unwrap_err();
    assert_eq!(error.reason, StatusReason::Invalid);
}

#[test]
fn create_checks_name_and_namespace() {
    let store = store();
    store.create(&PODS, "default", named("a")).unwrap();
    let error = store.create(&PODS, "default", named("a")).unwrap_err();
    assert_eq!(error.message, "pods \"a\" already exists");
    let error = store.create(&PODS, "nowhere", named("a")).unwrap_err();
    assert_eq!(error.message, "namespaces \"nowhere\" not found");
    let error = store.get(&DEPLOYMENTS, "default", "b").unwrap_err();
    assert_eq!(error.message, "deployments.apps \"b\" not found");
    assert_eq!(error.to_status()["details"]["group"], "apps");
}

#[test]
fn outdated_update_conflicts() {
    let store = store();
    let read = store.create(&CONFIG_MAPS, "default", named("a")).unwrap();
    let change = |object: &mut serde_json::Value| object["data"] = json!({ "k": "v" });
    store
        .modify(&CONFIG_MAPS, "default", "a", WriteScope::Object, change)
        .unwrap();
    let mut late = read.clone();
    late["data"] = json!({ "k": "other" });
    let replace = |object: serde_json::Value| {
        let change = |present: &mut serde_json::Value| *present = object;
        store.modify(&CONFIG_MAPS, "default", "a", WriteScope::Object, change)
    };
    let error = replace(late.clone()).unwrap_err();
    assert_eq!(error.reason, StatusReason::Conflict);
    late["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("resourceVersion");
    replace(late).unwrap();
}

#[test]
fn unchanged_update_keeps_version() {
    let store = store();
    let read = store.create(&CONFIG_MAPS, "default", named("a")).unwrap();
    let version = store.version();
    let same = store.modify(&CONFIG_MAPS, "default", "a", WriteScope::Object, |_| {});
    let same = same.unwrap();
    assert_eq!((same, store.version()), (read, version));
}

#[test]
fn status_is_separate_and_generation_counts_spec() {
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
    let after = set(WriteScope::Object, both);
    assert_eq!(after["spec"]["replicas"], 3);
    assert!(after.get("status").is_none());
    assert_eq!(after["metadata"]["generation"], 2);
    let after = set(WriteScope::Status, |object| {
        object["spec"]["replicas"] = json!(7);
        object["status"] = json!({ "replicas": 3 });
    });
    assert_eq!(after["spec"]["replicas"], 3);
    assert_eq!(after["status"]["replicas"], 3);
    assert_eq!(after["metadata"]["generation"], 2);
}

#[test]
fn finalizers_hold_up_deletion() {
    let store = store();
    let kept = json!({ "metadata": { "name": "a", "finalizers": ["x.io/wait"] } });
    store.create(&CONFIG_MAPS, "default", kept).unwrap();
    store
        .delete(&CONFIG_MAPS, "default", "a", &DeleteOptions::default())
        .unwrap();
    let marked = store.get(&CONFIG_MAPS, "default", "a").unwrap();
    assert_eq!(
        marked["metadata"]["deletionTimestamp"],
        "2027-01-15T08:00:00Z"
    );
    let free = |object: &mut serde_json::Value| object["metadata"]["finalizers"] = json!([]);
    store
        .modify(&CONFIG_MAPS, "default", "a", WriteScope::Object, free)
        .unwrap();
    assert!(store.get(&CONFIG_MAPS, "default", "a").is_err());
}

#[test]
fn only_scheduled_pods_get_grace_period() {
    let store = store();
    let mut pod = named("a");
    store.create(&PODS, "default", pod.clone()).unwrap();
    store
        .delete(&PODS, "default", "a", &DeleteOptions::default())
        .unwrap();
    assert_eq!(store.count(&PODS), 0);
    pod["spec"] = json!({ "nodeName": "n1" });
    store.create(&PODS, "default", pod).unwrap();
    store
        .delete(&PODS, "default", "a", &DeleteOptions::default())
        .unwrap();
    let marked = store.get(&PODS, "default", "a").unwrap();
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 30);
    store
        .delete(&PODS, "default", "a", &DeleteOptions::immediate())
        .unwrap();
    assert_eq!(store.count(&PODS), 0);
}

#[test]
fn delete_checks_preconditions() {
    let store = store();
    let created = store.create(&SECRETS, "default", named("a")).unwrap();
    let text = |field: &str| Some(created["metadata"][field].as_str().unwrap().to_owned());
    let other = DeleteOptions {
        uid: Some("other".into()),
        ..DeleteOptions::default()
    };
    let error = store.delete(&SECRETS, "default", "a", &other).unwrap_err();
    assert!(
        error
            .message
            .contains("the UID in the precondition (other)"),
        "{error}"
    );
    let same = DeleteOptions {
        uid: text("uid"),
        resource_version: text("resourceVersion"),
        grace_period_seconds: None,
    };
    store.delete(&SECRETS, "default", "a", &same).unwrap();
}

#[test]
fn terminating_namespace_rejects_objects() {
    let store = store();
    store.create(&NAMESPACES, "", named("shoot")).unwrap();
    store
        .delete(&NAMESPACES, "", "shoot", &DeleteOptions::default())
        .unwrap();
    let namespace = store.get(&NAMESPACES, "", "shoot").unwrap();
    assert_eq!(namespace["status"]["phase"], "Terminating");
    let error = store.create(&PODS, "shoot", named("a")).unwrap_err();
    assert_eq!(error.reason, StatusReason::Forbidden);
}

#[test]
fn crd_adds_and_removes_resource() {
    let store = store();
    let machines = GroupResource::new("machine.sapcloud.io", "machines");
    assert!(store.list(&machines, &ObjectSelector::all()).is_err());
    let definition = json!({
        "metadata": { "name": "machines.machine.sapcloud.io" },
        "spec": {
            "group": "machine.sapcloud.io",
            "scope": "Namespaced",
            "names": { "kind": "Machine", "plural": "machines", "shortNames": ["mc"] },
            "versions": [
                {
                    "name": "v1alpha1",
                    "served": true,
                    "storage": true,
                    "subresources": { "status": {} },
                },
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
            &DeleteOptions::immediate(),
        )
        .unwrap();
    assert!(store.list(&machines, &ObjectSelector::all()).is_err());
    assert_eq!(store.count(&machines), 0);
}

#[test]
fn renewed_node_lease_reads_like_others() {
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
    store.for_each_renewal("kube-node-lease", |name, at| {
        seen.push((name.to_owned(), at));
    });
    assert_eq!(seen, [("n1".to_owned(), Some(at))]);
}

#[test]
fn lease_with_other_fields_keeps_them() {
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
fn lists_are_sorted_and_filtered() {
    let store = store();
    for (namespace, name, app) in [
        ("kube-system", "a", "etcd"),
        ("default", "c", "etcd"),
        ("default", "b", "kcm"),
    ] {
        let pod = json!({ "metadata": { "name": name, "labels": { "app": app } } });
        store.create(&PODS, namespace, pod).unwrap();
    }
    let names = |selection: &ObjectSelector| -> Vec<String> {
        let (pods, version) = store.list(&PODS, selection).unwrap();
        assert_eq!(version, store.version());
        let name = |pod: &serde_json::Value| pod["metadata"]["name"].as_str().unwrap().to_owned();
        pods.iter().map(name).collect()
    };
    assert_eq!(names(&ObjectSelector::all()), ["b", "c", "a"]);
    assert_eq!(names(&ObjectSelector::in_namespace("default")), ["b", "c"]);
    assert_eq!(
        names(&ObjectSelector::all().with_labels("app=etcd").unwrap()),
        ["c", "a"]
    );
    let named = ObjectSelector::all()
        .with_fields(&PODS, "metadata.name=a")
        .unwrap();
    assert_eq!(names(&named), ["a"]);
}

#[test]
fn same_rng_seed_gives_same_objects() {
    let run = || {
        let store = store();
        let pod = json!({ "metadata": { "generateName": "p-" } });
        for _ in 0..20 {
            store.create(&PODS, "default", pod.clone()).unwrap();
        }
        format!("{:?}", store.list(&PODS, &ObjectSelector::all()).unwrap())
    };
    assert_eq!(run(), run());
}
