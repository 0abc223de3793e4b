//! Errors of the API server, and kubeconfigs that are refused.

use std::io::Write;

use kelpie_core::prober::fence::ResourceVersion;
use kelpie_core::prober::{ResourceRef, Setting};
use kelpie_kube::actuator::ActuatorError;
use kelpie_kube::client::{ClientError, ClientOptions, ClusterClient};
use tempfile::NamedTempFile;

use super::{FixedServer, kubeconfig};

fn target() -> ResourceRef {
    ResourceRef {
        api_version: "apps/v1".into(),
        kind: "Deployment".into(),
        name: "kcm".into(),
    }
}

/// Returns the error of a scale call with this response, and the number of requests.
async fn scale_error(status: u16, body: &'static str) -> (ActuatorError, usize) {
    let server = FixedServer::new(status, body).await;
    let targets = server.client(5.0, 10).await.actuators().scale().clone();
    let version = ResourceVersion::new("7");
    let error = targets.scale("ns", &target(), &version, Setting(0)).await;
    (error.unwrap_err(), server.requests().len())
}

#[tokio::test]
async fn failed_write_is_not_retried() {
    let rows = [
        (
            429,
            r#"{"kind": "Status", "status": "Failure", "code": 429, "message": "slow down"}"#,
            "cannot scale Deployment kcm in namespace ns: the API server is throttling requests \
             (429); retrying",
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
            "cannot scale Deployment kcm in namespace ns: the response cannot be decoded (line \
             1, column 2); is the API server up?",
        ),
        (
            200,
            "{}",
            "cannot scale Deployment kcm in namespace ns: a response without resourceVersion; is \
             the API server up?",
        ),
    ];
    for (status, body, expected) in rows {
        let (error, requests) = scale_error(status, body).await;
        assert_eq!(error.to_string(), expected);
        assert_eq!(requests, 1, "{expected}");
    }
}

async fn connect(kubeconfig: &str) -> Result<ClusterClient, ClientError> {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(kubeconfig.as_bytes()).unwrap();
    let options = ClientOptions {
        kubeconfig: Some(file.path().to_owned()),
        qps: 5.0,
        burst: 10,
        user_agent: "kelpie-test".into(),
    };
    ClusterClient::connect(&options).await
}

#[tokio::test]
async fn unusable_kubeconfig_is_named_with_reason() {
    let address = "127.0.0.1:1".parse().unwrap();
    let proxied = kubeconfig(address, ", proxy-url: 'http://127.0.0.1:2'");
    for (text, expected) in [
        ("", "current"),
        ("[", ""),
        (proxied.as_str(), "it names a proxy (proxy-url)"),
    ] {
        let Err(ClientError::Kubeconfig {
            origin,
            reason: actual,
            ..
        }) = connect(text).await
        else {
            panic!("{text:?} is not a kubeconfig");
        };
        assert!(origin.starts_with('/'), "{origin}");
        assert!(actual.contains(expected), "{actual}");
    }
    assert!(connect(&kubeconfig(address, "")).await.is_ok());
}

#[tokio::test]
async fn missing_kubeconfig_error_names_the_flag() {
    let options = ClientOptions {
        kubeconfig: Some("/does/not/exist".into()),
        qps: 5.0,
        burst: 10,
        user_agent: "kelpie-test".into(),
    };
    let Err(error) = ClusterClient::connect(&options).await else {
        panic!("the file does not exist");
    };
    let message = error.to_string();
    assert!(message.contains("/does/not/exist"), "{message}");
    assert!(
        message.ends_with("set another with --kubeconfig"),
        "{message}"
    );
}
