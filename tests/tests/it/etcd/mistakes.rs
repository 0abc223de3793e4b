//! Mistakes of the one who starts it: bad flags end it with a line, all else it says and serves on.

use std::net::TcpListener;

use kelpie_e2e::{Etcd, Kelpie, kelpie};

use super::stage::PATIENCE;

#[tokio::test]
async fn bad_flags_end_it_with_a_line_that_says_what_to_do() {
    let one = "--endpoints=http://127.0.0.1:2379";
    let listen = "--listen=127.0.0.1:0";
    for (flags, words) in [
        (
            vec!["--endpoints=http://127.0.0.1:1,http://127.0.0.1:2"],
            vec!["one"],
        ),
        (vec!["--endpoints=ftp://127.0.0.1:1"], vec!["http"]),
        (vec!["--endpoints="], vec!["--endpoints"]),
        (vec![one, "--user=root"], vec!["password"]),
        (vec![one, "--cert=x.crt"], vec!["--key"]),
        (vec![one, "--key=x.key"], vec!["--cert"]),
        (
            vec![one, "--livez-deadline=soon"],
            vec!["--livez-deadline", "soon"],
        ),
        (vec![one, "--readyz-deadline=0s"], vec!["--readyz-deadline"]),
        (vec![one, "--enable=everything"], vec!["everything"]),
        (
            vec![one, "--disable=nothing_like_it"],
            vec!["nothing_like_it"],
        ),
        (vec![one, "--metrics-url=nowhere"], vec!["--metrics-url"]),
        (vec![one, "--pid=0"], vec!["--pid"]),
        (vec![one, "--bogus"], vec!["--bogus"]),
    ] {
        let line: Vec<&str> = ["etcd", listen].into_iter().chain(flags.clone()).collect();
        let done = kelpie::run(&line).await.unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{flags:?}: {said}");
        for word in words {
            assert!(said.contains(word), "{flags:?} without {word:?}: {said}");
        }
        assert!(!said.contains("panicked"), "{said}");
        println!("{flags:?}\n  {}", said.lines().next().unwrap_or_default());
    }
}

#[tokio::test]
async fn an_address_that_is_taken_ends_it() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let listen = format!("--listen={address}");
    let done = kelpie::run(&["etcd", "--endpoints=http://127.0.0.1:1", &listen])
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(said.contains(&address), "{said}");
}

#[tokio::test]
async fn a_member_that_never_was_is_refused_and_the_probe_serves_on() {
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let endpoint = format!("--endpoints=http://{free}");
    let kelpie = Kelpie::start(&["etcd", "--listen=127.0.0.1:0", &endpoint])
        .await
        .unwrap();
    for target in ["/livez", "/readyz"] {
        let reply = kelpie.get(target).await.unwrap();
        assert_eq!(reply.status, 503, "{target}");
        assert!(reply.body.contains("refused"), "{target}: {}", reply.body);
    }
    let log = kelpie.process().log();
    assert!(log.contains(&free.to_string()), "{log}");
    assert_eq!(kelpie.stop().await.unwrap().code, Some(0));
}

#[tokio::test]
async fn a_name_nobody_knows_is_our_own_trouble() {
    let endpoint = "--endpoints=http://no-such-member.invalid:2379";
    let kelpie = Kelpie::start(&["etcd", "--listen=127.0.0.1:0", endpoint])
        .await
        .unwrap();
    let ready = kelpie.until("/readyz", 503, PATIENCE).await.unwrap();
    kelpie.until("/livez", 200, PATIENCE).await.unwrap();
    let misconfigured = kelpie
        .metric("kelpie_etcd_probe_misconfigured")
        .await
        .unwrap();
    assert!(misconfigured > 0.5, "{}", ready.body);
    let said = kelpie.get("/readyz").await.unwrap().body;
    assert!(said.contains("no-such-member.invalid"), "{said}");
}

#[tokio::test]
async fn failing_for_long_fills_no_log() {
    let mut etcd = Etcd::start("etcd").await.unwrap();
    let kelpie = super::stage::beside(&etcd, &[]).await;
    kelpie.until("/readyz", 200, PATIENCE).await.unwrap();
    etcd.kill();
    kelpie.until("/readyz", 503, PATIENCE).await.unwrap();
    kelpie.until("/livez", 503, PATIENCE).await.unwrap();
    let before = kelpie.process().log().lines().count();
    for _ in 0..200 {
        assert_eq!(kelpie.get("/readyz").await.unwrap().status, 503);
    }
    let log = kelpie.process().log();
    let added = log.lines().count() - before;
    assert!(added <= 10, "{added} lines for 200 failures:\n{log}");
}
