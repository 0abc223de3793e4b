//! Members that require a client certificate, which the kubelet cannot present.

use kelpie_e2e::{CertificateFiles, EtcdMember, EtcdSetup, Kelpie};

use super::fixture::{TIMEOUT, on_every_release, start_kelpie};

/// Returns the flags of a client with the certificate `name`.
fn tls_flags(certificates: &CertificateFiles, name: &str) -> Vec<String> {
    vec![
        format!("--cacert={}", certificates.authority().display()),
        format!("--cert={}", certificates.certificate(name).display()),
        format!("--key={}", certificates.key(name).display()),
    ]
}

async fn start_with(etcd: &EtcdMember, flags: &[String]) -> Kelpie {
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    start_kelpie(etcd, &flags).await
}

/// Asserts a problem of the probe: readyz fails with one of the texts, livez passes, and the gauge
/// is set.
async fn assert_probe_problem(kelpie: &Kelpie, texts: &[&str]) {
    let ready = kelpie.until_status("/readyz", 503, TIMEOUT).await.unwrap();
    let body = ready.body.to_lowercase();
    assert!(
        texts.iter().any(|text| body.contains(text)),
        "none of {texts:?}: {body}"
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
async fn client_certificate_is_reloaded() {
    on_every_release(async |release| {
        let certificates = CertificateFiles::new().unwrap();
        let etcd = EtcdMember::start_with(&EtcdSetup::new(release).with_client_tls(&certificates))
            .await
            .unwrap();
        certificates.issue_expired("probe").unwrap();
        let kelpie = start_with(&etcd, &tls_flags(&certificates, "probe")).await;
        assert_probe_problem(&kelpie, &["expired", "certificate"]).await;

        certificates.issue("probe").unwrap();
        let ready = kelpie
            .until_status("/readyz?verbose", 200, TIMEOUT)
            .await
            .unwrap();
        // The metrics use the same certificate, so defragmentations are detected.
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
async fn wrong_authority_is_a_probe_problem() {
    let certificates = CertificateFiles::new().unwrap();
    let other = CertificateFiles::new().unwrap();
    certificates.issue("probe").unwrap();
    let etcd = EtcdMember::start_with(&EtcdSetup::new("etcd").with_client_tls(&certificates))
        .await
        .unwrap();
    let mut flags = tls_flags(&certificates, "probe");
    flags[0] = format!("--cacert={}", other.authority().display());
    let kelpie = start_with(&etcd, &flags).await;
    assert_probe_problem(&kelpie, &["--cacert", "authority", "issuer"]).await;
}

#[tokio::test]
async fn missing_client_certificate_is_a_probe_problem() {
    on_every_release(async |release| {
        let certificates = CertificateFiles::new().unwrap();
        let etcd = EtcdMember::start_with(&EtcdSetup::new(release).with_client_tls(&certificates))
            .await
            .unwrap();
        let kelpie = start_with(&etcd, &tls_flags(&certificates, "probe")[..1]).await;
        assert_probe_problem(&kelpie, &["--cert", "certificate"]).await;
    })
    .await;
}

#[tokio::test]
async fn wrong_scheme_is_a_probe_problem() {
    let certificates = CertificateFiles::new().unwrap();
    certificates.issue("probe").unwrap();
    let secure = EtcdMember::start_with(&EtcdSetup::new("etcd").with_client_tls(&certificates))
        .await
        .unwrap();
    let plain = EtcdMember::start("etcd").await.unwrap();
    let listen = "--listen=127.0.0.1:0".to_owned();
    let swapped =
        |url: &str, from: &str, to: &str| format!("--endpoints={}", url.replace(from, to));
    let to_secure = swapped(secure.url(), "https://", "http://");
    let to_plain = swapped(plain.url(), "http://", "https://");
    let start = async |flags: Vec<String>| Kelpie::start(&flags).await.unwrap();
    let kelpie = start(vec!["etcd".into(), listen.clone(), to_secure]).await;
    assert_probe_problem(&kelpie, &["https", "tls"]).await;
    let mut flags = vec!["etcd".into(), listen, to_plain];
    flags.extend(tls_flags(&certificates, "probe"));
    let kelpie = start(flags).await;
    assert_probe_problem(&kelpie, &["http://", "tls"]).await;
}

#[tokio::test]
async fn missing_files_are_a_probe_problem() {
    let certificates = CertificateFiles::new().unwrap();
    let etcd = EtcdMember::start_with(&EtcdSetup::new("etcd").with_client_tls(&certificates))
        .await
        .unwrap();
    let kelpie = start_with(&etcd, &tls_flags(&certificates, "late")).await;
    assert_probe_problem(&kelpie, &["late.crt", "late.key"]).await;
    certificates.issue("late").unwrap();
    kelpie.until_status("/readyz", 200, TIMEOUT).await.unwrap();
}
