//! Many concurrent reads share one list; few reads are one request each.

use std::time::Duration;

use futures_util::future::join_all;
use kelpie_core::prober::fence::Observed;
use kelpie_core::prober::{ResourceRef, Target};
use kelpie_kube::actuator::{ActuatorError, BatchReader, TargetScope};
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::time::timeout;

use super::{FixedServer, client_for};

fn target(api_version: &str, kind: &str) -> Target {
    Target::new(ResourceRef {
        api_version: api_version.into(),
        kind: kind.into(),
        name: "kcm".into(),
    })
}

/// Returns a list with the target in this many namespaces, from `ns-0` on.
fn list(namespaces: usize) -> &'static str {
    let item = |number| {
        json!({
            "metadata": { "namespace": format!("ns-{number}"), "resourceVersion": "7" },
            "spec": { "replicas": number },
        })
    };
    let items: Vec<_> = (0..namespaces).map(item).collect();
    String::leak(json!({ "metadata": {}, "items": items }).to_string())
}

/// Reads the target in this many namespaces at the same time.
async fn read_all(
    reader: &BatchReader,
    target: &Target,
    clusters: usize,
) -> Vec<Result<Observed, ActuatorError>> {
    let scope = |number| TargetScope::of_cluster(&format!("ns-{number}"), "a");
    let scopes: Vec<TargetScope> = (0..clusters).map(scope).collect();
    let results = join_all(scopes.iter().map(|scope| reader.read(scope, target)));
    let results = timeout(Duration::from_mins(1), results).await.unwrap();
    results.into_iter().map(Option::unwrap).collect()
}

#[tokio::test]
async fn thousand_reads_cost_one_request() {
    let server = FixedServer::new(200, list(900)).await;
    // The rate limit allows no second request during this test.
    let (reader, task) = server.client(0.001, 1).await.batch_reader();
    tokio::spawn(task);
    let results = read_all(&reader, &target("apps/v1", "Deployment"), 1000).await;
    let path = "GET /apis/apps/v1/deployments?&fieldSelector=metadata.name%3Dkcm&limit=500 ";
    let requests = server.requests();
    assert_eq!(requests.len(), 1);
    assert!(requests[0].contains(path), "{}", requests[0]);
    let counts = results.iter().map(|result| match result.as_ref().unwrap() {
        Observed::Present(present) => Some(present.setting.0),
        Observed::Missing => None,
    });
    let expected = (0..1000).map(|number| (number < 900).then_some(number));
    assert!(counts.eq(expected));
}

#[tokio::test]
async fn few_reads_are_single_requests() {
    // A list of a custom resource does not show its replicas, only its scale subresource does.
    let object = r#"{"metadata": {"resourceVersion": "7"}, "spec": {"replicas": 2},
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "example.org/v1",
        "resources": [
            {"name": "widgets", "kind": "Widget", "namespaced": true, "singularName": "",
             "verbs": []},
            {"name": "widgets/scale", "kind": "Scale", "namespaced": true, "singularName": "",
             "verbs": []}]}"#;
    let server = FixedServer::new(200, object).await;
    let (reader, task) = server.client(1000.0, 1000).await.batch_reader();
    tokio::spawn(task);
    let results = read_all(&reader, &target("apps/v1", "Deployment"), 3).await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    assert_eq!(server.requests().len(), 3);
    let results = read_all(&reader, &target("example.org/v1", "Widget"), 20).await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    assert_eq!(
        server.requests().len(),
        3 + 1 + 2 * 20,
        "discovery, then object and scale"
    );
}

#[tokio::test]
async fn silent_api_server_times_out() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = client_for(listener.local_addr().unwrap(), 5.0, 10).await;
    let (reader, task) = client.batch_reader();
    tokio::spawn(task);
    let read = tokio::spawn(async move {
        let deployment = target("apps/v1", "Deployment");
        reader
            .read(&TargetScope::of_namespace("ns"), &deployment)
            .await
    });
    let mut request = [0; 4];
    let (mut stream, _) = listener.accept().await.unwrap();
    stream.read_exact(&mut request).await.unwrap();
    tokio::time::pause();
    for _ in 0..61 {
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    tokio::time::resume();
    let result = timeout(Duration::from_secs(30), read).await;
    let error = result.unwrap().unwrap().unwrap().unwrap_err();
    assert!(error.to_string().contains("timed out"), "{error}");
    assert_eq!(client.response_counts(), [(0, 1)].into());
}

#[tokio::test]
async fn denied_list_falls_back_to_single_requests() {
    let deployment = target("apps/v1", "Deployment");
    let endless = r#"{"metadata": {"continue": "more"}, "items": []}"#;
    for (status, body, requests) in [(403, "", 1 + 20), (500, "", 1), (200, endless, 40)] {
        let server = FixedServer::new(status, body).await;
        let (reader, task) = server.client(1000.0, 1000).await.batch_reader();
        tokio::spawn(task);
        let results = read_all(&reader, &deployment, 20).await;
        assert!(results.iter().all(Result::is_err));
        assert_eq!(server.requests().len(), requests, "{status}");
    }
}
