//! Bad flags end the process with a usage error. Other problems are reported while it serves.

use std::net::TcpListener;

use kelpie_e2e::{EtcdMember, Kelpie, kelpie};

use super::fixture::TIMEOUT;

#[tokio::test]
async fn bad_flags_are_usage_errors() {
    let one = "--endpoints=http://127.0.0.1:2379";
    let listen = "--listen=127.0.0.1:0";
    for (flags, texts) in [
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
        let fixed = ["etcd", listen].into_iter();
        let arguments: Vec<&str> = fixed.chain(flags.clone()).collect();
        let done = kelpie::run(&arguments).await.unwrap();
        let output = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{flags:?}: {output}");
        for text in texts {
            assert!(
                output.contains(text),
                "{flags:?} without {text:?}: {output}"
            );
        }
        assert!(!output.contains("panicked"), "{output}");
        println!("{flags:?}\n  {}", output.lines().next().unwrap_or_default());
    }
}

#[tokio::test]
async fn taken_address_ends_the_process() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let listen = format!("--listen={address}");
    let done = kelpie::run(&["etcd", "--endpoints=http://127.0.0.1:1", &listen])
        .await
        .unwrap();
    let output = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{output}");
    assert!(output.contains(&address), "{output}");
}

#[tokio::test]
async fn absent_member_fails_both_groups() {
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
async fn unknown_host_is_a_probe_problem() {
    let endpoint = "--endpoints=http://no-such-member.invalid:2379";
    let kelpie = Kelpie::start(&["etcd", "--listen=127.0.0.1:0", endpoint])
        .await
        .unwrap();
    let ready = kelpie.until_status("/readyz", 503, TIMEOUT).await.unwrap();
    kelpie.until_status("/livez", 200, TIMEOUT).await.unwrap();
    let misconfigured = kelpie
        .metric("kelpie_etcd_probe_misconfigured")
        .await
        .unwrap();
    assert!(misconfigured > 0.5, "{}", ready.body);
    let output = kelpie.get("/readyz").await.unwrap().body;
    assert!(output.contains("no-such-member.invalid"), "{output}");
}

#[tokio::test]
async fn long_failure_does_not_fill_the_log() {
    let mut etcd = EtcdMember::start("etcd").await.unwrap();
    let kelpie = super::fixture::start_kelpie(&etcd, &[]).await;
    kelpie.until_status("/readyz", 200, TIMEOUT).await.unwrap();
    etcd.kill();
    kelpie.until_status("/readyz", 503, TIMEOUT).await.unwrap();
    kelpie.until_status("/livez", 503, TIMEOUT).await.unwrap();
    let before = kelpie.process().log().lines().count();
    for _ in 0..200 {
        assert_eq!(kelpie.get("/readyz").await.unwrap().status, 503);
    }
    let log = kelpie.process().log();
    let added = log.lines().count() - before;
    assert!(added <= 10, "{added} lines for 200 failures:\n{log}");
}
