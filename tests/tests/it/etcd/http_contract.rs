//! The HTTP contract with a healthy member, byte for byte.

use kelpie_e2e::{EtcdMember, Kelpie, plain_http};

use super::fixture::{TIMEOUT, on_every_release, start_kelpie};

/// The checks of readyz, in the order in which responses list them.
const READYZ: [&str; 7] = [
    "serializable_read",
    "data_corruption",
    "read_index",
    "defragmentation",
    "non_learner",
    "raft_loop",
    "watch",
];

#[tokio::test]
async fn healthy_responses_are_byte_exact() {
    on_every_release(async |release| {
        let etcd = EtcdMember::start(release).await.unwrap();
        let kelpie = start_kelpie(&etcd, &[]).await;
        kelpie.until_status("/readyz", 200, TIMEOUT).await.unwrap();
        for target in ["/livez", "/readyz", "/readyz/read_index"] {
            let request = format!("GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
            let answer = plain_http::send(kelpie.url(), request.as_bytes())
                .await
                .unwrap();
            assert_eq!(
                without_date(&answer),
                "HTTP/1.1 200 OK\r\ncontent-type: text/plain; charset=utf-8\r\n\
                 x-content-type-options: nosniff\r\ncontent-length: 3\r\nconnection: close\r\n\r\n\
                 ok\n",
                "{target}"
            );
        }
    })
    .await;
}

#[tokio::test]
async fn contract_holds_on_every_release() {
    on_every_release(async |release| {
        let etcd = EtcdMember::start(release).await.unwrap();
        let kelpie = start_kelpie(&etcd, &[]).await;
        kelpie.until_status("/readyz", 200, TIMEOUT).await.unwrap();
        verbose_and_exclude(&kelpie).await;
        single_checks(&kelpie).await;
        refusals(&kelpie).await;
    })
    .await;
}

/// Returns a verbose body in which all these checks pass.
fn passed<'a>(checks: impl IntoIterator<Item = &'a str>) -> String {
    let lines = checks.into_iter().map(|name| format!("[+]{name} ok\n"));
    lines.chain(["ok\n".to_owned()]).collect()
}

async fn verbose_and_exclude(kelpie: &Kelpie) {
    let all = passed(READYZ);
    let without = |left_out: &[&str]| passed(READYZ.into_iter().filter(|n| !left_out.contains(n)));
    for (target, body) in [
        // This comes first, because only one unknown name per minute is logged.
        ("/readyz?verbose&exclude=bogus", all.clone()),
        ("/livez?verbose", passed(["serializable_read", "raft_loop"])),
        ("/readyz?verbose", all.clone()),
        ("/readyz?verbose=false", all.clone()),
        ("/readyz?verbose=0", all.clone()),
        ("/readyz?VERBOSE", "ok\n".to_owned()),
        (
            "/readyz?exclude=data_corruption&verbose",
            without(&["data_corruption"]),
        ),
        (
            "/readyz?exclude=read_index&exclude=non_learner&verbose",
            without(&["read_index", "non_learner"]),
        ),
        (
            "/readyz?verbose&exclude=read%5Findex",
            without(&["read_index"]),
        ),
        (
            "/readyz?verbose&exclude=read_index,non_learner",
            all.clone(),
        ),
        ("/readyz?verbose&exclude=", all.clone()),
        ("/readyz?verbose&exclude=READ_INDEX", all.clone()),
        (
            "/readyz?verbose&exclude=read_index;exclude=non_learner",
            all.clone(),
        ),
        ("/readyz?verbose&exclude=%zz", all),
        (
            "/livez?verbose&exclude=serializable_read",
            passed(["raft_loop"]),
        ),
        (
            "/livez?verbose&exclude=serializable_read&exclude=raft_loop",
            passed([]),
        ),
        // Only by name: probes of the group skip it.
        (
            "/readyz/linearizable_read?verbose",
            passed(["linearizable_read"]),
        ),
    ] {
        let reply = kelpie.get(target).await.unwrap();
        assert_eq!((reply.status, reply.body), (200, body), "{target}");
    }
    // Unknown names are logged, so that a typing error is found.
    let log = kelpie.process().log();
    assert!(log.contains("bogus"), "{log}");
}

async fn single_checks(kelpie: &Kelpie) {
    for name in READYZ {
        let reply = kelpie.get(&format!("/readyz/{name}")).await.unwrap();
        assert_eq!((reply.status, reply.body.as_str()), (200, "ok\n"), "{name}");
        let target = format!("/readyz/{name}?exclude={name}&verbose");
        let reply = kelpie.get(&target).await.unwrap();
        assert_eq!(
            (reply.status, reply.body),
            (200, passed([name])),
            "{target}"
        );
    }
}

