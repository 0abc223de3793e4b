//! Mutual TLS with the hub while certificates are rotated.

use std::fs;
use std::path::Path;

use kelpie_e2e::MetricsServer;
use kelpie_e2e::pki::{CertifiedKey, TestCa};

use super::fixture::{
    ScriptedServer, TIMEOUT, collector, exposition, now_ms, run_once, until_ticks,
};

const WEB: &str = "tls_server_config:
  cert_file: hub.crt
  key_file: hub.key
  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: clients.crt
";

fn write_key_pair(folder: &Path, name: &str, pair: &CertifiedKey) {
    fs::write(folder.join(format!("{name}.crt")), &pair.certificate).unwrap();
    fs::write(folder.join(format!("{name}.key")), &pair.key).unwrap();
}

/// Writes the hub's certificate and the authority of the clients it accepts.
fn write_hub_keys(folder: &Path, authority: &TestCa) {
    write_key_pair(folder, "hub", &authority.serving().unwrap());
    fs::write(folder.join("clients.crt"), authority.certificate()).unwrap();
}

/// Writes the collector's certificate and the authority it trusts.
fn write_collector_keys(folder: &Path, authority: &TestCa) {
    write_key_pair(folder, "client", &authority.client("spoke-1", &[]).unwrap());
    fs::write(folder.join("ca.crt"), authority.certificate()).unwrap();
}

#[tokio::test]
async fn running_collector_reloads_certificates() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (old, new) = (TestCa::new().unwrap(), TestCa::new().unwrap());
    write_hub_keys(folder, &old);
    write_collector_keys(folder, &old);
    fs::write(folder.join("web.yaml"), WEB).unwrap();
    let web = format!("--web.config.file={}", folder.join("web.yaml").display());
    let mut hub = MetricsServer::hub(&[&web]).await.unwrap();
    let source = ScriptedServer::start(|_| (200, exposition("m", 5, now_ms()))).await;
    let file = |flag: &str, name: &str| format!("--{flag}={}", folder.join(name).display());
    let (ca, certificate, key) = (
        file("to-ca-file", "ca.crt"),
        file("to-cert-file", "client.crt"),
        file("to-key-file", "client.key"),
    );
    let flags = ["--match=m", "--interval=2s", &ca, &certificate, &key];
    let collector = collector(source.url(), &hub.url(), &flags).await;
    until_ticks(&collector, "success", 1.0).await;

    // The hub rejects clients without a certificate.
    let (code, text) = run_once(source.url(), &hub.url(), &["--match=m", &ca]).await;
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("rejected the client certificate"), "{text}");

    // The hub has a new authority that the collector does not trust yet.
    hub.kill();
    write_hub_keys(folder, &new);
    hub.restart().await.unwrap();
    until_ticks(&collector, "failure", 1.0).await;
    collector
        .until_line(&["hub:", "certificate"], TIMEOUT)
        .await
        .unwrap();

    write_collector_keys(folder, &new);
    until_ticks(&collector, "success", 2.0).await;
    let log = collector.log();
    assert!(log.contains("reloaded certificates"), "{log}");
}
