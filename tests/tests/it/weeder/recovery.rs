//! What counts as a recovery, and how long its window is open.

use std::collections::BTreeSet;

use kelpie_e2e::landscape::{Dependants, PodSpec};
use kelpie_e2e::poll;

use super::stage::*;

async fn crashing_pod(of: &Dependants) {
    of.pod(&PodSpec::new("pod")).await.unwrap();
}

/// Each row in a namespace of its own: slices before, slices after, and whether that is a recovery.
#[tokio::test]
async fn a_service_is_ready_over_all_its_slices() {
    type Slices = &'static [(&'static str, &'static [Option<bool>])];
    const UP: Option<bool> = Some(true);
    const DOWN: Option<bool> = Some(false);
    let rows: [(&str, Slices, Slices, bool, bool); 7] = [
        // Name, before, after; recovered under `any`, under `all`.
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
        ("not-said", &[("a", &[DOWN])], &[("a", &[None])], true, true),
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
    let stage = Stage::start().await;
    let mut namespaces = Vec::new();
    for (name, before, ..) in &rows {
        let made = stage.bare(name).await;
        for (slice, endpoints) in *before {
            made.slice(slice, ETCD, endpoints).await.unwrap();
        }
        // One for each weeder: what the one deletes the other cannot.
        for mode in ["any", "all"] {
            let pod = PodSpec::new(mode).labels(&[("mode", mode)]);
            made.pod(&pod).await.unwrap();
        }
        namespaces.push(made);
    }
    let config = |mode: &str| {
        format!(
            "readiness: {mode}\nservicesAndDependantSelectors: \
             {{etcd: {{podSelectors: [{{matchLabels: {{mode: {mode}}}}}]}}}}\n"
        )
    };
    let any = stage.weeder(&config("any"), &[]).await;
    let all = stage.weeder(&config("all"), &[]).await;
    for ((_, _, after, ..), made) in rows.iter().zip(&namespaces) {
        for (slice, endpoints) in *after {
            made.set(slice, endpoints).await.unwrap();
        }
    }
    // What comes last is seen last: by then everything else was.
    let last = stage.without_etcd("last").await;
    last.set(ETCD, &[Some(true)]).await.unwrap();
    for weeder in [&any, &all] {
        until_seen(weeder, "last", true).await;
    }
    for ((name, _, _, by_any, by_all), made) in rows.iter().zip(&namespaces) {
        let mut left = Vec::new();
        left.extend((!by_all).then_some("all"));
        left.extend((!by_any).then_some("any"));
        made.until_alive(&left, PATIENCE).await.unwrap();
        for (weeder, recovered) in [(&any, by_any), (&all, by_all)] {
            let state = weeder.service(name, ETCD).await.unwrap();
            assert_eq!(state["window"].is_object(), *recovered, "{name}: {state:#}");
        }
    }
}

#[tokio::test]
async fn a_window_opens_at_start_restarts_with_each_recovery_and_ends_with_time_or_the_service() {
    let stage = Stage::start().await;
    let was_ready = stage.without_etcd("was-ready").await;
    was_ready.set(ETCD, &[Some(true)]).await.unwrap();
    let stays_away = stage.without_etcd("stays-away").await;
    for made in [&was_ready, &stays_away] {
        crashing_pod(made).await;
    }
    let weeder = stage.weeder(CONFIG, &[]).await;

    // At start: one window for what is ready, none for what is not.
    was_ready.until_alive(&[], PATIENCE).await.unwrap();
    assert_eq!(stays_away.alive().await.unwrap().len(), 1);
    until_recoveries(&weeder, 0.0).await;

    // Ready to ready does nothing.
    let first = until_window(&weeder, "was-ready").await;
    was_ready
        .set(ETCD, &[Some(true), Some(true)])
        .await
        .unwrap();
    let new = stage.bare("new").await;
    crashing_pod(&new).await;
    // First seen ready while it runs is a recovery, and comes after that.
    new.slice(ETCD, ETCD, &[Some(true)]).await.unwrap();
    new.until_alive(&[], PATIENCE).await.unwrap();
    until_recoveries(&weeder, 1.0).await;
    let still = until_window(&weeder, "was-ready").await;
    assert_eq!(first["window"]["until"], still["window"]["until"]);

    // A new recovery restarts the window.
    was_ready.bounce(ETCD).await.unwrap();
    let until = &first["window"]["until"];
    let restarted = weeder.until_service("a new end", "was-ready", ETCD, PATIENCE, |state| {
        state["window"].is_object() && state["window"]["until"] != *until
    });
    restarted.await.unwrap();
    let line = ["window restarted", "was-ready"];
    assert_eq!(weeder.kelpie.lines(&line).len(), 1);

    // A deleted service ends it.
    new.unslice(ETCD).await.unwrap();
    weeder
        .kelpie
        .until_line(&["window closed", "namespace=\"new\""], PATIENCE)
        .await
        .unwrap();
    crashing_pod(&new).await;

    // And so does time.
    until_no_window(&weeder, "was-ready").await;
    crashing_pod(&was_ready).await;
    // Its next window proves that it could have been deleted.
    let control = stage.without_etcd("control").await;
    crashing_pod(&control).await;
    control.set(ETCD, &[Some(true)]).await.unwrap();
    control.until_alive(&[], PATIENCE).await.unwrap();
    assert_eq!(was_ready.alive().await.unwrap().len(), 1);
    assert_eq!(new.alive().await.unwrap().len(), 1);
    was_ready.bounce(ETCD).await.unwrap();
    was_ready.until_alive(&[], PATIENCE).await.unwrap();
}

#[tokio::test]
async fn start_up_is_spread_and_a_namespace_can_be_picked() {
    const MANY: usize = 30;
    let stage = Stage::start().await;
    for number in 0..MANY {
        let made = stage.bare(&format!("ns-{number:02}")).await;
        made.slice(ETCD, ETCD, &[Some(true)]).await.unwrap();
    }
    let config = CONFIG.replace("20s", "40s");
    let one = stage.weeder(&config, &["--namespace=ns-07"]).await;
    let all = stage.weeder(&config, &["--dry-run"]).await;
    let opened = poll::until("all windows", PATIENCE, async || {
        let lines = all.kelpie.lines(&["window opened"]);
        Ok((lines.len() == MANY).then_some(lines))
    });
    let opened = opened.await.unwrap();
    // A tenth of the window, cut into four: none of the quarters is empty but by a miracle.
    let second = |line: &String| line.split(['.', 'Z']).next().unwrap_or_default().to_owned();
    let seconds: BTreeSet<String> = opened.iter().map(second).collect();
    assert!(seconds.len() >= 3, "spread over {seconds:?}");
    until_window(&one, "ns-07").await;
    let known = one.state().await.unwrap();
    let known = known["namespaces"].as_object().unwrap().len();
    assert_eq!(known, 1, "no other namespace was looked at");
    assert_eq!(one.kelpie.lines(&["window opened"]).len(), 1);
}
