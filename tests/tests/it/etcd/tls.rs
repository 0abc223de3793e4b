//! Members that ask for a client certificate, which kubelet has not: that is what the probe is for.

use kelpie_e2e::{Etcd, Kelpie, Keys, Setup};

use super::stage::{PATIENCE, beside, on_every_line};

/// The flags of a client with the certificate `name`.
fn shown(keys: &Keys, name: &str) -> Vec<String> {
    vec![
        format!("--cacert={}", keys.authority().display()),
        format!("--cert={}", keys.certificate(name).display()),
        format!("--key={}", keys.key(name).display()),
    ]
}

async fn with(etcd: &Etcd, flags: &[String]) -> Kelpie {
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    beside(etcd, &flags).await
}

/// Not ready with a reason that has one of the words, live, and marked as trouble of our own.
async fn is_our_own_trouble(kelpie: &Kelpie, words: &[&str]) {
    let ready = kelpie.until("/readyz", 503, PATIENCE).await.unwrap();
    let body = ready.body.to_lowercase();
    assert!(
        words.iter().any(|word| body.contains(word)),
        "none of {words:?}: {body}"
    );
    for _ in 0..3 {
        let live = kelpie.get("/livez").await.unwrap();
        assert_eq!(live.status, 200, "{}", live.body);
    }
    let gauge = kelpie
        .metric("kelpie_etcd_probe_misconfigured")
        .await
        .unwrap();
    assert!(gauge > 0.5, "{}", kelpie.process().log());
}

#[tokio::test]
async fn a_client_certificate_opens_the_member_and_is_read_again_when_it_changes() {
    on_every_line(async |line| {
        let keys = Keys::new().unwrap();
        let etcd = Etcd::start_with(&Setup::new(line).secured_by(&keys))
            .await
            .unwrap();
        keys.issue_expired("probe").unwrap();
        let kelpie = with(&etcd, &shown(&keys, "probe")).await;
        is_our_own_trouble(&kelpie, &["expired", "certificate"]).await;

        keys.issue("probe").unwrap();
        let ready = kelpie
            .until("/readyz?verbose", 200, PATIENCE)
            .await
            .unwrap();
        // Metrics come by the same way, so the defragmentation is known.
        assert!(
            ready.body.contains("[+]defragmentation ok\n"),
            "{}",
            ready.body
        );
        assert_eq!(kelpie.get("/livez").await.unwrap().status, 200);
        let gauge = kelpie
            .metric("kelpie_etcd_probe_misconfigured")
            .await
            .unwrap();
        assert!(gauge < 0.5, "{}", kelpie.process().log());
    })
    .await;
}

#[tokio::test]
async fn a_member_of_another_authority_is_our_own_trouble() {
    let keys = Keys::new().unwrap();
    let other = Keys::new().unwrap();
    keys.issue("probe").unwrap();
    let etcd = Etcd::start_with(&Setup::new("etcd").secured_by(&keys))
        .await
        .unwrap();
    let mut flags = shown(&keys, "probe");
    flags[0] = format!("--cacert={}", other.authority().display());
    let kelpie = with(&etcd, &flags).await;
    is_our_own_trouble(&kelpie, &["--cacert", "authority", "issuer"]).await;
}

#[tokio::test]
async fn no_client_certificate_is_our_own_trouble() {
    on_every_line(async |line| {
        let keys = Keys::new().unwrap();
        let etcd = Etcd::start_with(&Setup::new(line).secured_by(&keys))
            .await
            .unwrap();
        let kelpie = with(&etcd, &shown(&keys, "probe")[..1]).await;
        is_our_own_trouble(&kelpie, &["--cert", "certificate"]).await;
    })
    .await;
}

#[tokio::test]
async fn plain_text_to_a_tls_member_and_the_reverse_are_our_own_trouble() {
    let keys = Keys::new().unwrap();
    keys.issue("probe").unwrap();
    let secure = Etcd::start_with(&Setup::new("etcd").secured_by(&keys))
        .await
        .unwrap();
    let plain = Etcd::start("etcd").await.unwrap();
    let listen = "--listen=127.0.0.1:0".to_owned();
    let swapped =
        |url: &str, from: &str, to: &str| format!("--endpoints={}", url.replace(from, to));
    let to_secure = swapped(secure.url(), "https://", "http://");
    let to_plain = swapped(plain.url(), "http://", "https://");
    let start = async |flags: Vec<String>| Kelpie::start(&flags).await.unwrap();
    let kelpie = start(vec!["etcd".into(), listen.clone(), to_secure]).await;
    is_our_own_trouble(&kelpie, &["https", "tls"]).await;
    let mut flags = vec!["etcd".into(), listen, to_plain];
    flags.extend(shown(&keys, "probe"));
    let kelpie = start(flags).await;
    is_our_own_trouble(&kelpie, &["http://", "tls"]).await;
}

#[tokio::test]
async fn key_files_that_are_missing_are_our_own_trouble_until_they_come() {
    let keys = Keys::new().unwrap();
    let etcd = Etcd::start_with(&Setup::new("etcd").secured_by(&keys))
        .await
        .unwrap();
    let kelpie = with(&etcd, &shown(&keys, "late")).await;
    is_our_own_trouble(&kelpie, &["late.crt", "late.key"]).await;
    keys.issue("late").unwrap();
    kelpie.until("/readyz", 200, PATIENCE).await.unwrap();
}
