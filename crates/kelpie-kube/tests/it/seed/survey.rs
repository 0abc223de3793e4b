//! Many looks at once cost a list, few a request each.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use kelpie_core::ResourceRef;
use kelpie_core::fence::Sight;
use kelpie_kube::seed::{Survey, TargetError};
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::time::timeout;

use super::{Server, seed_at};

fn target(api_version: &str, kind: &str) -> ResourceRef {
    ResourceRef {
        api_version: api_version.into(),
        kind: kind.into(),
        name: "kcm".into(),
    }
}

/// A list with the target in so many namespaces, `ns-0` and on.
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

/// The looks of so many clusters at the same time.
async fn looks(
    survey: &Survey,
    target: &ResourceRef,
    clusters: usize,
) -> Vec<Result<Sight, TargetError>> {
    let names = (0..clusters).map(|number| Arc::from(format!("ns-{number}")));
    let names: Vec<Arc<str>> = names.collect();
    let looks = join_all(names.iter().map(|name| survey.look(name, target)));
    let looks = timeout(Duration::from_mins(1), looks).await.unwrap();
    looks.into_iter().map(Option::unwrap).collect()
}

#[tokio::test]
async fn the_looks_of_a_thousand_clusters_cost_one_request() {
    let server = Server::new(200, list(900)).await;
    // A second request would not get through while this test lasts.
    let (survey, answering) = server.seed(0.001, 1).await.survey();
    tokio::spawn(answering);
    let sights = looks(&survey, &target("apps/v1", "Deployment"), 1000).await;
    let path = "GET /apis/apps/v1/deployments?&fieldSelector=metadata.name%3Dkcm&limit=500 ";
    let requests = server.requests();
    assert_eq!(requests.len(), 1);
    assert!(requests[0].contains(path), "{}", requests[0]);
    let counts = sights.iter().map(|sight| match sight.as_ref().unwrap() {
        Sight::Present(present) => Some(present.replicas),
        Sight::Missing => None,
    });
    let expected = (0..1000).map(|number| (number < 900).then_some(number));
    assert!(counts.eq(expected));
}

#[tokio::test]
async fn few_looks_and_kinds_whose_lists_do_not_tell_counts_are_asked_for_one_by_one() {
    let object = r#"{"metadata": {"resourceVersion": "7"}, "spec": {"replicas": 2}, "kind": "APIResourceList",
        "apiVersion": "v1", "groupVersion": "example.org/v1", "resources": [
            {"name": "rigs", "kind": "Rig", "namespaced": true, "singularName": "", "verbs": []},
            {"name": "rigs/scale", "kind": "Scale", "namespaced": true, "singularName": "",
             "verbs": []}]}"#;
    let server = Server::new(200, object).await;
    let (survey, answering) = server.seed(1000.0, 1000).await.survey();
    tokio::spawn(answering);
    let sights = looks(&survey, &target("apps/v1", "Deployment"), 3).await;
    assert!(sights.iter().all(Result::is_ok), "{sights:?}");
    assert_eq!(server.requests().len(), 3);
    let sights = looks(&survey, &target("example.org/v1", "Rig"), 20).await;
    assert!(sights.iter().all(Result::is_ok), "{sights:?}");
    assert_eq!(
        server.requests().len(),
        3 + 1 + 2 * 20,
        "discovery, then object and scale"
    );
}

#[tokio::test]
async fn an_api_server_that_says_nothing_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let seed = seed_at(listener.local_addr().unwrap(), 5.0, 10).await;
    let (survey, answering) = seed.survey();
    tokio::spawn(answering);
    let look = tokio::spawn(async move {
        let deployment = target("apps/v1", "Deployment");
        survey.look(&"ns".into(), &deployment).await
    });
    let mut request = [0; 4];
    let (mut stream, _) = listener.accept().await.unwrap();
    stream.read_exact(&mut request).await.unwrap();
    tokio::time::pause();
    for _ in 0..61 {
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    tokio::time::resume();
    let look = timeout(Duration::from_secs(30), look).await;
    let error = look.unwrap().unwrap().unwrap().unwrap_err();
    assert!(error.to_string().contains("timed out"), "{error}");
    assert_eq!(seed.answers(), [(0, 1)].into());
}

#[tokio::test]
async fn who_may_not_list_asks_one_by_one_and_other_failures_are_everybodys() {
    let deployment = target("apps/v1", "Deployment");
    let endless = r#"{"metadata": {"continue": "more"}, "items": []}"#;
    for (status, body, requests) in [(403, "", 1 + 20), (500, "", 1), (200, endless, 40)] {
        let server = Server::new(status, body).await;
        let (survey, answering) = server.seed(1000.0, 1000).await.survey();
        tokio::spawn(answering);
        let sights = looks(&survey, &deployment, 20).await;
        assert!(sights.iter().all(Result::is_err));
        assert_eq!(server.requests().len(), requests, "{status}");
    }
}
