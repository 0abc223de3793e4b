//! Each fault of the connection to the seed has its own diagnosis, with the server and the remedy.

use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use kelpie_e2e::landscape::{ProberConfigFile, ProberProcess, SeedCluster, Timings};
use kelpie_e2e::pki::TestCa;
use kelpie_e2e::{Credentials, kelpie};
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::TcpSocket;
use xtask::cache;

use super::fixture::*;
use crate::fixture::exit_code_and_text;

/// A kubeconfig that does not work, and the diagnosis of it.
struct Fault {
    kubeconfig: PathBuf,
    cause: &'static str,
    remedy: &'static str,
}

/// Words of other diagnoses.
const WRONG: [&str; 4] = ["RBAC", "grant", "UnknownIssuer", "deploy/rbac"];

#[tokio::test]
async fn each_fault_has_its_own_diagnosis() {
    let seed = SeedCluster::start().await.unwrap();
    let api = &seed.control_plane.api;
    let folder = TempDir::new().unwrap();
    let file = |name: &str, kubeconfig: String| {
        let path = folder.path().join(name);
        fs::write(&path, kubeconfig).unwrap();
        path
    };
    let encoded = |certificate: String| BASE64_STANDARD.encode(certificate);
    let own = encoded(api.ca_certificate());
    let other = encoded(TestCa::new().unwrap().certificate());
    // Bound but not listening: it refuses connections, and no other test gets its port.
    let closed_port = TcpSocket::new_v4().unwrap();
    closed_port.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let closed = format!("https://{}", closed_port.local_addr().unwrap());
    let forged = Credentials::Token("forged".to_owned());
    let faults = [
        (
            api.url(),
            Fault {
                kubeconfig: file("token", api.kubeconfig(&forged)),
                cause: "HTTP 401: the credentials were rejected",
                remedy: "renew the token or client certificate",
            },
        ),
        (
            api.url(),
            Fault {
                kubeconfig: file("ca", api.kubeconfig(&api.admin()).replace(&own, &other)),
                cause: "is not signed by the configured certificate authority",
                remedy: "certificate-authority-data",
            },
        ),
        (
            &closed,
            Fault {
                kubeconfig: file("closed", api.kubeconfig_for_url(&closed, &api.admin())),
                cause: "Connection refused",
                remedy: "API server",
            },
        ),
    ];
    for (url, fault) in &faults {
        assert_check_diagnoses(fault, url).await;
        assert_prober_diagnoses(fault, url).await;
    }
}

async fn assert_check_diagnoses(fault: &Fault, url: &str) {
    let example = cache::repository().join("docs/examples/prober.yaml");
    let config = format!("--config-file={}", example.display());
    let kubeconfig = format!("--kubeconfig={}", fault.kubeconfig.display());
    let check = ["check", "prober", "--output=json", &config, &kubeconfig];
    let output = kelpie::run(&check).await.unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let failed = report["rows"].as_array().unwrap().iter();
    let failed: Vec<_> = failed.filter(|row| row["grade"] == "fail").collect();
    assert_eq!(failed.len(), 1, "{report:#}");
    let text = failed[0].to_string();
    for expected in [fault.cause, fault.remedy, url] {
        assert!(text.contains(expected), "{expected} is not in {text}");
    }
    for wrong in WRONG {
        assert!(!text.contains(wrong), "{wrong} is in {text}");
    }
}

async fn assert_prober_diagnoses(fault: &Fault, url: &str) {
    let config = ProberConfigFile::gardener_targets(Timings::QUICK);
    let prober = ProberProcess::start(&fault.kubeconfig, &config, &[]);
    let prober = prober.await.unwrap();
    let words = ["watch on Clusters failed", fault.cause, fault.remedy, url];
    let line = prober.until_line(&words, TIMEOUT).await.unwrap();
    for wrong in WRONG {
        assert!(!line.contains(wrong), "{wrong} is in {line}");
    }
    assert_eq!(prober.lines(&["watching over"]), [""; 0]);
    // A cluster that may exist is not called unknown.
    let explain = ["explain", "shoot--a", "--from", prober.kelpie.url()];
    let (code, text) = exit_code_and_text(kelpie::run(&explain).await.unwrap());
    assert_eq!(code, Some(1), "{text}");
    for expected in ["waiting for the first list", fault.cause, url] {
        assert!(text.contains(expected), "{expected} is not in {text}");
    }
}

#[tokio::test]
async fn missing_namespace_of_the_lease_is_named() {
    let seed = SeedCluster::start().await.unwrap();
    let admin = seed.control_plane.api.admin();
    let kubeconfig = seed.kubeconfig_file(&admin).unwrap();
    let config = ProberConfigFile::gardener_targets(Timings::QUICK);
    let namespace = "--leader-election-namespace=nowhere";
    let flags = [ELECTION.as_slice(), &[namespace]].concat();
    let prober = ProberProcess::start(&kubeconfig, &config, &flags);
    let prober = prober.await.unwrap();
    let words = [
        "there is no namespace nowhere; create it",
        "--leader-election-namespace",
    ];
    prober.until_line(&words, TIMEOUT).await.unwrap();
    seed.create_namespace("nowhere").await.unwrap();
    until_leading(&prober.kelpie).await;
}
