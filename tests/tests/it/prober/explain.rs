//! `kelpie explain` beside a running prober.

use kelpie_e2e::landscape::{Kubelets, Pace, Prober, ProberConfig};
use kelpie_e2e::{kelpie, poll};
use serde_json::Value;

use super::stage::*;

const FENCE: &str = "\
shoot--dev--one: Fence, its controllers are to be stopped

  because        too many leases are expired, since <date> <time> UTC
  judged         <date> <time> UTC, <some> s ago
  leases         3 nodes count: 3 expired, 3 silent; 60 % expired trip
                 3 not renewed since the trip; well again below 60 %
  probes         API server: 1 success
                 leases: 1 failure
  deadline       none ahead
  fence          full, since <date> <time> UTC, <some> s ago
  targets        Deployment kube-controller-manager: 0 replicas, 0 ready, marked as fenced, 3 recorded
                 Deployment machine-controller-manager: 0 replicas, 0 ready, marked as fenced, 1 recorded
                 Deployment cluster-autoscaler: 0 replicas, 0 ready, marked as fenced, 2 recorded
  last flow      down, <some> scale calls, ended <date> <time> UTC, <some> s ago
                 Deployment kube-controller-manager: scaled to 0 at <date> <time> UTC
                 Deployment machine-controller-manager: scaled to 0 at <date> <time> UTC
                 Deployment cluster-autoscaler: scaled to 0 at <date> <time> UTC
  in the way     nothing
  this replica   acts
  next look      in <some> s: the probe interval
";

const RELEASE: &str = "\
shoot--dev--one: Release, its controllers are to run as they should

  because        the leases are renewed
  judged         <date> <time> UTC, <some> s ago
  leases         3 nodes count: 0 expired, 0 silent; 60 % expired trip
  probes         API server: 1 success
                 leases: 1 success
  deadline       <date> <time> UTC, in <some> s: the next node can turn Unknown then, unless it renews
  fence          none
  targets        Deployment kube-controller-manager: 3 replicas, 3 ready
                 Deployment machine-controller-manager: 1 replica, 1 ready
                 Deployment cluster-autoscaler: 2 replicas, 2 ready
  last flow      up, <some> scale calls, ended <date> <time> UTC, <some> s ago
                 Deployment kube-controller-manager: scaled to 3 at <date> <time> UTC
                 Deployment machine-controller-manager: scaled to 1 at <date> <time> UTC
                 Deployment cluster-autoscaler: scaled to 2 at <date> <time> UTC
  in the way     nothing
  this replica   acts
  next look      in <some> s: the probe interval
";

#[tokio::test]
async fn explain_tells_the_story_of_a_fence_while_it_lasts_and_after() {
    let stage = Stage::start().await;
    let pace = Pace::QUICK;
    let kubelets = Kubelets::start(&stage.seed.client, 3, pace).await.unwrap();
    let shoot = stage.shoot("shoot--dev--one", &kubelets).await;
    // On a loaded machine the last call might come first, and tell another story.
    let config = ProberConfig::shipped(pace).line("fenceReserve: 0s");
    let prober = stage.prober(&config, &[]).await;
    until_well(&prober, &shoot).await;

    kubelets.cut(1.0).await;
    // Once the last deadline is over, nothing changes any more.
    let is_over = |state: &Value| {
        has_ended(state, "down")
            && state["fence"] == "full"
            && state["decision"]["deadline"].is_null()
    };
    let over = prober.until_state("a fence", &shoot.name, PATIENCE, is_over);
    over.await.unwrap();
    assert_is_told(&prober, &shoot.name, FENCE).await;

    kubelets.heal().await;
    let is_over = |state: &Value| {
        let rule = &state["decision"]["reasons"]["rule"]["name"];
        has_ended(state, "up") && state["fence"] == "none" && rule == "well"
    };
    let over = prober.until_state("a restore", &shoot.name, PATIENCE, is_over);
    over.await.unwrap();
    assert_is_told(&prober, &shoot.name, RELEASE).await;
}

/// Whether the last flow went this way, and the pods have followed as far as is known.
fn has_ended(state: &Value, direction: &str) -> bool {
    let targets = state["targets"].as_array().cloned().unwrap_or_default();
    let has_followed = |target: &Value| {
        let present = &target["sight"]["present"];
        present["ready"] == present["replicas"]
    };
    state["lastFlow"]["report"]["direction"] == direction && targets.iter().all(has_followed)
}

/// Sooner or later: on a loaded machine, a round of the prober may come to nothing.
async fn assert_is_told(prober: &Prober, cluster: &str, story: &str) {
    let mut last = String::new();
    let told = poll::until("the story", PATIENCE, async || {
        last = explain(prober, cluster).await;
        Ok((last == story).then_some(()))
    });
    let told = told.await;
    assert_eq!(last, story, "{told:?}");
}

/// What it prints, without the times, and how often a call had to be tried.
async fn explain(prober: &Prober, cluster: &str) -> String {
    let done = kelpie::run(&["explain", cluster, "--from", prober.kelpie.url()]).await;
    let done = done.unwrap();
    assert!(done.status.success(), "{done:?}");
    let text = String::from_utf8(done.stdout).unwrap();
    let words = text.split_inclusive([' ', '\n', ',']).map(masked);
    let text: String = words.collect();
    let calls = |line: &str| match line.split_once(" scale calls") {
        Some((before, after)) => {
            let way = before.trim_end_matches(|last: char| last.is_ascii_digit());
            format!("{way}<some> scale calls{after}")
        }
        None => line.to_owned(),
    };
    text.split_inclusive('\n').map(calls).collect()
}

/// A word, or what kind of time it is; with what separates it from the next.
fn masked(word: &str) -> String {
    let bare = word.trim_end_matches([' ', '\n', ',']);
    let is_number = bare.parse::<f64>().is_ok();
    let mask = match bare {
        _ if !bare.starts_with(|first: char| first.is_ascii_digit()) => return word.to_owned(),
        _ if bare.contains('-') => "<date>",
        _ if bare.contains(':') => "<time>",
        _ if is_number && bare.contains('.') => "<some>",
        _ => return word.to_owned(),
    };
    word.replace(bare, mask)
}
