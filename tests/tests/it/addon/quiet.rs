//! An unchanged world is looked at again and again, and never written.

use std::path::PathBuf;
use std::time::Duration;

use kelpie_e2e::landscape::{Asked, Doorman};
use kelpie_e2e::{Kelpie, poll};
use serde_json::{Value, json};

use super::collectors::{
    PLATFORM, UWL, find, furnish, operator, speak, until_deployment, uwl_prometheus,
};
use super::stage::{Cluster, PATIENCE, Stage, definition, server_as};

async fn looks(operator: &Kelpie, status: &Kelpie) -> [f64; 3] {
    let passes = "kelpie_addon_operator_passes_total{result=\"clean\"}";
    let settled = "kelpie_addon_settled_total{result=\"unchanged\"}";
    let rounds = "kelpie_addon_hub_rounds_total{result=\"equal\"}";
    [
        operator.metric(passes).await.unwrap(),
        status.metric(settled).await.unwrap(),
        status.metric(rounds).await.unwrap(),
    ]
}

async fn versions(stage: &Stage) -> Vec<Value> {
    let mut objects = vec![stage.spoke.addon().await, stage.hub.addon().await];
    for collector in [PLATFORM, UWL] {
        objects.extend(find(&stage.spoke, collector).await);
    }
    let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
    objects.iter().map(version).collect()
}

fn way(cluster: &Cluster, door: &Doorman) -> PathBuf {
    let admin = cluster.api.admin();
    cluster.keep("door.kubeconfig", &door.kubeconfig(&admin))
}

/// Looks so often at it, once a second.
async fn look(times: u32) {
    let stage = Stage::bare().await;
    let (spoke, hub) = (&stage.spoke, &stage.hub);
    furnish(spoke).await;
    uwl_prometheus(spoke).await;
    hub.install(&definition().await).await;
    hub.create_addon(&json!({})).await;
    let (to_spoke, to_hub) =
        tokio::try_join!(Doorman::start(&spoke.api), Doorman::start(&hub.api),).unwrap();
    let resync = "--resync=1s";
    let spoken_to = way(spoke, &to_spoke);
    let hub_way = format!("--hub-kubeconfig={}", way(hub, &to_hub).display());
    let status = ["--hub-namespace=spoke-1", &hub_way, resync];
    let status = server_as(&spoken_to, "status", &status).await;
    // Its applications change nothing, but only the API server can tell: they are not counted.
    let operator = operator(spoke, &[resync]).await;
    let platform = until_deployment(spoke, PLATFORM, |_| true).await;
    let uwl = until_deployment(spoke, UWL, |_| true).await;
    spoke.until("Progressing").await;
    for (component, deployment) in [("platform", &platform), ("uwl", &uwl)] {
        let (code, said) = speak(spoke, component, "ForwardSuccessful", deployment).await;
        assert_eq!(code, Some(0), "{said}");
    }
    spoke.until("Available").await;
    hub.until("Available").await;
    // All that was under way has come to rest after two more looks.
    let until_looked = async |times: u32| {
        let before = looks(&operator, &status).await;
        let patience = PATIENCE + Duration::from_secs(2 * u64::from(times));
        poll::until("more looks", patience, async || {
            let now = looks(&operator, &status).await;
            let enough = now
                .iter()
                .zip(before)
                .all(|(now, before)| *now >= before + f64::from(times));
            Ok(enough.then_some(()))
        })
        .await
        .unwrap();
    };
    until_looked(2).await;
    let before = versions(&stage).await;
    assert_eq!(before.len(), 4);
    let since = [to_spoke.asked().len(), to_hub.asked().len()];

    until_looked(times).await;

    assert_eq!(versions(&stage).await, before);
    for (door, since) in [&to_spoke, &to_hub].into_iter().zip(since) {
        let asked = door.asked().split_off(since);
        let is_write = |asked: &&Asked| asked.method != "GET";
        let writes: Vec<&Asked> = asked.iter().filter(is_write).collect();
        assert!(writes.is_empty(), "{writes:?}");
        assert!(
            asked.len() >= times as usize,
            "it looked {} times",
            asked.len()
        );
    }
}

#[tokio::test]
async fn fifteen_looks_in_fifteen_seconds_write_nothing() {
    look(15).await;
}

#[tokio::test]
#[ignore = "a minute of looking"]
async fn sixty_looks_in_a_minute_write_nothing() {
    look(60).await;
}
