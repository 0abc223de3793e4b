//! The server in front of a store, without a socket.

use bytes::Bytes;
use http::{Request, Response};
use kelpie_net::ServedBody;
use kelpie_sim::Store;
use kelpie_sim::resource::{CONFIG_MAPS, LEASES};
use kelpie_sim::server::{Call, Deed, Delivery, Fate, Hooks, Server, User};
use kelpie_sim::{Reason, Refusal};
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

async fn read(response: Response<ServedBody>) -> Value {
    let bytes = response.into_body().collect().await.unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

/// A server whose requests all have this fate.
fn fated(store: Store, fate: impl Fn(&Call) -> Fate + Send + Sync + 'static) -> Server {
    let hooks = Hooks {
        fate: Some(Arc::new(fate)),
        ..Hooks::default()
    };
    Server::new(store, hooks)
}

#[tokio::test(start_paused = true)]
async fn an_answer_has_the_time_of_the_store() {
    let server = Server::new(store(), Hooks::default());
    let response = server.respond(get("/version"), None).await.unwrap();
    assert_eq!(response.headers()["date"], "Fri, 15 Jan 2027 08:00:00 GMT");
    assert_eq!(read(response).await["gitVersion"], "v1.36.4");
}

#[tokio::test(start_paused = true)]
async fn a_request_can_be_late_refused_lost_or_left_hanging() {
    let late = fated(store(), |_| Fate::delayed(MINUTE));
    let began = Instant::now();
    late.respond(get(MAPS), None).await.unwrap();
    assert_eq!(began.elapsed(), MINUTE);

    let refused = fated(store(), |_| {
        Fate::refuse(Refusal::new(Reason::TooManyRequests, "too many"))
    });
    let response = refused.respond(get(MAPS), None).await.unwrap();
    assert_eq!(response.status(), 429);

    let reset = fated(store(), |_| Fate::reset());
    assert!(reset.respond(post(MAPS, &named("a")), None).await.is_none());
    assert_eq!(reset.store().count(&CONFIG_MAPS), 0);

    let hanging = fated(store(), |_| Fate::hang());
    let answer = timeout(MINUTE, hanging.respond(get(MAPS), None)).await;
    assert!(answer.is_err());
}

#[tokio::test(start_paused = true)]
async fn an_answer_can_be_lost_after_the_write_was_made() {
    let server = fated(store(), |_| Fate {
        delivery: Delivery::Lost,
        ..Fate::default()
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
async fn a_held_request_is_done_when_it_is_let_go_though_nobody_waits_for_the_answer() {
    let goes_on = Arc::new(Notify::new());
    let held = Arc::clone(&goes_on);
    let server = fated(store(), move |_| Fate::held(Arc::clone(&held)));
    let asked = timeout(MINUTE, server.respond(post(MAPS, &named("a")), None)).await;
    assert!(asked.is_err(), "who asked is gone");
    assert_eq!(server.store().count(&CONFIG_MAPS), 0);
    goes_on.notify_one();
    sleep(MINUTE).await;
    assert_eq!(server.store().count(&CONFIG_MAPS), 1);
}

#[tokio::test(start_paused = true)]
async fn reads_can_be_stale_while_writes_go_on() {
    let store = store();
    store.create(&CONFIG_MAPS, "default", named("a")).unwrap();
    let old = store.copy();
    let server = fated(store, move |_| Fate {
        deed: Deed::ServeFrom(old.clone()),
        ..Fate::default()
    });
    server.respond(post(MAPS, &named("b")), None).await.unwrap();
    let list = read(server.respond(get(MAPS), None).await.unwrap()).await;
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    assert_eq!(server.store().count(&CONFIG_MAPS), 2);
}

#[tokio::test(start_paused = true)]
async fn a_watch_can_be_cut_held_and_ended() {
    let server = Server::new(store(), Hooks::default());
    let watch = async |query: &str| {
        let path = format!("{MAPS}?watch=1{query}");
        server.respond(get(&path), None).await.unwrap().into_body()
    };
    let mut cut = watch("").await;
    server.cut_watches(|call| call.verb == "watch");
    assert!(cut.next().await.unwrap().is_err());
    assert!(cut.next().await.is_none());

    let mut held = watch("").await;
    server.hold_watches(true);
    server
        .store()
        .create(&CONFIG_MAPS, "default", named("a"))
        .unwrap();
    assert!(timeout(MINUTE, held.next()).await.is_err());
    server.hold_watches(false);
    let line = held.next().await.unwrap().unwrap();
    assert!(line.starts_with(b"{\"type\":\"ADDED\""), "{line:?}");

    let began = Instant::now();
    let version = server.store().version();
    let mut short = watch(&format!("&resourceVersion={version}&timeoutSeconds=7")).await;
    assert!(short.next().await.is_none());
    assert_eq!(began.elapsed(), Duration::from_secs(7));
}

#[tokio::test(start_paused = true)]
async fn bookmarks_come_every_minute_and_before_the_end() {
    let server = Server::new(store(), Hooks::default());
    let version = server.store().version();
    let query = "watch=1&allowWatchBookmarks=true&timeoutSeconds=90";
    let path = format!("{MAPS}?{query}&resourceVersion={version}");
    let mut watch = server.respond(get(&path), None).await.unwrap().into_body();
    let began = Instant::now();
    let mut seen = Vec::new();
    while let Some(line) = watch.next().await {
        let event: Value = serde_json::from_slice(&line.unwrap()).unwrap();
        assert_eq!(event["type"], "BOOKMARK");
        let at = &event["object"]["metadata"]["resourceVersion"];
        assert_eq!(*at, version.to_string());
        seen.push(began.elapsed().as_secs());
    }
    assert_eq!(seen, [60, 88]);
}

#[tokio::test(start_paused = true)]
async fn users_are_known_by_token_or_certificate_until_they_are_removed() {
    let server = Server::new(store(), Hooks::default());
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
    assert_eq!(status("", None).await, 200, "as long as nobody is known");
    server.users().add_token("t", User::admin());
    server
        .users()
        .add_certificate(b"der", User::new("rita", &["readers"]));
    assert_eq!(status("t", None).await, 200);
    assert_eq!(status("x", None).await, 401);
    assert_eq!(status("", None).await, 403);
    assert_eq!(status("", Some(b"der")).await, 403);
    assert_eq!(status("", Some(b"other")).await, 401);
    server.users().remove_token("t");
    assert_eq!(status("t", None).await, 401);
}

#[tokio::test(start_paused = true)]
async fn rights_are_what_the_hook_says_and_every_request_is_shown() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let hooks = Hooks {
        rights: Some(Arc::new(|call: &Call| call.verb != "list")),
        log: Some(Arc::new(move |call: &Call, status| {
            let what = format!("{} {} {status}", call.verb, call.path);
            log.lock().unwrap().push(what);
        })),
        fate: None,
    };
    let server = Server::new(store(), hooks);
    server.respond(get(MAPS), None).await;
    server.respond(post(MAPS, &named("a")), None).await;
    let expected = [format!("list {MAPS} 403"), format!("create {MAPS} 201")];
    assert_eq!(*seen.lock().unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_conversation_needs_no_socket() {
    let server = Server::new(store(), Hooks::default());
    let (mut client, stream) = duplex(65_536);
    let serving = tokio::spawn(async move { server.converse(stream, None).await });
    client
        .write_all(b"GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("ok"),
        "{answer}"
    );
    serving.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn two_runs_give_the_same_bytes() {
    let run = async || {
        let server = Server::new(store(), Hooks::default());
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
async fn nonsense_is_refused_and_breaks_nothing() {
    let server = Server::new(store(), Hooks::default());
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
        json!({ "metadata": { "name": ["a"], "labels": "x", "finalizers": 3 }, "spec": [], "data": 1 }),
        json!({ "metadata": { "name": "a", "annotations": [] }, "stringData": { "k": 1 }, "data": 1 }),
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
