//! What the API server refuses, and kubeconfigs that we refuse.

use std::io::Write;

use kelpie_core::ResourceRef;
use kelpie_core::fence::Version;
use kelpie_kube::seed::{Seed, SeedError, SeedOptions, TargetError};
use tempfile::NamedTempFile;

use super::{Server, kubeconfig};

fn target() -> ResourceRef {
    ResourceRef {
        api_version: "apps/v1".into(),
        kind: "Deployment".into(),
        name: "kcm".into(),
    }
}

/// What becomes of a scale call that the server answers so.
async fn scaled(status: u16, body: &'static str) -> (TargetError, usize) {
    let server = Server::new(status, body).await;
    let targets = server.seed(5.0, 10).await.targets();
    let version = Version::new("7");
    let error = targets.scale("ns", &target(), &version, 0).await;
    (error.unwrap_err(), server.requests().len())
}

#[tokio::test]
async fn a_refused_write_is_told_at_once_and_not_repeated() {
    let rows = [
        (
            429,
            r#"{"kind": "Status", "status": "Failure", "code": 429, "message": "slow down"}"#,
            "cannot scale Deployment kcm in namespace ns now: the API server has too many \
             requests; it is tried again",
        ),
        (
            503,
            r#"{"kind": "Status", "status": "Failure", "code": 503, "message": "no leader"}"#,
            "cannot scale Deployment kcm in namespace ns: status 503: no leader; is the API \
             server up?",
        ),
        (
            403,
            r#"{"kind": "Status", "status": "Failure", "code": 403, "message": "not you"}"#,
            "may not scale Deployment kcm in namespace ns: not you; grant get and patch on it and \
             on its scale",
        ),
        (
            200,
            "not json",
            "cannot scale Deployment kcm in namespace ns: an answer that is not understood (line \
             1, column 2); is the API server up?",
        ),
        (
            200,
            "{}",
            "cannot scale Deployment kcm in namespace ns: an answer without resourceVersion; is \
             the API server up?",
        ),
    ];
    for (status, body, expected) in rows {
        let (error, requests) = scaled(status, body).await;
        assert_eq!(error.to_string(), expected);
        assert_eq!(requests, 1, "{expected}");
    }
}

async fn connected(kubeconfig: &str) -> Result<Seed, SeedError> {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(kubeconfig.as_bytes()).unwrap();
    let options = SeedOptions {
        kubeconfig: Some(file.path().to_owned()),
        qps: 5.0,
        burst: 10,
        user_agent: "kelpie-test".into(),
    };
    Seed::connect(&options).await
}

#[tokio::test]
async fn a_kubeconfig_that_cannot_be_used_is_named_with_the_reason() {
    let address = "127.0.0.1:1".parse().unwrap();
    let proxied = kubeconfig(address, ", proxy-url: 'http://127.0.0.1:2'");
    for (text, reason) in [
        ("", "current"),
        ("[", ""),
        (proxied.as_str(), "it names a proxy (proxy-url)"),
    ] {
        let Err(SeedError::Kubeconfig {
            origin,
            reason: said,
            ..
        }) = connected(text).await
        else {
            panic!("{text:?} is no kubeconfig");
        };
        assert!(origin.starts_with('/'), "{origin}");
        assert!(said.contains(reason), "{said}");
    }
    assert!(connected(&kubeconfig(address, "")).await.is_ok());
}

#[tokio::test]
async fn a_missing_kubeconfig_is_an_error_that_names_the_flag() {
    let options = SeedOptions {
        kubeconfig: Some("/does/not/exist".into()),
        qps: 5.0,
        burst: 10,
        user_agent: "kelpie-test".into(),
    };
    let Err(error) = Seed::connect(&options).await else {
        panic!("there is none");
    };
    let said = error.to_string();
    assert!(said.contains("/does/not/exist"), "{said}");
    assert!(said.ends_with("name one with --kubeconfig"), "{said}");
}
