//! Pod selectors, which the API server and the weeder evaluate.

use kelpie_e2e::landscape::{TestPod, weeder_namespace};
use kelpie_e2e::poll;
use serde_json::json;

use super::fixture::*;

const SELECTORS: &str = "\
servicesAndDependantSelectors:
  etcd:
    podSelectors:
    - matchLabels: {app: one}
      matchExpressions:
      - {key: role, operator: In, values: [a, b]}
      - {key: mode, operator: NotIn, values: [stop]}
      - {key: needed, operator: Exists}
      - {key: banned, operator: DoesNotExist}
    - matchExpressions:
      - {key: app, operator: In, values: [two, three]}
";

type Labels = &'static [(&'static str, &'static str)];

const SELECTED: [(&str, Labels); 4] = [
    ("in", &[("app", "one"), ("role", "a"), ("needed", "")]),
    (
        "not-in-absent",
        &[("app", "one"), ("role", "b"), ("needed", "x")],
    ),
    (
        "not-in-other",
        &[
            ("app", "one"),
            ("role", "b"),
            ("needed", "x"),
            ("mode", "go"),
        ],
    ),
    ("second-selector", &[("app", "three"), ("banned", "")]),
];

const OTHERS: [(&str, Labels); 6] = [
    (
        "banned",
        &[
            ("app", "one"),
            ("role", "a"),
            ("needed", ""),
            ("banned", "x"),
        ],
    ),
    ("label", &[("app", "four"), ("role", "a"), ("needed", "")]),
    ("missing", &[("app", "one"), ("role", "a")]),
    (
        "not-in",
        &[
            ("app", "one"),
            ("role", "a"),
            ("needed", ""),
            ("mode", "stop"),
        ],
    ),
    (
        "other-value",
        &[("app", "one"), ("role", "c"), ("needed", "")],
    ),
    ("unlabelled", &[]),
];

#[tokio::test]
async fn selectors_support_all_operators() {
    let fixture = Fixture::start().await;
    let namespace = fixture.namespace_without_etcd("shoot").await;
    for (name, labels) in SELECTED.iter().chain(&OTHERS) {
        namespace
            .create_pod(&TestPod::new(name).labels(labels))
            .await
            .unwrap();
    }
    let weeder = fixture.weeder(SELECTORS, &[]).await;
    namespace.set_endpoints(ETCD, &[Some(true)]).await.unwrap();
    let mut left: Vec<&str> = OTHERS.iter().map(|(name, _)| *name).collect();
    namespace.until_live_pods(&left, TIMEOUT).await.unwrap();

    // One pod is relabelled so that it matches, and another one is created later.
    let labels = json!({ "metadata": { "labels": { "app": "two" } } });
    namespace.patch_pod("label", &labels).await.unwrap();
    let later = TestPod::new("later").labels(&[("app", "two")]);
    namespace
        .create_pod(&later.status(weeder_namespace::running_status()))
        .await
        .unwrap();
    let deleted = poll::until("the relabelled pod to be deleted", TIMEOUT, async || {
        let alive = namespace.live_pods().await?;
        Ok((!alive.contains_key("label")).then_some(alive))
    });
    assert!(deleted.await.unwrap().contains_key("later"));
    namespace
        .set_status("later", &weeder_namespace::crashing_status())
        .await
        .unwrap();
    left.retain(|name| *name != "label");
    namespace.until_live_pods(&left, TIMEOUT).await.unwrap();
    // The four selected at first, and these two.
    until_deletions(&weeder, 6.0).await;
}
