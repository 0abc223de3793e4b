//! Pods that are deleted in a window, pods that are not, and the Events about them.

use std::time::Duration;

use kelpie_e2e::landscape::{ProxyFault, TcpProxy, TestPod, rest, weeder_namespace};
use kelpie_e2e::poll;
use serde_json::Value;

use super::fixture::*;

#[tokio::test]
async fn crashing_pods_are_deleted_with_evidence() {
    let fixture = Fixture::start().await;
    let namespace = fixture.namespace_without_etcd("shoot").await;
    for pod in [
        TestPod::new("already"),
        TestPod::new("init").status(weeder_namespace::init_crashing_status()),
        TestPod::new("runs").status(weeder_namespace::running_status()),
        TestPod::new("ownerless").owner(None),
        TestPod::new("later").status(weeder_namespace::running_status()),
        TestPod::new("other").labels(&[("role", "other")]),
    ] {
        namespace.create_pod(&pod).await.unwrap();
    }
    // Already terminating: the weeder must not delete it again.
    namespace
        .create_pod(&TestPod::new("leaving").slow_to_stop())
        .await
        .unwrap();
    let leaving = "/api/v1/namespaces/shoot/pods/leaving";
    rest::delete(&fixture.seed.client, leaving).await.unwrap();
    let weeder = fixture.weeder(CONFIG, &[]).await;
    namespace.set_endpoints(ETCD, &[Some(true)]).await.unwrap();

    let left = ["later", "other", "ownerless", "runs"];
    namespace.until_live_pods(&left, TIMEOUT).await.unwrap();
    namespace
        .set_status("later", &weeder_namespace::crashing_status())
        .await
        .unwrap();
    let left = ["other", "ownerless", "runs"];
    namespace.until_live_pods(&left, TIMEOUT).await.unwrap();
    until_deletions(&weeder, 3.0).await;

    let evidence = [
        ("already", "container main, restarted 7 times"),
        ("init", "init container wait, restarted 7 times"),
        ("later", "container main"),
    ];
    for (pod, words) in evidence {
        let event = fixture.event("shoot", "Weeded", pod).await;
        let message = event["message"].as_str().unwrap();
        for words in [
            words,
            "exit code 3 (Error)",
            "cannot reach etcd",
            "etcd is back",
        ] {
            assert!(message.contains(words), "{message}");
        }
        let lines = weeder
            .kelpie
            .lines(&["deleting", "exit code 3 (Error)", pod]);
        assert_eq!(lines.len(), 1, "expected in the log too: {lines:?}");
    }
    let event = fixture.event("shoot", "NotWeeded", "ownerless").await;
    let message = event["message"].as_str().unwrap();
    assert!(message.contains("no controller"), "{message}");
    assert_eq!(event["type"], "Warning");
    for (cause, count) in [("ownerless", 1.0), ("leaving", 1.0), ("capped", 0.0)] {
        let name = format!(r#"kelpie_weeder_pods_skipped_total{{service="etcd",cause="{cause}"}}"#);
        let found = weeder.kelpie.metric(&name).await.unwrap();
        assert!((found - count).abs() < 0.1, "{name} is {found}");
    }
    let windows = weeder.kelpie.metric("kelpie_weeder_active_windows").await;
    assert!((windows.unwrap() - 1.0).abs() < 0.1);
    let state = weeder.service("shoot", ETCD).await.unwrap();
    assert_eq!(state["window"]["deleted"], 3, "{state:#}");
}

/// The resource versions show that the Event was created before the pod was deleted.
#[tokio::test]
async fn event_precedes_deletion() {
    let fixture = Fixture::start().await;
    let namespace = fixture.namespace_without_etcd("shoot").await;
    namespace
        .create_pod(&TestPod::new("pod").slow_to_stop())
        .await
        .unwrap();
    let _weeder = fixture.weeder(CONFIG, &[]).await;
    namespace.set_endpoints(ETCD, &[Some(true)]).await.unwrap();
    namespace.until_live_pods(&[], TIMEOUT).await.unwrap();
    let event = fixture.event("shoot", "Weeded", "pod").await;
    let pod = "/api/v1/namespaces/shoot/pods/pod";
    let pod = rest::get(&fixture.seed.client, pod);
    let pod = pod.await.unwrap();
    let version = |object: &Value| -> u64 {
        let text = object["metadata"]["resourceVersion"].as_str().unwrap();
        text.parse().unwrap()
    };
    assert!(version(&event) < version(&pod), "{event:#}\n{pod:#}");
    assert_eq!(event["involvedObject"]["uid"], pod["metadata"]["uid"]);
}

#[tokio::test]
async fn deletions_per_owner_are_capped() {
    let fixture = Fixture::start().await;
    let namespace = fixture.namespace_without_etcd("shoot").await;
    let pod = |name: &str| TestPod::new(name).owner(Some("both"));
    let names = ["a", "b"];
    for name in names {
        namespace.create_pod(&pod(name)).await.unwrap();
    }
    let config = format!("maxDeletionsPerPod: 2\n{}", CONFIG.replace("20s", "5m"));
    let weeder = fixture.weeder(&config, &[]).await;
    namespace.set_endpoints(ETCD, &[Some(true)]).await.unwrap();
    // Replaces each deleted pod, as its controller would. Two pods may be deleted twice each.
    let replace = async || -> anyhow::Result<()> {
        let alive = namespace.live_pods().await?;
        for name in names {
            if !alive.contains_key(name) {
                namespace.create_pod(&pod(name)).await?;
            }
        }
        Ok(())
    };
    let gave_up = poll::until("the weeder to give up", TIMEOUT, async || {
        replace().await?;
        Ok(weeder.kelpie.lines(&["gave up"]).pop())
    });
    let line = gave_up.await.unwrap();
    assert!(line.contains("deletions=4"), "{line}");
    let event = fixture.event("shoot", "WeedingGaveUp", "both").await;
    assert_eq!(event["involvedObject"]["kind"], "ReplicaSet");
    // Deletions are counted separately for each owner.
    namespace.create_pod(&TestPod::new("z")).await.unwrap();
    let left_alone = poll::until("both to be left alone", TIMEOUT, async || {
        replace().await?;
        let only_these = namespace.live_pods().await?.into_keys().eq(names);
        let five_deleted = deletions(&weeder).await > 4.5;
        Ok((only_these && five_deleted).then_some(()))
    });
    left_alone.await.unwrap();
    until_deletions(&weeder, 5.0).await;
    assert_eq!(weeder.kelpie.lines(&["gave up"]).len(), 1);

    // The next recovery opens a new window, and counting starts over.
    namespace.restart_service(ETCD).await.unwrap();
    namespace.until_live_pods(&[], TIMEOUT).await.unwrap();
}

/// The proxy delays the deletion, and the pod changes meanwhile.
#[tokio::test]
async fn pod_changed_before_deletion_survives() {
    let fixture = Fixture::start().await;
    let namespace = fixture.namespace_without_etcd("shoot").await;
    for name in ["crashes", "recovers", "replaced-pod"] {
        namespace.create_pod(&TestPod::new(name)).await.unwrap();
    }
    let proxy = TcpProxy::start(fixture.seed.control_plane.api.url())
        .await
        .unwrap();
    let weeder = fixture.weeder_through(&proxy, CONFIG, &[]).await;
    // Every request and response is delayed by a second, first the Event, then the deletion.
    proxy.set_fault(ProxyFault::Delay(Duration::from_secs(1)));
    namespace.set_endpoints(ETCD, &[Some(true)]).await.unwrap();
    let line = ["deleting", "recovers"];
    weeder.kelpie.until_line(&line, TIMEOUT).await.unwrap();
    namespace
        .set_status("recovers", &weeder_namespace::running_status())
        .await
        .unwrap();
    let line = ["deleting", "replaced-pod"];
    weeder.kelpie.until_line(&line, TIMEOUT).await.unwrap();
    namespace.finish_pod("replaced-pod").await.unwrap();
    let replaced = TestPod::new("replaced-pod").status(weeder_namespace::running_status());
    let uid = namespace.create_pod(&replaced).await.unwrap();

    namespace
        .until_live_pods(&["recovers", "replaced-pod"], TIMEOUT)
        .await
        .unwrap();
    let changed = ["not deleted", "recovers", "has changed"];
    weeder.kelpie.until_line(&changed, TIMEOUT).await.unwrap();
    let changed = ["not deleted", "replaced-pod", "has changed"];
    weeder.kelpie.until_line(&changed, TIMEOUT).await.unwrap();
    let deleted = ["pod deleted", "crashes"];
    weeder.kelpie.until_line(&deleted, TIMEOUT).await.unwrap();
    proxy.set_fault(ProxyFault::None);
    assert_eq!(namespace.live_pods().await.unwrap()["replaced-pod"], uid);
    until_deletions(&weeder, 1.0).await;

    // The pod is evaluated again, and deleted once it crashes again.
    namespace
        .set_status("recovers", &weeder_namespace::crashing_status())
        .await
        .unwrap();
    namespace
        .until_live_pods(&["replaced-pod"], TIMEOUT)
        .await
        .unwrap();
}
