//! A hub that wants certificates, and certificates that change.

use std::fs;
use std::path::Path;

use kelpie_e2e::MetricsServer;
use kelpie_e2e::pki::{Authority, Certified};

use super::stage::{Scripted, collector, lines, now_ms, once, until_ticks};

const WEB: &str = "tls_server_config:
  cert_file: hub.crt
  key_file: hub.key
  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: clients.crt
";

fn keep(folder: &Path, name: &str, pair: &Certified) {
    fs::write(folder.join(format!("{name}.crt")), &pair.certificate).unwrap();
    fs::write(folder.join(format!("{name}.key")), &pair.key).unwrap();
}

/// What the hub is and whom it lets in.
fn keys_of_hub(folder: &Path, authority: &Authority) {
    keep(folder, "hub", &authority.serving().unwrap());
    fs::write(folder.join("clients.crt"), authority.certificate()).unwrap();
}

/// Who the collector is and whom it trusts.
fn keys_of_collector(folder: &Path, authority: &Authority) {
    keep(folder, "client", &authority.client("spoke-1", &[]).unwrap());
    fs::write(folder.join("ca.crt"), authority.certificate()).unwrap();
}

#[tokio::test]
async fn certificates_may_change_under_a_running_collector() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (old, new) = (Authority::new().unwrap(), Authority::new().unwrap());
    keys_of_hub(folder, &old);
    keys_of_collector(folder, &old);
    fs::write(folder.join("web.yaml"), WEB).unwrap();
    let web = format!("--web.config.file={}", folder.join("web.yaml").display());
    let mut hub = MetricsServer::hub(&[&web]).await.unwrap();
    let source = Scripted::start(|_| (200, lines("m", 5, now_ms()))).await;
    let file = |flag: &str, name: &str| format!("--{flag}={}", folder.join(name).display());
    let (ca, certificate, key) = (
        file("to-ca-file", "ca.crt"),
        file("to-cert-file", "client.crt"),
        file("to-key-file", "client.key"),
    );
    let flags = ["--match=m", "--interval=2s", &ca, &certificate, &key];
    let collector = collector(source.url(), &hub.url(), &flags).await;
    until_ticks(&collector, "success", 1.0).await;

    // Without a certificate, or with one of a stranger, there is no way in.
    let (code, text) = once(source.url(), &hub.url(), &["--match=m", &ca]).await;
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("refused the client certificate"), "{text}");

    // The hub has a new authority, and the collector does not know it yet.
    hub.kill();
    keys_of_hub(folder, &new);
    hub.restart().await.unwrap();
    until_ticks(&collector, "failure", 1.0).await;
    collector
        .until_line(&["the hub:", "certificate"], super::stage::PATIENCE)
        .await
        .unwrap();

    keys_of_collector(folder, &new);
    until_ticks(&collector, "success", 2.0).await;
    let log = collector.log();
    assert!(log.contains("certificates were read again"), "{log}");
}
