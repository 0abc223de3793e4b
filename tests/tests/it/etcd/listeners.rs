//! The listeners beside plain HTTP: client certificates and unix sockets.

use std::path::Path;

use http::HeaderMap;
use kelpie_e2e::{CertificateFiles, EtcdMember};
use kelpie_net::{Alpn, Endpoint, HttpConnection, TlsClient, TlsFilePaths, TlsFiles};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::fixture::start_kelpie;

/// Returns the status of `/livez`. The client presents the certificate of this name.
async fn livez(url: &str, trusted: &CertificateFiles, client: Option<&str>) -> Option<u16> {
    let files = TlsFiles::load(TlsFilePaths {
        identity: client.map(|name| (trusted.certificate(name), trusted.key(name))),
        roots: Some(trusted.authority()),
    });
    let files = files.unwrap();
    let tls = TlsClient::new(files.roots().unwrap(), files.identity(), Alpn::Http1).unwrap();
    let endpoint = Endpoint::new(url, Some(tls)).unwrap();
    let mut connection = HttpConnection::open(&endpoint).await.ok()?;
    let response = connection.get("/livez", &HeaderMap::new()).await.ok()?;
    Some(response.status.as_u16())
}

#[tokio::test]
async fn client_certificate_can_be_required() {
    let etcd = EtcdMember::start("etcd").await.unwrap();
    let certificates = CertificateFiles::new().unwrap();
    certificates.issue("monitor").unwrap();
    let named = |flag: &str, path: &Path| format!("--{flag}={}", path.display());
    let flags = [
        named("listen-cert", &certificates.certificate("server")),
        named("listen-key", &certificates.key("server")),
        named("listen-client-ca", &certificates.authority()),
        "--listen-tls-min-version=1.3".to_owned(),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let required = start_kelpie(&etcd, &flags).await;
    let url = required.url();
    assert_eq!(livez(url, &certificates, Some("monitor")).await, Some(200));
    assert_eq!(livez(url, &certificates, None).await, None);
    let open = start_kelpie(&etcd, &flags[..2]).await;
    assert_eq!(livez(open.url(), &certificates, None).await, Some(200));
}

#[tokio::test]
async fn unix_socket_serves_probes() {
    let etcd = EtcdMember::start("etcd").await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kelpie.sock");
    let listen = format!("--listen=unix://{}", path.display());
    let arguments = ["etcd", &listen, &format!("--endpoints={}", etcd.url())];
    let kelpie = kelpie_e2e::Kelpie::start(&arguments).await.unwrap();
    assert_eq!(kelpie.url(), format!("unix://{}", path.display()));
    let mut stream = UnixStream::connect(&path).await.unwrap();
    let request = b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await.unwrap();
    assert!(reply.starts_with("HTTP/1.1 200 OK"), "{reply}");
    let exit = kelpie.stop().await.unwrap();
    assert_eq!(exit.code, Some(0));
    assert!(!path.exists());
}
