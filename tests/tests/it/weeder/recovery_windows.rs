//! Changes that count as a recovery, and the lifetime of the window that a recovery opens.

use std::collections::BTreeSet;

use kelpie_e2e::landscape::{TestPod, WeederNamespace};
use kelpie_e2e::poll;

use super::fixture::*;

async fn create_crashing_pod(namespace: &WeederNamespace) {
    namespace.create_pod(&TestPod::new("pod")).await.unwrap();
}

/// Each case has its own namespace: slices before, slices after, and whether that is a recovery.
#[tokio::test]
async fn readiness_spans_all_endpoint_slices() {
    type Slices = &'static [(&'static str, &'static [Option<bool>])];
    const UP: Option<bool> = Some(true);
    const DOWN: Option<bool> = Some(false);
    let cases: [(&str, Slices, Slices, bool, bool); 7] = [
        // Name, before, after; recovered with `readiness: any`, with `readiness: all`.
        (
            "second-slice",
            &[("a", &[DOWN]), ("b", &[DOWN])],
            &[("b", &[UP])],
            true,
            false,
        ),
        (
            "all-slices",
            &[("a", &[DOWN]), ("b", &[DOWN])],
            &[("a", &[UP]), ("b", &[UP])],
            true,
            true,
        ),
        ("empty", &[("a", &[DOWN])], &[("a", &[])], false, false),
        (
            "unspecified",
            &[("a", &[DOWN])],
            &[("a", &[None])],
            true,
            true,
        ),
        (
            "one-of-three",
            &[("a", &[DOWN, DOWN, DOWN])],
            &[("a", &[DOWN, UP, DOWN])],
            true,
            false,
        ),
        (
            "still-down",
            &[("a", &[DOWN])],
            &[("a", &[DOWN, DOWN])],
            false,
            false,
        ),
        ("from-empty", &[("a", &[])], &[("a", &[UP])], true, true),
    ];
    let fixture = Fixture::start().await;
    let mut namespaces = Vec::new();
    for (name, before, ..) in &cases {
        let namespace = fixture.empty_namespace(name).await;
        for (slice, endpoints) in *before {
            namespace
                .create_slice(slice, ETCD, endpoints)
                .await
                .unwrap();
        }
        // One pod for each weeder, which the other weeder does not select.
        for mode in ["any", "all"] {
            let pod = TestPod::new(mode).labels(&[("mode", mode)]);
            namespace.create_pod(&pod).await.unwrap();
        }
        namespaces.push(namespace);
    }
    let config = |mode: &str| {
        format!(
            "readiness: {mode}\nservicesAndDependantSelectors: \
             {{etcd: {{podSelectors: [{{matchLabels: {{mode: {mode}}}}}]}}}}\n"
        )
    };
    let any = fixture.weeder(&config("any"), &[]).await;
    let all = fixture.weeder(&config("all"), &[]).await;
    for ((_, _, after, ..), namespace) in cases.iter().zip(&namespaces) {
        for (slice, endpoints) in *after {
            namespace.set_endpoints(slice, endpoints).await.unwrap();
        }
    }
    // Events arrive in order: once this one is observed, all others were.
    let last = fixture.namespace_without_etcd("last").await;
    last.set_endpoints(ETCD, &[Some(true)]).await.unwrap();
    for weeder in [&any, &all] {
        until_observed(weeder, "last", true).await;
    }
    for ((name, _, _, by_any, by_all), namespace) in cases.iter().zip(&namespaces) {
        let mut left = Vec::new();
        left.extend((!by_all).then_some("all"));
        left.extend((!by_any).then_some("any"));
        namespace.until_live_pods(&left, TIMEOUT).await.unwrap();
        for (weeder, recovered) in [(&any, by_any), (&all, by_all)] {
            let state = weeder.service(name, ETCD).await.unwrap();
            assert_eq!(state["window"].is_object(), *recovered, "{name}: {state:#}");
        }
    }
}

