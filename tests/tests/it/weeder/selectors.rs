//! Which pods are meant: selectors are the server's to apply.

use kelpie_e2e::landscape::{PodSpec, dependants};
use kelpie_e2e::poll;
use serde_json::json;

use super::stage::*;

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

const MEANT: [(&str, Labels); 4] = [
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
async fn pods_are_selected_by_all_four_operators_and_by_any_of_several_selectors() {
    let stage = Stage::start().await;
    let made = stage.without_etcd("shoot").await;
    for (name, labels) in MEANT.iter().chain(&OTHERS) {
        made.pod(&PodSpec::new(name).labels(labels)).await.unwrap();
    }
    let weeder = stage.weeder(SELECTORS, &[]).await;
    made.set(ETCD, &[Some(true)]).await.unwrap();
    let mut left: Vec<&str> = OTHERS.iter().map(|(name, _)| *name).collect();
    made.until_alive(&left, PATIENCE).await.unwrap();

    // One that is relabelled into the selection, and one that gets there later.
    let labels = json!({ "metadata": { "labels": { "app": "two" } } });
    made.patch("label", &labels).await.unwrap();
    let later = PodSpec::new("later").labels(&[("app", "two")]);
    made.pod(&later.status(dependants::running()))
        .await
        .unwrap();
    let gone = poll::until("the relabelled one to go", PATIENCE, async || {
        let alive = made.alive().await?;
        Ok((!alive.contains_key("label")).then_some(alive))
    });
    assert!(gone.await.unwrap().contains_key("later"));
    made.set_status("later", &dependants::crashing())
        .await
        .unwrap();
    left.retain(|name| *name != "label");
    made.until_alive(&left, PATIENCE).await.unwrap();
    // The four that were meant, and these two.
    until_deletions(&weeder, 6.0).await;
}
