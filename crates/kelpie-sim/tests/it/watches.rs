//! Watches on a store.

use kelpie_core::Time;
use kelpie_sim::resource::{CONFIG_MAPS, LEASES, PODS};
use kelpie_sim::{DeleteOptions, ObjectSelector, ObjectStore, StoreEvent, WriteScope};
use serde_json::{Value, json};

use crate::{named, store};

/// Summarizes an event as sign, name and version, such as `+a@7`.
fn summary(event: &StoreEvent) -> String {
    let describe = |sign: &str, object: &Value| {
        let metadata = &object["metadata"];
        let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
        format!("{sign}{}@{}", text("name"), text("resourceVersion"))
    };
    match event {
        StoreEvent::Added(object) => describe("+", object),
        StoreEvent::Modified(object) => describe("~", object),
        StoreEvent::Deleted(object) => describe("-", object),
        StoreEvent::Expired => "expired".into(),
    }
}

fn drain(watch: &mut kelpie_sim::ObjectWatch) -> Vec<String> {
    std::iter::from_fn(|| watch.try_next())
        .map(|event| summary(&event))
        .collect()
}

fn label(store: &ObjectStore, name: &str, app: &str) {
    let change = |object: &mut Value| object["metadata"]["labels"] = json!({ "app": app });
    store
        .modify(&PODS, "default", name, WriteScope::Object, change)
        .unwrap();
}

#[test]
fn watch_continues_after_list() {
    let store = store();
    store.create(&PODS, "default", named("a")).unwrap();
    let (_, version) = store.list(&PODS, &ObjectSelector::all()).unwrap();
    store.create(&PODS, "default", named("b")).unwrap();
    let mut watch = store
        .watch(&PODS, ObjectSelector::all(), Some(version))
        .unwrap();
    label(&store, "a", "x");
    store
        .delete(&PODS, "default", "b", &DeleteOptions::default())
        .unwrap();
    let at = |more: u64| (version + more).to_string();
    let expected = [
        format!("+b@{}", at(1)),
        format!("~a@{}", at(2)),
        format!("-b@{}", at(3)),
    ];
    assert_eq!(drain(&mut watch), expected);
}

#[test]
fn unversioned_watch_starts_with_existing_objects() {
    let store = store();
    store.create(&PODS, "default", named("a")).unwrap();
    let mut watch = store.watch(&PODS, ObjectSelector::all(), None).unwrap();
    store.create(&PODS, "default", named("b")).unwrap();
    let version = store.version();
    assert_eq!(
        drain(&mut watch),
        [format!("+a@{}", version - 1), format!("+b@{version}")]
    );
}

#[test]
fn selection_changes_are_added_and_deleted() {
    let store = store();
    store.create(&PODS, "default", named("a")).unwrap();
    let selection = ObjectSelector::all().with_labels("app=x").unwrap();
    let mut watch = store.watch(&PODS, selection, None).unwrap();
    label(&store, "a", "x");
    label(&store, "a", "y");
    label(&store, "a", "z");
    let version = store.version();
    assert_eq!(
        drain(&mut watch),
        [format!("+a@{}", version - 2), format!("-a@{}", version - 1)]
    );
}

#[test]
fn late_watch_expires() {
    let store = store();
    store.create(&CONFIG_MAPS, "default", named("a")).unwrap();
    let version = store.version();
    let change = |n: u32| move |object: &mut Value| object["data"] = json!({ "n": n.to_string() });
    for n in 0..100 {
        store
            .modify(&CONFIG_MAPS, "default", "a", WriteScope::Object, change(n))
            .unwrap();
    }
    let mut watch = store
        .watch(&CONFIG_MAPS, ObjectSelector::all(), Some(version))
        .unwrap();
    assert_eq!(watch.try_next(), Some(StoreEvent::Expired));
    assert_eq!(watch.try_next(), Some(StoreEvent::Expired));
    let late = store.version() - 10;
    let mut watch = store
        .watch(&CONFIG_MAPS, ObjectSelector::all(), Some(late))
        .unwrap();
    assert_eq!(drain(&mut watch).len(), 10);
    store.compact(&CONFIG_MAPS);
    store
        .modify(
            &CONFIG_MAPS,
            "default",
            "a",
            WriteScope::Object,
            change(200),
        )
        .unwrap();
    assert_eq!(drain(&mut watch).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn watch_wakes_on_change() {
    let store = store();
    let lease = json!({
        "metadata": { "name": "n1" },
        "spec": { "holderIdentity": "n1", "leaseDurationSeconds": 40 },
    });
    store.create(&LEASES, "kube-node-lease", lease).unwrap();
    let mut watch = store
        .watch(&LEASES, ObjectSelector::all(), Some(store.version()))
        .unwrap();
    let renewing = async {
        tokio::task::yield_now().await;
        store
            .renew("kube-node-lease", "n1", Time::from_unix(1_800_000_010, 0))
            .unwrap();
    };
    let (event, ()) = tokio::join!(watch.next(), renewing);
    let StoreEvent::Modified(lease) = event else {
        panic!("{event:?}");
    };
    assert_eq!(lease["spec"]["renewTime"], "2027-01-15T08:00:10.000000Z");
}