#[tokio::test]
async fn window_opens_restarts_and_ends() {
    let fixture = Fixture::start().await;
    let was_ready = fixture.namespace_without_etcd("was-ready").await;
    was_ready.set_endpoints(ETCD, &[Some(true)]).await.unwrap();
    let not_ready = fixture.namespace_without_etcd("not-ready").await;
    for namespace in [&was_ready, &not_ready] {
        create_crashing_pod(namespace).await;
    }
    let weeder = fixture.weeder(CONFIG, &[]).await;

    // At startup a window opens for each ready service only.
    was_ready.until_live_pods(&[], TIMEOUT).await.unwrap();
    assert_eq!(not_ready.live_pods().await.unwrap().len(), 1);
    until_recoveries(&weeder, 0.0).await;

    // A service that stays ready keeps its window unchanged.
    let first = until_window(&weeder, "was-ready").await;
    was_ready
        .set_endpoints(ETCD, &[Some(true), Some(true)])
        .await
        .unwrap();
    let new = fixture.empty_namespace("new").await;
    create_crashing_pod(&new).await;
    // A service that appears ready while the weeder runs counts as a recovery. It is observed after
    // the change above.
    new.create_slice(ETCD, ETCD, &[Some(true)]).await.unwrap();
    new.until_live_pods(&[], TIMEOUT).await.unwrap();
    until_recoveries(&weeder, 1.0).await;
    let still = until_window(&weeder, "was-ready").await;
    assert_eq!(first["window"]["until"], still["window"]["until"]);

    // Another recovery restarts the window.
    was_ready.restart_service(ETCD).await.unwrap();
    let until = &first["window"]["until"];
    let restarted = weeder.until_service("a new end", "was-ready", ETCD, TIMEOUT, |state| {
        state["window"].is_object() && state["window"]["until"] != *until
    });
    restarted.await.unwrap();
    let line = ["window restarted", "was-ready"];
    assert_eq!(weeder.kelpie.lines(&line).len(), 1);

    // Deleting the service ends its window.
    new.delete_slice(ETCD).await.unwrap();
    weeder
        .kelpie
        .until_line(&["window closed", "namespace=\"new\""], TIMEOUT)
        .await
        .unwrap();
    create_crashing_pod(&new).await;

    // The window ends after its duration too.
    until_no_window(&weeder, "was-ready").await;
    create_crashing_pod(&was_ready).await;
    // The next window shows that the pod can be deleted.
    let reference = fixture.namespace_without_etcd("reference").await;
    create_crashing_pod(&reference).await;
    reference.set_endpoints(ETCD, &[Some(true)]).await.unwrap();
    reference.until_live_pods(&[], TIMEOUT).await.unwrap();
    assert_eq!(was_ready.live_pods().await.unwrap().len(), 1);
    assert_eq!(new.live_pods().await.unwrap().len(), 1);
    was_ready.restart_service(ETCD).await.unwrap();
    was_ready.until_live_pods(&[], TIMEOUT).await.unwrap();
}

#[tokio::test]
async fn startup_is_spread_and_namespace_selectable() {
    const MANY: usize = 30;
    let fixture = Fixture::start().await;
    for number in 0..MANY {
        let namespace = fixture.empty_namespace(&format!("ns-{number:02}")).await;
        namespace
            .create_slice(ETCD, ETCD, &[Some(true)])
            .await
            .unwrap();
    }
    let config = CONFIG.replace("20s", "40s");
    let one = fixture.weeder(&config, &["--namespace=ns-07"]).await;
    let all = fixture.weeder(&config, &["--dry-run"]).await;
    let opened = poll::until("all windows", TIMEOUT, async || {
        let lines = all.kelpie.lines(&["window opened"]);
        Ok((lines.len() == MANY).then_some(lines))
    });
    let opened = opened.await.unwrap();
    // Windows open spread over four seconds, a tenth of their length. With this many windows, at
    // least three of those seconds have one.
    let second = |line: &String| line.split(['.', 'Z']).next().unwrap_or_default().to_owned();
    let seconds: BTreeSet<String> = opened.iter().map(second).collect();
    assert!(seconds.len() >= 3, "spread over {seconds:?}");
    until_window(&one, "ns-07").await;
    let known = one.state().await.unwrap();
    let known = known["namespaces"].as_object().unwrap().len();
    assert_eq!(known, 1, "no other namespace is watched");
    assert_eq!(one.kelpie.lines(&["window opened"]).len(), 1);
}
