//! Hubs that answer, but not as one would wish: the spoke goes on, the hub is left in peace, and gets
//! the newest state as soon as it takes it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kelpie_e2e::landscape::{Asked, Doorman, Ruling, rest};
use kelpie_e2e::{Etcd, Kelpie, poll};
use serde_json::Value;
use tokio::time::Instant;

use super::stage::{Cluster, PATIENCE, Stage, condition, definition, report};

/// The shortest pause after the first failure: a second, less its jitter.
const FIRST_PAUSE: Duration = Duration::from_millis(750);

/// A way to the hub that somebody stands at.
async fn door(hub: &Cluster) -> (Doorman, PathBuf) {
    let door = Doorman::start(&hub.api).await.unwrap();
    let way = door.kubeconfig(&hub.api.admin());
    (door, hub.keep("door.kubeconfig", &way))
}

/// Waits until so many requests came to the door since then.
async fn until_asked(door: &Doorman, since: usize, count: usize) -> Vec<Asked> {
    let asked = poll::until("more requests", PATIENCE, async || {
        let asked = door.asked().split_off(since);
        Ok((asked.len() >= count).then_some(asked))
    });
    asked.await.unwrap()
}

fn pauses(asked: &[Asked]) -> Vec<Duration> {
    let pairs = asked.windows(2);
    pairs.map(|pair| pair[1].at - pair[0].at).collect()
}

/// The spoke changes, and is settled whatever the hub does.
async fn change(spoke: &Cluster, message: &str) {
    for (reason, standing) in [
        ("ForwardFailure", "Degraded"),
        ("ForwardSuccessful", "Available"),
    ] {
        let message = format!("--message={message}");
        report(spoke, "platform", reason, &[&message]).await;
        spoke.until(standing).await;
    }
}

/// Waits until the hub says what the spoke says.
async fn until_same(stage: &Stage) {
    let Stage { spoke, hub, .. } = stage;
    let mut last = Value::Null;
    let same = poll::until("the hub to have the newest", PATIENCE, async || {
        let hub = rest::find(&hub.client, &hub.path()).await;
        last = hub.ok().flatten().unwrap_or_default();
        let newest = spoke.addon().await;
        Ok((last["status"]["conditions"] == newest["status"]["conditions"]).then_some(()))
    });
    if let Err(error) = same.await {
        panic!("{error:#}; the last was {last:#}");
    }
}

/// What the status controller says about its hub.
async fn hub_state(status: &Kelpie) -> Value {
    let state = status.get("/debug/state").await.unwrap();
    let state: Value = serde_json::from_str(&state.body).unwrap();
    state["hub"]["state"].clone()
}

#[tokio::test]
async fn a_hub_with_too_much_to_do_is_asked_again_when_it_says_and_never_in_a_hurry() {
    let stage = Stage::start().await;
    let (door, way) = door(&stage.hub).await;
    // News in every moment: none of it makes the hub be asked more often.
    let status = stage.status_via(&way, &["--resync=100ms"]).await;
    change(&stage.spoke, "at first").await;
    until_same(&stage).await;
    for (lines, shortest) in [
        (vec!["Retry-After: 3"], Duration::from_secs(3)),
        (vec!["Retry-After: 0"], FIRST_PAUSE),
        (vec![], FIRST_PAUSE),
    ] {
        let answer = lines.clone();
        door.rule(move |_| Ruling::Refuse(429, answer.clone()));
        let since = door.asked().len();
        change(&stage.spoke, &format!("{lines:?}")).await;
        let asked = until_asked(&door, since, 3).await;
        let pauses = pauses(&asked);
        assert!(
            pauses.iter().all(|pause| *pause >= shortest),
            "{lines:?}: {pauses:?}"
        );
        door.rule(|_| Ruling::Pass);
        until_same(&stage).await;
    }
    assert_eq!(hub_state(&status).await, "current");
}

#[tokio::test]
async fn a_hub_that_fails_is_asked_less_and_less_and_has_the_newest_one_pause_after_it_is_back() {
    let stage = Stage::start().await;
    let (door, way) = door(&stage.hub).await;
    let _status = stage.status_via(&way, &["--resync=100ms"]).await;
    change(&stage.spoke, "at first").await;
    until_same(&stage).await;
    for code in [500, 503] {
        door.rule(move |_| Ruling::Refuse(code, vec![]));
        let since = door.asked().len();
        change(&stage.spoke, &code.to_string()).await;
        let asked = until_asked(&door, since, 3).await;
        let pauses = pauses(&asked);
        assert!(pauses[0] >= FIRST_PAUSE, "{code}: {pauses:?}");
        assert!(pauses[1] >= FIRST_PAUSE * 2, "{code}: {pauses:?}");

        let passed = Arc::<Mutex<Vec<String>>>::default();
        let kept = Arc::clone(&passed);
        door.rule(move |asked| {
            kept.lock().unwrap().push(asked.method.clone());
            Ruling::Pass
        });
        until_same(&stage).await;
        let passed = passed.lock().unwrap();
        assert_eq!(passed[..2], ["GET", "PUT"], "{code}: the first try is it");
    }
}

