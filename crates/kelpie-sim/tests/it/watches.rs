//! Who watches is told everything, in order.

use kelpie_core::Time;
use kelpie_sim::resource::{CONFIG_MAPS, LEASES, PODS};
use kelpie_sim::{Deletion, Event, Part, Selection, Store};
use serde_json::{Value, json};

use crate::{named, store};

/// An event in short: what happened to which object at which version.
fn short(event: &Event) -> String {
    let told = |sign: &str, object: &Value| {
        let metadata = &object["metadata"];
        let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
        format!("{sign}{}@{}", text("name"), text("resourceVersion"))
    };
    match event {
        Event::Added(object) => told("+", object),
        Event::Modified(object) => told("~", object),
        Event::Deleted(object) => told("-", object),
        Event::Expired => "expired".into(),
    }
}

fn all(watch: &mut kelpie_sim::Watch) -> Vec<String> {
    std::iter::from_fn(|| watch.try_next())
        .map(|event| short(&event))
        .collect()
}

fn label(store: &Store, name: &str, app: &str) {
    let change = |object: &mut Value| object["metadata"]["labels"] = json!({ "app": app });
    store
        .modify(&PODS, "default", name, Part::Object, change)
        .unwrap();
}

#[test]
fn a_watch_goes_on_where_the_list_ended() {
    let store = store();
    store.create(&PODS, "default", named("a")).unwrap();
    let (_, version) = store.list(&PODS, &Selection::all()).unwrap();
    store.create(&PODS, "default", named("b")).unwrap();
    let mut watch = store.watch(&PODS, Selection::all(), Some(version)).unwrap();
    label(&store, "a", "x");
    store
        .delete(&PODS, "default", "b", &Deletion::default())
        .unwrap();
    let at = |more: u64| (version + more).to_string();
    let expected = [
        format!("+b@{}", at(1)),
        format!("~a@{}", at(2)),
        format!("-b@{}", at(3)),
    ];
    assert_eq!(all(&mut watch), expected);
}

#[test]
fn without_a_version_a_watch_begins_with_what_is_there() {
    let store = store();
    store.create(&PODS, "default", named("a")).unwrap();
    let mut watch = store.watch(&PODS, Selection::all(), None).unwrap();
    store.create(&PODS, "default", named("b")).unwrap();
    let version = store.version();
    assert_eq!(
        all(&mut watch),
        [format!("+a@{}", version - 1), format!("+b@{version}")]
    );
}

#[test]
fn what_comes_to_be_selected_is_added_and_what_ceases_to_be_is_deleted() {
    let store = store();
    store.create(&PODS, "default", named("a")).unwrap();
    let selection = Selection::all().labelled("app=x").unwrap();
    let mut watch = store.watch(&PODS, selection, None).unwrap();
    label(&store, "a", "x");
    label(&store, "a", "y");
    label(&store, "a", "z");
    let version = store.version();
    assert_eq!(
        all(&mut watch),
        [format!("+a@{}", version - 2), format!("-a@{}", version - 1)]
    );
}

#[test]
fn who_comes_too_late_is_told_so() {
    let store = store();
    store.create(&CONFIG_MAPS, "default", named("a")).unwrap();
    let version = store.version();
    let change = |n: u32| move |object: &mut Value| object["data"] = json!({ "n": n.to_string() });
    for n in 0..100 {
        store
            .modify(&CONFIG_MAPS, "default", "a", Part::Object, change(n))
            .unwrap();
    }
    let mut watch = store
        .watch(&CONFIG_MAPS, Selection::all(), Some(version))
        .unwrap();
    assert_eq!(watch.try_next(), Some(Event::Expired));
    assert_eq!(watch.try_next(), Some(Event::Expired));
    let late = store.version() - 10;
    let mut watch = store
        .watch(&CONFIG_MAPS, Selection::all(), Some(late))
        .unwrap();
    assert_eq!(all(&mut watch).len(), 10);
    store.compact(&CONFIG_MAPS);
    store
        .modify(&CONFIG_MAPS, "default", "a", Part::Object, change(200))
        .unwrap();
    assert_eq!(all(&mut watch).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_watch_wakes_up_when_something_happens() {
    let store = store();
    let lease = json!({
        "metadata": { "name": "n1" },
        "spec": { "holderIdentity": "n1", "leaseDurationSeconds": 40 },
    });
    store.create(&LEASES, "kube-node-lease", lease).unwrap();
    let mut watch = store
        .watch(&LEASES, Selection::all(), Some(store.version()))
        .unwrap();
    let renewing = async {
        tokio::task::yield_now().await;
        store
            .renew("kube-node-lease", "n1", Time::from_unix(1_800_000_010, 0))
            .unwrap();
    };
    let (event, ()) = tokio::join!(watch.next(), renewing);
    let Event::Modified(lease) = event else {
        panic!("{event:?}");
    };
    assert_eq!(lease["spec"]["renewTime"], "2027-01-15T08:00:10.000000Z");
}
