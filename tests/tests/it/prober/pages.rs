//! What docs/operate.md shows, from a real run: print it with
//! `cargo test -p kelpie-e2e --test it -- --ignored prober::pages --nocapture`.

use std::time::Duration;

use kelpie_core::fence::IGNORE_ANNOTATION;
use kelpie_e2e::kelpie;
use kelpie_e2e::landscape::{Kubelets, Pace, Prober, ProberConfig};
use serde_json::{Value, json};

use super::stage::*;

/// The real world's.
const PACE: Pace = Pace {
    grace: Duration::from_secs(40),
    renewal: Duration::from_secs(10),
    reserve: Duration::from_secs(3),
    interval: Duration::from_secs(10),
};

#[tokio::test]
#[ignore = "lives as slowly as the real world"]
async fn a_fence_is_explained_and_its_events_tell_the_story() {
    let stage = Stage::start().await;
    let kubelets = Kubelets::start(&stage.seed.client, 10, PACE).await.unwrap();
    let shoot = stage.shoot("shoot--dev--one", &kubelets).await;
    let asleep = stage.shoot("shoot--dev--two", &kubelets).await;
    let hibernated = json!({ "spec": { "hibernation": { "enabled": true } } });
    asleep.edit(&hibernated).await.unwrap();
    let yes = json!("true");
    let ignored = shoot.annotate(CA, IGNORE_ANNOTATION, &yes);
    ignored.await.unwrap();
    let prober = stage.prober(&ProberConfig::shipped(PACE), &[]).await;
    until_well(&prober, &shoot).await;

    kubelets.cut(0.7).await;
    let is_fenced = |state: &Value| state["fence"] == "full" && state["lastFlow"].is_object();
    let fenced = prober.until_state("a fence", &shoot.name, 2 * PATIENCE, is_fenced);
    fenced.await.unwrap();
    let said = explained(&prober, &shoot.name).await;
    assert!(said.starts_with("shoot--dev--one: Fence"), "{said}");
    let said = explained(&prober, &asleep.name).await;
    assert!(said.contains("it is hibernated"), "{said}");

    kubelets.heal().await;
    shoot.until_counts([3, 1, 2], 2 * PATIENCE).await.unwrap();
    until_well(&prober, &shoot).await;
    for namespace in ["garden", &shoot.name] {
        let events = ["get", "events", "--namespace", namespace];
        let columns = "--output=custom-columns=TYPE:.type,REASON:.reason,\
                       OBJECT:.involvedObject.name,MESSAGE:.message";
        let events = [&events[..], &[columns]].concat();
        println!("{}", stage.seed.plane.api.kubectl(&events).await.unwrap());
    }
}

/// What `kelpie explain` says, on either channel.
async fn explained(prober: &Prober, cluster: &str) -> String {
    let output = kelpie::run(&["explain", "--from", prober.kelpie.url(), cluster]).await;
    let output = output.unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8(said).unwrap();
    println!("{said}");
    said
}
