//! Prints the examples in docs/operate/on-call.md from a real run:
//! `cargo test -p kelpie-e2e --test it -- --ignored prober::operate_guide_examples --nocapture`.

use kelpie_e2e::kelpie;
use kelpie_e2e::landscape::{ProberProcess, Timings};
use kelpie_kube::actuator::IGNORE_ANNOTATION;
use serde_json::{Value, json};

use super::fixture::*;
use crate::fixture::exit_code_and_text;

#[tokio::test]
#[ignore = "takes minutes: runs with real timings"]
async fn fence_is_explained_and_has_events() {
    let fixture = Fixture::start().await;
    let kubelets = fixture.kubelets(10, Timings::REAL).await;
    let shoot = fixture.shoot("shoot--dev--one", &kubelets).await;
    let hibernated = fixture.shoot("shoot--dev--two", &kubelets).await;
    let patch = json!({ "spec": { "hibernation": { "enabled": true } } });
    hibernated.patch_shoot(&patch).await.unwrap();
    let ignore = json!("true");
    let ignored = shoot.annotate(CA, IGNORE_ANNOTATION, &ignore);
    ignored.await.unwrap();
    let prober = fixture.gardener_prober(Timings::REAL).await;
    until_healthy(&prober, &shoot).await;

    kubelets.partition(0.7).await;
    let is_fenced = |state: &Value| state["fence"] == "full" && state["lastFlow"].is_object();
    let fenced = prober.until_state("a fence", &shoot.name, 2 * TIMEOUT, is_fenced);
    fenced.await.unwrap();
    let text = explain(&prober, &shoot.name).await;
    assert!(text.starts_with("shoot--dev--one: Fence"), "{text}");
    let text = explain(&prober, &hibernated.name).await;
    assert!(text.contains("it is hibernated"), "{text}");

    kubelets.heal().await;
    shoot.until_replicas([3, 1, 2], 2 * TIMEOUT).await.unwrap();
    until_healthy(&prober, &shoot).await;
    for namespace in ["garden", &shoot.name] {
        let events = ["get", "events", "--namespace", namespace];
        let columns = "--output=custom-columns=TYPE:.type,REASON:.reason,\
                       OBJECT:.involvedObject.name,MESSAGE:.message";
        let events = [&events[..], &[columns]].concat();
        println!(
            "{}",
            fixture
                .seed
                .control_plane
                .api
                .kubectl(&events)
                .await
                .unwrap()
        );
    }
}

/// Runs `kelpie explain`, prints its output and returns it.
async fn explain(prober: &ProberProcess, cluster: &str) -> String {
    let output = kelpie::run(&["explain", "--from", prober.kelpie.url(), cluster]).await;
    let (_, text) = exit_code_and_text(output.unwrap());
    println!("{text}");
    text
}