#[tokio::test]
async fn a_status_that_the_hub_does_not_take_is_told_and_tried_again_at_every_resync_only() {
    let stage = Stage::start().await;
    let (door, way) = door(&stage.hub).await;
    // Of another time: its messages must be short.
    let ours = definition().await;
    let strict = ours.replace("maxLength: 32768", "maxLength: 8");
    assert_ne!(strict, ours);
    stage.hub.install(&strict).await;
    let resync = Duration::from_secs(2);
    let status = stage.status_via(&way, &["--resync=2s"]).await;
    report(&stage.spoke, "platform", "ForwardFailure", &["--message=m"]).await;
    stage.spoke.until("Degraded").await;
    let why = poll::until("the refusal to be told", PATIENCE, async || {
        let state = hub_state(&status).await;
        Ok(state["failing"].as_str().map(str::to_owned))
    });
    let why = why.await.unwrap();
    assert!(why.contains("does not take it"), "{why}");
    assert!(why.contains("status.conditions"), "it says what: {why}");
    status
        .until_line(&["WARN", "does not take it"], PATIENCE)
        .await
        .unwrap();
    // 400 is no other.
    let is_write = |asked: &&Asked| asked.method == "PUT";
    for answer in [Ruling::Pass, Ruling::Refuse(400, vec![])] {
        door.rule(move |asked| match asked.method.as_str() {
            "PUT" => answer.clone(),
            _ => Ruling::Pass,
        });
        let (begun, since) = (Instant::now(), door.asked().len());
        poll::until("three more tries", PATIENCE, async || {
            let asked = door.asked().split_off(since);
            Ok((asked.iter().filter(is_write).count() >= 3).then_some(()))
        })
        .await
        .unwrap();
        let asked = door.asked().split_off(since);
        let tries = asked.iter().filter(is_write).count();
        let resyncs = begun.elapsed().as_millis() / resync.as_millis();
        // One at either end.
        assert!(tries as u128 <= resyncs + 2, "{tries} in {resyncs} resyncs");
    }
    door.rule(|_| Ruling::Pass);
    stage.hub.install(&ours).await;
    until_same(&stage).await;
}

#[tokio::test]
async fn a_hub_that_does_not_answer_gets_the_newest_and_no_late_word_undoes_it() {
    let stage = Stage::start().await;
    let (door, way) = door(&stage.hub).await;
    // The first word waits at the door until its sender has given it up.
    let mut writes = 0;
    door.rule(move |asked| {
        writes += usize::from(asked.method == "PUT");
        match (asked.method.as_str(), writes) {
            ("PUT", 1) => Ruling::Hold,
            _ => Ruling::Pass,
        }
    });
    let _status = stage.status_via(&way, &[]).await;
    report(&stage.spoke, "platform", "ForwardFailure", &[]).await;
    door.until_held(PATIENCE, |asked| asked.method == "PUT")
        .await
        .unwrap();
    change(&stage.spoke, "meanwhile").await;
    until_same(&stage).await;
    let version = stage.hub.addon().await["metadata"]["resourceVersion"].clone();
    let since = door.asked().len();
    door.let_go();
    // It is there by now: what comes after it is answered.
    change(&stage.spoke, "and then").await;
    until_same(&stage).await;
    let addon = stage.hub.addon().await;
    assert_ne!(addon["metadata"]["resourceVersion"], version);
    let message = condition(&addon, "Available")["message"].clone();
    assert!(message.as_str().unwrap().contains("and then"), "{message}");
    let asked = door.asked().split_off(since);
    // Two reports and what is made of them, with a look and a write each; one may have to look again.
    assert!(asked.len() <= 10, "{asked:?}");
}

#[tokio::test]
async fn credentials_that_the_hub_knows_no_longer_are_replaced_by_those_in_the_file() {
    let stage = Stage::start().await;
    let (door, way) = door(&stage.hub).await;
    let admin = stage.hub.api.admin();
    for code in [401, 403] {
        std::fs::write(&way, door.kubeconfig(&admin)).unwrap();
        door.rule(|_| Ruling::Pass);
        let status = stage.status_via(&way, &["--resync=100ms"]).await;
        change(&stage.spoke, "at first").await;
        until_same(&stage).await;

        door.rule(move |_| Ruling::Refuse(code, vec![]));
        let since = door.asked().len();
        change(&stage.spoke, &code.to_string()).await;
        let asked = until_asked(&door, since, 2).await;
        assert!(pauses(&asked)[0] >= FIRST_PAUSE);
        // The new ones lead past the door.
        std::fs::write(&way, stage.hub.api.kubeconfig(&admin)).unwrap();
        until_same(&stage).await;
        let since = door.asked().len();
        change(&stage.spoke, "rotated").await;
        until_same(&stage).await;
        assert_eq!(door.asked().len(), since, "nobody uses the old ones");
        status.stop().await.unwrap();
    }
}

#[tokio::test]
async fn a_hub_that_comes_back_with_older_data_gets_the_newest_again() {
    let mut etcd = Etcd::start("etcd").await.unwrap();
    let mut stage = Stage::with_hub_on(&etcd).await;
    let status = stage.status(&["--resync=1s"]).await;
    report(
        &stage.spoke,
        "platform",
        "ForwardFailure",
        &["--message=old"],
    )
    .await;
    stage.hub.until("Degraded").await;
    stage.hub.api.go_down();
    etcd.back_up().await.unwrap();
    stage.hub.api.come_back().await.unwrap();
    change(&stage.spoke, "new").await;
    until_same(&stage).await;
    let newer = stage.hub.addon().await["metadata"]["resourceVersion"].clone();

    stage.hub.api.go_down();
    etcd.restore().await.unwrap();
    stage.hub.api.come_back().await.unwrap();

    until_same(&stage).await;
    let number = |version: &Value| version.as_str().unwrap().parse::<u64>().unwrap();
    let addon = stage.hub.addon().await;
    assert!(number(&addon["metadata"]["resourceVersion"]) <= number(&newer));
    // And it goes on from there.
    report(&stage.spoke, "uwl", "ForwardFailure", &["--message=after"]).await;
    stage.hub.until("Degraded").await;
    until_same(&stage).await;
    assert_eq!(hub_state(&status).await, "current");
}
