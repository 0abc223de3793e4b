//! The HTTP contract beside a healthy member, to the byte.

use kelpie_e2e::{Etcd, Kelpie, wire};

use super::stage::{PATIENCE, beside, on_every_line};

/// What readyz runs, in the order of its lines.
const READYZ: [&str; 6] = [
    "serializable_read",
    "data_corruption",
    "read_index",
    "defragmentation",
    "non_learner",
    "raft_loop",
];

#[tokio::test]
async fn a_healthy_member_is_live_and_ready_to_the_byte() {
    on_every_line(async |line| {
        let etcd = Etcd::start(line).await.unwrap();
        let kelpie = beside(&etcd, &[]).await;
        kelpie.until("/readyz", 200, PATIENCE).await.unwrap();
        for target in ["/livez", "/readyz", "/readyz/read_index"] {
            let request = format!("GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
            let answer = wire::send(kelpie.url(), request.as_bytes()).await.unwrap();
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
async fn every_row_of_the_contract_holds_beside_every_line() {
    on_every_line(async |line| {
        let etcd = Etcd::start(line).await.unwrap();
        let kelpie = beside(&etcd, &[]).await;
        kelpie.until("/readyz", 200, PATIENCE).await.unwrap();
        verbose_and_exclude(&kelpie).await;
        single_checks(&kelpie).await;
        refusals(&kelpie).await;
    })
    .await;
}

/// The lines of these checks, all passed.
fn passed<'a>(checks: impl IntoIterator<Item = &'a str>) -> String {
    let lines = checks.into_iter().map(|name| format!("[+]{name} ok\n"));
    lines.chain(["ok\n".to_owned()]).collect()
}

async fn verbose_and_exclude(kelpie: &Kelpie) {
    let all = passed(READYZ);
    let without = |left_out: &[&str]| passed(READYZ.into_iter().filter(|n| !left_out.contains(n)));
    for (target, body) in [
        // First: of the names nobody knows, one a minute is logged.
        ("/readyz?verbose&exclude=bogus", all.clone()),
        ("/livez?verbose", passed(["serializable_read"])),
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
        ("/livez?verbose&exclude=serializable_read", passed([])),
    ] {
        let reply = kelpie.get(target).await.unwrap();
        assert_eq!((reply.status, reply.body), (200, body), "{target}");
    }
    // The name nobody knows is in the log, so that a typing error is found.
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
        "/livez/raft_loop",
        "/readyz/linearizable_read",
        "/readyz/raft_propose",
        "/livez/",
        "/livez/serializable_read/",
        "/Livez",
        "/healthz",
    ] {
        for method in ["GET", "POST"] {
            let reply = wire::request(kelpie.url(), method, target, "")
                .await
                .unwrap();
            assert_eq!(reply.status, 404, "{method} {target}");
        }
    }
    for method in [
        "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "HEAD", "FOO",
    ] {
        let reply = wire::request(kelpie.url(), method, "/livez", "")
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
async fn head_is_answered_where_a_flag_allows_it() {
    let etcd = Etcd::start("etcd").await.unwrap();
    let kelpie = beside(&etcd, &["--allow-head"]).await;
    kelpie.until("/readyz", 200, PATIENCE).await.unwrap();
    let head = wire::request(kelpie.url(), "HEAD", "/readyz", "")
        .await
        .unwrap();
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    let post = wire::request(kelpie.url(), "POST", "/readyz", "")
        .await
        .unwrap();
    assert_eq!(
        (post.status, post.header("allow")),
        (405, Some("GET, HEAD"))
    );
}

#[tokio::test]
async fn checks_can_be_enabled_and_disabled_by_name() {
    let etcd = Etcd::start("etcd").await.unwrap();
    let more = [
        "--enable=linearizable_read",
        "--enable=raft_propose",
        "--disable=raft_loop",
    ];
    let kelpie = beside(&etcd, &more).await;
    kelpie.until("/readyz", 200, PATIENCE).await.unwrap();
    for name in ["linearizable_read", "raft_propose"] {
        let reply = kelpie.get(&format!("/readyz/{name}")).await.unwrap();
        assert_eq!((reply.status, reply.body.as_str()), (200, "ok\n"), "{name}");
    }
    assert_eq!(kelpie.get("/readyz/raft_loop").await.unwrap().status, 404);
}

#[tokio::test]
async fn every_series_is_there_before_the_first_probe_and_only_answers_are_counted() {
    let etcd = Etcd::start("etcd").await.unwrap();
    let kelpie = beside(&etcd, &[]).await;
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
    wire::request(kelpie.url(), "POST", "/livez", "")
        .await
        .unwrap();
    let after = kelpie.metric(&livez).await.unwrap();
    assert!(
        (after - before - 1.0).abs() < 0.1,
        "{before} became {after}"
    );
}

#[tokio::test]
async fn a_probe_that_never_ends_by_itself_ends_by_sigterm() {
    let etcd = Etcd::start("etcd").await.unwrap();
    let kelpie = beside(&etcd, &[]).await;
    kelpie.get("/livez").await.unwrap();
    let exit = kelpie.stop().await.unwrap();
    assert_eq!(exit.code, Some(0));
    assert!(exit.took.as_secs() < 4, "{:?}", exit.took);
}

/// The answer as text, without the one header that depends on the time.
fn without_date(answer: &[u8]) -> String {
    let text = String::from_utf8_lossy(answer);
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let lines = head.split("\r\n").filter(|line| !line.starts_with("date:"));
    format!("{}\r\n\r\n{body}", lines.collect::<Vec<_>>().join("\r\n"))
}
