//! Requests to a simulated API server, without a socket.

use bytes::Bytes;
use http::{Request, Response};
use kelpie_net::ResponseBody;
use kelpie_sim::ObjectStore;
use kelpie_sim::resource::{CONFIG_MAPS, LEASES};
use kelpie_sim::server::{
    FaultInjection, InjectedAction, RequestInfo, ResponseDelivery, ServerHooks, SimServer, UserInfo,
};
use kelpie_sim::{StatusError, StatusReason};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use crate::{named, store};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const MINUTE: Duration = Duration::from_mins(1);

fn get(path: &str) -> Request<Bytes> {
    Request::get(path).body(Bytes::new()).unwrap()
}

fn post(path: &str, body: &Value) -> Request<Bytes> {
    Request::post(path).body(body.to_string().into()).unwrap()
}

async fn read(response: Response<ResponseBody>) -> Value {
    let bytes = response.into_body().collect().await.unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

/// A server that injects faults into all requests.
fn server_with_faults(
    store: ObjectStore,
    faults: impl Fn(&RequestInfo) -> FaultInjection + Send + Sync + 'static,
) -> SimServer {
    let hooks = ServerHooks {
        faults: Some(Arc::new(faults)),
        ..ServerHooks::default()
    };
    SimServer::new(store, hooks)
}

#[tokio::test(start_paused = true)]
async fn response_date_is_store_time() {
    let server = SimServer::new(store(), ServerHooks::default());
    let response = server.respond(get("/version"), None).await.unwrap();
    assert_eq!(response.headers()["date"], "Fri, 15 Jan 2027 08:00:00 GMT");
    assert_eq!(read(response).await["gitVersion"], "v1.36.4");
}

#[tokio::test(start_paused = true)]
async fn injects_delay_rejection_reset_and_hang() {
    let late = server_with_faults(store(), |_| FaultInjection::delayed(MINUTE));
    let started = Instant::now();
    late.respond(get(MAPS), None).await.unwrap();
    assert_eq!(started.elapsed(), MINUTE);

    let rejected = server_with_faults(store(), |_| {
        let error = StatusError::new(StatusReason::TooManyRequests, "too many");
        FaultInjection {
            action: InjectedAction::Reject(error),
            ..FaultInjection::default()
        }
    });
    let response = rejected.respond(get(MAPS), None).await.unwrap();
    assert_eq!(response.status(), 429);

    let reset = server_with_faults(store(), |_| FaultInjection::reset());
    assert!(reset.respond(post(MAPS, &named("a")), None).await.is_none());
    assert_eq!(reset.store().count(&CONFIG_MAPS), 0);

    let hanging = server_with_faults(store(), |_| FaultInjection::hang());
    let response = timeout(MINUTE, hanging.respond(get(MAPS), None)).await;
    assert!(response.is_err());
}

#[tokio::test(start_paused = true)]
async fn cut_body_stops_midway() {
    let whole = SimServer::new(store(), ServerHooks::default());
    let whole = whole.respond(get(MAPS), None).await.unwrap();
    let whole = whole.into_body().collect().await.unwrap();
    for resets in [false, true] {
        let server = server_with_faults(store(), move |_| FaultInjection {
            delivery: ResponseDelivery::CutMidway { resets },
            ..FaultInjection::default()
        });
        let mut body = server.respond(get(MAPS), None).await.unwrap().into_body();
        let half = body.next().await.unwrap().unwrap();
        assert_eq!(half, whole.slice(..whole.len() / 2));
        let rest = timeout(MINUTE, body.next()).await;
        assert_eq!(rest.is_ok_and(|rest| rest.unwrap().is_err()), resets);
    }
}

#[tokio::test(start_paused = true)]
async fn lost_response_keeps_the_write() {
    let server = server_with_faults(store(), |_| FaultInjection {
        delivery: ResponseDelivery::Reset,
        ..FaultInjection::default()
    });
    assert!(
        server
            .respond(post(MAPS, &named("a")), None)
            .await
            .is_none()
    );
    assert_eq!(server.store().count(&CONFIG_MAPS), 1);
}

#[tokio::test(start_paused = true)]
async fn held_request_completes_without_its_client() {
    let resume = Arc::new(Notify::new());
    let held = Arc::clone(&resume);
    let server = server_with_faults(store(), move |_| FaultInjection::held(Arc::clone(&held)));
    let response = timeout(MINUTE, server.respond(post(MAPS, &named("a")), None)).await;
    assert!(response.is_err(), "the client is gone");
    assert_eq!(server.store().count(&CONFIG_MAPS), 0);
    resume.notify_one();
    sleep(MINUTE).await;
    assert_eq!(server.store().count(&CONFIG_MAPS), 1);
}

#[tokio::test(start_paused = true)]
async fn stale_reads_do_not_affect_writes() {
    let store = store();
    store.create(&CONFIG_MAPS, "default", named("a")).unwrap();
    let old = store.snapshot();
    let server = server_with_faults(store, move |_| FaultInjection {
        action: InjectedAction::ServeStale(old.clone()),
        ..FaultInjection::default()
    });
    server.respond(post(MAPS, &named("b")), None).await.unwrap();
    let list = read(server.respond(get(MAPS), None).await.unwrap()).await;
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    assert_eq!(server.store().count(&CONFIG_MAPS), 2);
}

#[tokio::test(start_paused = true)]
async fn watches_can_be_reset_stalled_ended() {
    let server = SimServer::new(store(), ServerHooks::default());
    let watch = async |query: &str| {
        let path = format!("{MAPS}?watch=1{query}");
        server.respond(get(&path), None).await.unwrap().into_body()
    };
    let mut reset = watch("").await;
    server.reset_watches(|request| request.verb == "watch");
    assert!(reset.next().await.unwrap().is_err());
    assert!(reset.next().await.is_none());

    let mut stalled = watch("").await;
    server.stall_watches(true);
    server
        .store()
        .create(&CONFIG_MAPS, "default", named("a"))
        .unwrap();
    assert!(timeout(MINUTE, stalled.next()).await.is_err());
    server.stall_watches(false);
    let line = stalled.next().await.unwrap().unwrap();
    assert!(line.starts_with(b"{\"type\":\"ADDED\""), "{line:?}");

    let started = Instant::now();
    let version = server.store().version();
    let mut short = watch(&format!("&resourceVersion={version}&timeoutSeconds=7")).await;
    assert!(short.next().await.is_none());
    assert_eq!(started.elapsed(), Duration::from_secs(7));
}

#[tokio::test(start_paused = true)]
async fn bookmarks_every_minute_and_before_end() {
    let server = SimServer::new(store(), ServerHooks::default());
    let version = server.store().version();
    let query = "watch=1&allowWatchBookmarks=true&timeoutSeconds=90";
    let path = format!("{MAPS}?{query}&resourceVersion={version}");
    let mut watch = server.respond(get(&path), None).await.unwrap().into_body();
    let started = Instant::now();
    let mut seen = Vec::new();
    while let Some(line) = watch.next().await {
        let event: Value = serde_json::from_slice(&line.unwrap()).unwrap();
        assert_eq!(event["type"], "BOOKMARK");
        let at = &event["object"]["metadata"]["resourceVersion"];
        assert_eq!(*at, version.to_string());
        seen.push(started.elapsed().as_secs());
    }
    assert_eq!(seen, [60, 88]);
}

#[tokio::test(start_paused = true)]
async fn authenticates_by_token_or_certificate() {
    let server = SimServer::new(store(), ServerHooks::default());
    let status = async |token: &str, certificate: Option<&[u8]>| {
        let mut request = get(MAPS);
        if !token.is_empty() {
            let value = format!("Bearer {token}").parse().unwrap();
            request.headers_mut().insert("authorization", value);
        }
        server
            .respond(request, certificate)
            .await
            .unwrap()
            .status()
            .as_u16()
    };
    assert_eq!(status("", None).await, 200, "no users are known yet");
    server.users().add_token("t", UserInfo::admin());
    server
        .users()
        .add_certificate(b"der", UserInfo::new("rita", &["readers"]));
    assert_eq!(status("t", None).await, 200);
    assert_eq!(status("x", None).await, 401);
    assert_eq!(status("", None).await, 403);
    assert_eq!(status("", Some(b"der")).await, 403);
    assert_eq!(status("", Some(b"other")).await, 401);
    server.users().remove_token("t");
    assert_eq!(status("t", None).await, 401);
}

#[tokio::test(start_paused = true)]
async fn hooks_authorize_and_log_requests() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let hooks = ServerHooks {
        authorizer: Some(Arc::new(|request: &RequestInfo| request.verb != "list")),
        log: Some(Arc::new(move |request: &RequestInfo, status| {
            let what = format!("{} {} {status}", request.verb, request.path);
            log.lock().unwrap().push(what);
        })),
        faults: None,
    };
    let server = SimServer::new(store(), hooks);
    server.respond(get(MAPS), None).await;
    server.respond(post(MAPS, &named("a")), None).await;
    let expected = [format!("list {MAPS} 403"), format!("create {MAPS} 201")];
    assert_eq!(*seen.lock().unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn serves_connection_without_socket() {
    let server = SimServer::new(store(), ServerHooks::default());
    let (mut client, stream) = duplex(65_536);
    let serving = tokio::spawn(async move { server.serve_connection(stream, None).await });
    client
        .write_all(b"GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut response = String::new();
    client.read_to_string(&mut response).await.unwrap();
    assert!(
        response.starts_with("HTTP/1.1 200 OK") && response.ends_with("ok"),
        "{response}"
    );
    serving.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn responses_are_reproducible() {
    let run = async || {
        let server = SimServer::new(store(), ServerHooks::default());
        let lease = json!({ "metadata": { "generateName": "l-" }, "spec": {} });
        let path = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
        for _ in 0..10 {
            server.respond(post(path, &lease), None).await.unwrap();
        }
        assert_eq!(server.store().count(&LEASES), 10);
        let response = server.respond(get(path), None).await.unwrap();
        response.into_body().collect().await.unwrap()
    };
    assert_eq!(run().await, run().await);
}

#[tokio::test(start_paused = true)]
async fn malformed_requests_break_nothing() {
    let server = SimServer::new(store(), ServerHooks::default());
    server.respond(post(MAPS, &named("a")), None).await.unwrap();
    let one = format!("{MAPS}/a");
    let reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let events = "/apis/events.k8s.io/v1/namespaces/default/events";
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let bodies = [
        json!(null),
        json!([]),
        json!("text"),
        json!({ "metadata": 7 }),
        json!({
            "metadata": { "name": ["a"], "labels": "x", "finalizers": 3 },
            "spec": [],
            "data": 1,
        }),
        json!({
            "metadata": { "name": "a", "annotations": [] },
            "stringData": { "k": 1 },
            "data": 1,
        }),
        json!({ "metadata": { "name": "x.y" }, "spec": { "versions": 1, "names": [] } }),
        json!([{ "op": "replace", "path": "", "value": 1 }]),
    ];
    let patches = [
        "application/merge-patch+json",
        "application/json-patch+json",
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
    ];
    for body in bodies {
        let bytes: Bytes = body.to_string().into();
        for path in [
            MAPS,
            events,
            reviews,
            definitions,
            "/api/v1/namespaces",
            "/api/v1/namespaces/default/secrets",
            "/apis/apps/v1/namespaces/default/deployments",
            "/apis/coordination.k8s.io/v1/namespaces/default/leases",
        ] {
            server.respond(post(path, &body), None).await.unwrap();
        }
        let put = Request::put(&one).body(bytes.clone()).unwrap();
        server.respond(put, None).await.unwrap();
        for patch in patches {
            let request = Request::patch(format!("{one}?fieldManager=x"));
            let request = request.header("content-type", patch).body(bytes.clone());
            server.respond(request.unwrap(), None).await.unwrap();
        }
        let delete = Request::delete(MAPS).body(bytes).unwrap();
        server.respond(delete, None).await.unwrap();
        server.respond(post(MAPS, &named("a")), None).await.unwrap();
    }
    let response = server.respond(get(&one), None).await.unwrap();
    assert_eq!(read(response).await["metadata"]["name"], "a");
}
