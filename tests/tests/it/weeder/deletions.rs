//! Who is deleted in a window, who is not, and what is told about it.

use std::time::Duration;

use kelpie_e2e::landscape::{Fault, PodSpec, Proxy, dependants, rest};
use kelpie_e2e::poll;
use serde_json::{Value, json};

use super::stage::*;

#[tokio::test]
async fn crashing_pods_go_with_their_evidence_and_others_stay() {
    let stage = Stage::start().await;
    let made = stage.without_etcd("shoot").await;
    for pod in [
        PodSpec::new("already"),
        PodSpec::new("init").status(dependants::crashing_at_init()),
        PodSpec::new("runs").status(dependants::running()),
        PodSpec::new("ownerless").owner(None),
        PodSpec::new("later").status(dependants::running()),
        PodSpec::new("other").labels(&[("role", "other")]),
    ] {
        made.pod(&pod).await.unwrap();
    }
    // On its way out already: nobody deletes it once more.
    made.pod(&PodSpec::new("leaving").slow()).await.unwrap();
    let leaving = "/api/v1/namespaces/shoot/pods/leaving";
    rest::delete(&stage.seed.client, leaving).await.unwrap();
    let weeder = stage.weeder(CONFIG, &[]).await;
    made.set(ETCD, &[Some(true)]).await.unwrap();

    let left = ["later", "other", "ownerless", "runs"];
    made.until_alive(&left, PATIENCE).await.unwrap();
    made.set_status("later", &dependants::crashing())
        .await
        .unwrap();
    let left = ["other", "ownerless", "runs"];
    made.until_alive(&left, PATIENCE).await.unwrap();
    until_deletions(&weeder, 3.0).await;

    let evidence = [
        ("already", "container main, restarted 7 times"),
        ("init", "init container wait, restarted 7 times"),
        ("later", "container main"),
    ];
    for (pod, words) in evidence {
        let event = stage.event("shoot", "Weeded", pod).await;
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
        assert_eq!(lines.len(), 1, "the log has it as well: {lines:?}");
    }
    let event = stage.event("shoot", "NotWeeded", "ownerless").await;
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

/// An Event cannot be about a pod that is gone unless it was made before, or from memory: the order
/// shows in the resource versions.
#[tokio::test]
async fn the_evidence_is_there_before_the_pod_is_gone() {
    let stage = Stage::start().await;
    let made = stage.without_etcd("shoot").await;
    made.pod(&PodSpec::new("pod").slow()).await.unwrap();
    let _weeder = stage.weeder(CONFIG, &[]).await;
    made.set(ETCD, &[Some(true)]).await.unwrap();
    made.until_alive(&[], PATIENCE).await.unwrap();
    let event = stage.event("shoot", "Weeded", "pod").await;
    let pod = "/api/v1/namespaces/shoot/pods/pod";
    let pod = rest::read(&stage.seed.client, pod);
    let pod = pod.await.unwrap();
    let version = |object: &Value| -> u64 {
        let text = object["metadata"]["resourceVersion"].as_str().unwrap();
        text.parse().unwrap()
    };
    assert!(version(&event) < version(&pod), "{event:#}\n{pod:#}");
    assert_eq!(event["involvedObject"]["uid"], pod["metadata"]["uid"]);
}

#[tokio::test]
async fn an_owner_whose_pods_keep_crashing_is_given_up_and_said_so_once() {
    let stage = Stage::start().await;
    let made = stage.without_etcd("shoot").await;
    let pod = |name: &str| PodSpec::new(name).owner(Some("both"));
    let names = ["a", "b"];
    for name in names {
        made.pod(&pod(name)).await.unwrap();
    }
    let config = format!("maxDeletionsPerPod: 2\n{}", CONFIG.replace("20s", "5m"));
    let weeder = stage.weeder(&config, &[]).await;
    made.set(ETCD, &[Some(true)]).await.unwrap();
    // Two pods, twice each: as the controller would, a new one comes for each that goes.
    let replace = async || -> anyhow::Result<()> {
        let alive = made.alive().await?;
        for name in names {
            if !alive.contains_key(name) {
                made.pod(&pod(name)).await?;
            }
        }
        Ok(())
    };
    let gave_up = poll::until("it to give up", PATIENCE, async || {
        replace().await?;
        Ok(weeder.kelpie.lines(&["gave up"]).pop())
    });
    let line = gave_up.await.unwrap();
    assert!(line.contains("deletions=4"), "{line}");
    let event = stage.event("shoot", "WeedingGaveUp", "both").await;
    assert_eq!(event["involvedObject"]["kind"], "ReplicaSet");
    // Another owner has its own count.
    made.pod(&PodSpec::new("z")).await.unwrap();
    let settled = poll::until("both to be left alone", PATIENCE, async || {
        replace().await?;
        let is_settled = made.alive().await?.into_keys().eq(names);
        let five = deletions(&weeder).await > 4.5;
        Ok((is_settled && five).then_some(()))
    });
    settled.await.unwrap();
    until_deletions(&weeder, 5.0).await;
    assert_eq!(weeder.kelpie.lines(&["gave up"]).len(), 1);

    // The next recovery is a new window with a new count.
    made.bounce(ETCD).await.unwrap();
    made.until_alive(&[], PATIENCE).await.unwrap();
}

/// The proxy holds the deletion up; meanwhile the pod changes.
#[tokio::test]
async fn a_pod_that_recovered_or_was_made_anew_meanwhile_survives() {
    let stage = Stage::start().await;
    let made = stage.without_etcd("shoot").await;
    for name in ["crashes", "recovers", "renewed"] {
        made.pod(&PodSpec::new(name)).await.unwrap();
    }
    let proxy = Proxy::start(stage.seed.plane.api.url()).await.unwrap();
    let weeder = stage.weeder_via(&proxy, CONFIG, &[]).await;
    // Everything is a second late both ways: the Event, and the deletion after it.
    proxy.set(Fault::Delay(Duration::from_secs(1)));
    made.set(ETCD, &[Some(true)]).await.unwrap();
    let line = ["deleting", "recovers"];
    weeder.kelpie.until_line(&line, PATIENCE).await.unwrap();
    made.set_status("recovers", &dependants::running())
        .await
        .unwrap();
    let line = ["deleting", "renewed"];
    weeder.kelpie.until_line(&line, PATIENCE).await.unwrap();
    made.end("renewed").await.unwrap();
    let renewed = PodSpec::new("renewed").status(dependants::running());
    let uid = made.pod(&renewed).await.unwrap();

    made.until_alive(&["recovers", "renewed"], PATIENCE)
        .await
        .unwrap();
    let changed = ["not deleted", "recovers", "has changed"];
    weeder.kelpie.until_line(&changed, PATIENCE).await.unwrap();
    let changed = ["not deleted", "renewed", "has changed"];
    weeder.kelpie.until_line(&changed, PATIENCE).await.unwrap();
    let deleted = ["scribe: deleted", "crashes"];
    weeder.kelpie.until_line(&deleted, PATIENCE).await.unwrap();
    proxy.set(Fault::None);
    assert_eq!(made.alive().await.unwrap()["renewed"], uid);
    until_deletions(&weeder, 1.0).await;

    // Judged again: once it crashes anew it goes.
    made.set_status("recovers", &dependants::crashing())
        .await
        .unwrap();
    made.until_alive(&["renewed"], PATIENCE).await.unwrap();
}

#[tokio::test]
async fn a_dry_run_says_what_it_would_do_and_writes_nothing() {
    let stage = Stage::start().await;
    let made = stage.without_etcd("shoot").await;
    made.pod(&PodSpec::new("pod")).await.unwrap();
    made.pod(&PodSpec::new("ownerless").owner(None))
        .await
        .unwrap();
    let flag = ["--dry-run", "--enable-leader-election=true"];
    let by_flag = stage.weeder(CONFIG, &flag).await;
    let by_file = stage.weeder(&format!("dryRun: true\n{CONFIG}"), &[]).await;
    let control = PodSpec::new("control");
    made.set(ETCD, &[Some(true)]).await.unwrap();
    for weeder in [&by_flag, &by_file] {
        let line = ["dry run: would delete", "pod=\"pod\"", "exit code 3"];
        weeder.kelpie.until_line(&line, PATIENCE).await.unwrap();
        let state = weeder.state().await.unwrap();
        assert_eq!(
            (&state["dryRun"], &state["leads"]),
            (&json!(true), &json!(false))
        );
    }
    made.pod(&control).await.unwrap();
    for weeder in [&by_flag, &by_file] {
        let line = ["dry run: would delete", "control"];
        weeder.kelpie.until_line(&line, PATIENCE).await.unwrap();
        until_deletions(weeder, 0.0).await;
    }
    assert_eq!(made.alive().await.unwrap().len(), 3);
    let events = stage.seed.events("shoot").await.unwrap();
    assert_eq!(events, [Value::Null; 0]);
    let lease = "/apis/coordination.k8s.io/v1/namespaces/garden/leases/dwd-weeder-leader-election";
    let lease = rest::find(&stage.seed.client, lease).await;
    assert_eq!(lease.unwrap(), None);
}
