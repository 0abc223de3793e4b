//! Events on a real API server.

use kelpie_e2e::{ApiServer, ControlPlane, poll};
use kelpie_kube::seed::{Events, Note, NoteKind, ObjectRef};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{PATIENCE, seed};

fn deployment(namespace: &str) -> ObjectRef {
    ObjectRef {
        api_version: "apps/v1".into(),
        kind: "Deployment".into(),
        namespace: namespace.into(),
        name: "kcm".into(),
        uid: None,
    }
}

fn note(about: ObjectRef, message: &str) -> Note {
    Note {
        about,
        kind: NoteKind::Warning,
        reason: "Fenced",
        message: message.into(),
        action: "ScaleDown",
    }
}

/// Waits until a namespace has this many Events of ours.
async fn events_in(api: &ApiServer, namespace: &str, expected: usize) -> Vec<Value> {
    let namespace = format!("--namespace={namespace}");
    let list = [
        "get",
        "events",
        &namespace,
        "--output=json",
        "--field-selector=reason=Fenced",
    ];
    poll::until("Events", PATIENCE, async || {
        let listed: Value = serde_json::from_str(&api.kubectl(&list).await?)?;
        let items = listed["items"].as_array().cloned().unwrap_or_default();
        Ok((items.len() == expected).then_some(items))
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn events_are_posted_and_equal_ones_are_counted() {
    let plane = ControlPlane::start().await.unwrap();
    let api = &plane.api;
    let (token, tracker) = (CancellationToken::new(), TaskTracker::new());
    let events = seed(api, &api.admin())
        .await
        .events("kelpie-prober", "host-1");
    tracker.spawn(events.clone().run(token.clone()));

    events.publish(note(deployment("default"), "3 of 4 nodes are silent"));
    events.publish(note(deployment("default"), "4 of 4 nodes are silent"));
    events.publish(note(deployment("default"), "nobody answers"));
    let cluster = ObjectRef {
        api_version: "extensions.gardener.cloud/v1alpha1".into(),
        kind: "Cluster".into(),
        name: "shoot--a".into(),
        ..ObjectRef::default()
    };
    events.publish(note(cluster, "it is fenced"));
    let found = events_in(api, "default", 3).await;
    let mut counts: Vec<_> = found
        .iter()
        .map(|event| {
            let kind = event["involvedObject"]["kind"].as_str().unwrap();
            let message = event["message"].as_str().unwrap();
            (kind, message, event["count"].as_u64().unwrap())
        })
        .collect();
    counts.sort_unstable();
    let expected = [
        ("Cluster", "it is fenced", 1),
        ("Deployment", "4 of 4 nodes are silent", 2),
        ("Deployment", "nobody answers", 1),
    ];
    assert_eq!(counts, expected);
    assert_eq!(found[0]["reportingComponent"], "kelpie-prober");
    assert_eq!(found[0]["reportingInstance"], "host-1");
    assert_eq!(found[0]["type"], "Warning");
    // What is left in the queue is posted before the end.
    events.publish(note(deployment("kube-public"), "the end"));
    token.cancel();
    tracker.close();
    tracker.wait().await;
    events_in(api, "kube-public", 1).await;
    let counts = (events.dropped(), events.refused(), events.failed());
    assert_eq!(counts, (0, 0, 0));
}

async fn refusals(events: &Events, expected: u64) {
    poll::until("refusals", PATIENCE, async || {
        Ok((events.refused() == expected).then_some(()))
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_namespace_that_refuses_events_is_left_alone_and_others_go_on() {
    let plane = ControlPlane::start().await.unwrap();
    let api = &plane.api;
    api.kubectl(&["create", "namespace", "garden"])
        .await
        .unwrap();
    let role = "create role events --namespace=garden --verb=create,get,update,patch \
        --resource=events";
    let role: Vec<&str> = role.split_whitespace().collect();
    api.kubectl(&role).await.unwrap();
    let bind = "create rolebinding events --namespace=garden --role=events --user=dwd";
    let bind: Vec<&str> = bind.split(' ').collect();
    api.kubectl(&bind).await.unwrap();
    let seed = seed(api, &api.user("dwd", &[]).unwrap()).await;
    let events = seed.events("kelpie-prober", "host-1");
    let (token, tracker) = (CancellationToken::new(), TaskTracker::new());
    tracker.spawn(events.clone().run(token.clone()));

    events.publish(note(deployment("default"), "refused"));
    refusals(&events, 1).await;
    // Granted meanwhile, and still left alone: nobody asks for the next ten minutes.
    let grant = "create clusterrolebinding events --clusterrole=cluster-admin --user=dwd";
    let grant: Vec<&str> = grant.split(' ').collect();
    api.kubectl(&grant).await.unwrap();
    events.publish(note(deployment("default"), "not even tried"));
    events.publish(note(deployment("garden"), "posted"));

    events_in(api, "garden", 1).await;
    events_in(api, "default", 0).await;
    refusals(&events, 2).await;
    token.cancel();
    tracker.close();
    tracker.wait().await;
}