async fn refusals(kelpie: &Kelpie) {
    for target in [
        "/readyz/bogus",
        "/livez/data_corruption",
        "/livez/watch",
        "/readyz/raft_propose",
        "/livez/",
        "/livez/serializable_read/",
        "/Livez",
        "/healthz",
    ] {
        for method in ["GET", "POST"] {
            let reply = plain_http::request(kelpie.url(), method, target, "")
                .await
                .unwrap();
            assert_eq!(reply.status, 404, "{method} {target}");
        }
    }
    for method in [
        "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "HEAD", "FOO",
    ] {
        let reply = plain_http::request(kelpie.url(), method, "/livez", "")
            .await
            .unwrap();
        assert_eq!(
            (reply.status, reply.header("allow")),
            (405, Some("GET")),
            "{method}"
        );
    }
}

#[tokio::test]
async fn head_can_be_allowed_by_flag() {
    let etcd = EtcdMember::start("etcd").await.unwrap();
    let kelpie = start_kelpie(&etcd, &["--allow-head"]).await;
    kelpie.until_status("/readyz", 200, TIMEOUT).await.unwrap();
    let head = plain_http::request(kelpie.url(), "HEAD", "/readyz", "")
        .await
        .unwrap();
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    let post = plain_http::request(kelpie.url(), "POST", "/readyz", "")
        .await
        .unwrap();
    assert_eq!(
        (post.status, post.header("allow")),
        (405, Some("GET, HEAD"))
    );
}

#[tokio::test]
async fn checks_are_enabled_and_disabled_by_name() {
    let etcd = EtcdMember::start("etcd").await.unwrap();
    let more = [
        "--enable=linearizable_read",
        "--enable=raft_propose",
        "--disable=raft_loop",
    ];
    let less = ["--disable=linearizable_read"];
    let kelpie = start_kelpie(&etcd, &more).await;
    kelpie.until_status("/readyz", 200, TIMEOUT).await.unwrap();
    for name in ["linearizable_read", "raft_propose"] {
        let reply = kelpie.get(&format!("/readyz/{name}")).await.unwrap();
        assert_eq!((reply.status, reply.body.as_str()), (200, "ok\n"), "{name}");
    }
    for target in ["/readyz/raft_loop", "/livez/raft_loop"] {
        assert_eq!(kelpie.get(target).await.unwrap().status, 404, "{target}");
    }
    let kelpie = start_kelpie(&etcd, &less).await;
    let gone = kelpie.get("/readyz/linearizable_read").await.unwrap();
    assert_eq!(gone.status, 404);
}

#[tokio::test]
async fn metrics_exist_and_count_only_results() {
    let etcd = EtcdMember::start("etcd").await.unwrap();
    let kelpie = start_kelpie(&etcd, &[]).await;
    let total = |group: &str, name: &str, status: &str| {
        let labels = format!(r#"{{type="{group}",name="{name}",status="{status}"}}"#);
        format!("kelpie_etcd_healthchecks_total{labels}")
    };
    let livez = total("livez", "serializable_read", "success");
    for name in READYZ {
        for status in ["success", "error"] {
            kelpie.metric(&total("readyz", name, status)).await.unwrap();
        }
        let gauge = format!(r#"kelpie_etcd_healthcheck{{type="readyz",name="{name}"}}"#);
        kelpie.metric(&gauge).await.unwrap();
    }
    kelpie
        .metric("kelpie_etcd_probe_misconfigured")
        .await
        .unwrap();
    let before = kelpie.metric(&livez).await.unwrap();
    for target in ["/livez", "/livez/bogus", "/livez?exclude=serializable_read"] {
        kelpie.get(target).await.unwrap();
    }
    plain_http::request(kelpie.url(), "POST", "/livez", "")
        .await
        .unwrap();
    let after = kelpie.metric(&livez).await.unwrap();
    assert!(
        (after - before - 1.0).abs() < 0.1,
        "{before} became {after}"
    );
}

#[tokio::test]
async fn sigterm_ends_the_server() {
    let etcd = EtcdMember::start("etcd").await.unwrap();
    let kelpie = start_kelpie(&etcd, &[]).await;
    kelpie.get("/livez").await.unwrap();
    let exit = kelpie.stop().await.unwrap();
    assert_eq!(exit.code, Some(0));
    assert!(exit.took.as_secs() < 4, "{:?}", exit.took);
}

/// Returns the response as text, without the date header.
fn without_date(answer: &[u8]) -> String {
    let text = String::from_utf8_lossy(answer);
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let lines = head.split("\r\n").filter(|line| !line.starts_with("date:"));
    format!("{}\r\n\r\n{body}", lines.collect::<Vec<_>>().join("\r\n"))
}
