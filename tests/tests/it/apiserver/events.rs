//! Posting Events on a real API server.

use kelpie_e2e::{ControlPlane, KubeApiServer, poll};
use kelpie_kube::events::{DroppedEvents, EventRecorder, EventType, NewEvent, ObjectRef};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{TIMEOUT, connect};

fn deployment(namespace: &str) -> ObjectRef {
    ObjectRef {
        api_version: "apps/v1".into(),
        kind: "Deployment".into(),
        namespace: namespace.into(),
        name: "kcm".into(),
        uid: None,
    }
}

fn note(about: ObjectRef, message: &str) -> NewEvent {
    NewEvent {
        about,
        kind: EventType::Warning,
        reason: "Fenced",
        message: message.into(),
        action: "ScaleDown",
    }
}

/// Waits until a namespace has this many Events with reason `Fenced`.
async fn until_events(api: &KubeApiServer, namespace: &str, expected: usize) -> Vec<Value> {
    let namespace = format!("--namespace={namespace}");
    let list = [
        "get",
        "events",
        &namespace,
        "--output=json",
        "--field-selector=reason=Fenced",
    ];
    poll::until("Events", TIMEOUT, async || {
        let listed: Value = serde_json::from_str(&api.kubectl(&list).await?)?;
        let items = listed["items"].as_array().cloned().unwrap_or_default();
        Ok((items.len() == expected).then_some(items))
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn similar_events_are_counted() {
    let control_plane = ControlPlane::start().await.unwrap();
    let api = &control_plane.api;
    let (token, tracker) = (CancellationToken::new(), TaskTracker::new());
    let events = connect(api, &api.admin())
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
    let found = until_events(api, "default", 3).await;
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
    // Events in the queue are posted before the task ends.
    events.publish(note(deployment("kube-public"), "the end"));
    token.cancel();
    tracker.close();
    tracker.wait().await;
    until_events(api, "kube-public", 1).await;
    assert_eq!(events.dropped(), DroppedEvents::default());
}

async fn until_refused(events: &EventRecorder, expected: u64) {
    poll::until("refused Events", TIMEOUT, async || {
        Ok((events.dropped().refused == expected).then_some(()))
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn denied_namespace_is_paused_others_continue() {
    let control_plane = ControlPlane::start().await.unwrap();
    let api = &control_plane.api;
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
    let api_client = connect(api, &api.user("dwd", &[]).unwrap()).await;
    let events = api_client.events("kelpie-prober", "host-1");
    let (token, tracker) = (CancellationToken::new(), TaskTracker::new());
    tracker.spawn(events.clone().run(token.clone()));

    events.publish(note(deployment("default"), "refused"));
    until_refused(&events, 1).await;
    // The permission is granted now, but the namespace is not retried for ten minutes.
    let grant = "create clusterrolebinding events --clusterrole=cluster-admin --user=dwd";
    let grant: Vec<&str> = grant.split(' ').collect();
    api.kubectl(&grant).await.unwrap();
    events.publish(note(deployment("default"), "not even tried"));
    events.publish(note(deployment("garden"), "posted"));

    until_events(api, "garden", 1).await;
    until_events(api, "default", 0).await;
    until_refused(&events, 2).await;
    token.cancel();
    tracker.close();
    tracker.wait().await;
}
