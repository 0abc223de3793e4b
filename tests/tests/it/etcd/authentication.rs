//! Members with authentication enabled.

use kelpie_e2e::{EtcdMember, EtcdSetup, Kelpie};

use super::fixture::{TIMEOUT, on_every_release, start_kelpie};

const PASSWORD: &str = "open:sesame";

async fn start_with_auth(release: &str) -> EtcdMember {
    // Password hashes are slow on purpose. The lowest cost will do for a test.
    let etcd = EtcdMember::start_with(&EtcdSetup::new(release).flag("--bcrypt-cost=4"))
        .await
        .unwrap();
    etcd.enable_auth(PASSWORD).await.unwrap();
    etcd
}

/// Asserts a problem of the probe: readyz fails with a reason, livez passes, and the gauge is set.
async fn assert_probe_problem(kelpie: &Kelpie, expected: &[&str]) {
    let ready = kelpie.until_status("/readyz", 503, TIMEOUT).await.unwrap();
    for text in expected {
        assert!(ready.body.contains(text), "no {text:?}: {}", ready.body);
    }
    for _ in 0..3 {
        let live = kelpie.get("/livez").await.unwrap();
        assert_eq!(live.status, 200, "{}", live.body);
    }
    assert!(is_misconfigured(kelpie).await, "{}", kelpie.process().log());
    let log = kelpie.process().log();
    assert!(
        !log.contains(PASSWORD) && !log.contains("not the password"),
        "{log}"
    );
    assert!(!ready.body.contains("not the password"), "{}", ready.body);
}

async fn is_misconfigured(kelpie: &Kelpie) -> bool {
    kelpie
        .metric("kelpie_etcd_probe_misconfigured")
        .await
        .unwrap()
        > 0.5
}

#[tokio::test]
async fn missing_credentials_fail_readyz_only() {
    on_every_release(async |release| {
        let etcd = start_with_auth(release).await;
        let kelpie = start_kelpie(&etcd, &[]).await;
        assert_probe_problem(&kelpie, &["[-]serializable_read failed: ", "--user"]).await;
        // etcd checks permissions after the read index, so this check passes.
        let reply = kelpie.get("/readyz/read_index").await.unwrap();
        assert_eq!(reply.status, 200, "{}", reply.body);
    })
    .await;
}

#[tokio::test]
async fn token_costs_one_raft_entry() {
    on_every_release(async |release| {
        let mut etcd = start_with_auth(release).await;
        let before = raft_index(&etcd).await;
        let kelpie = start_kelpie(&etcd, &[&format!("--user=probe:{PASSWORD}")]).await;
        kelpie.until_status("/readyz", 200, TIMEOUT).await.unwrap();
        for _ in 0..100 {
            assert_eq!(kelpie.get("/livez").await.unwrap().status, 200);
            assert_eq!(kelpie.get("/readyz").await.unwrap().status, 200);
        }
        assert!(!is_misconfigured(&kelpie).await);
        // One entry is for the token of the probe, one for the token that reads the index.
        let added = raft_index(&etcd).await - before;
        assert!(added <= 2, "{added} entries");

        // A restarted member has forgotten its tokens.
        etcd.kill();
        etcd.restart().await.unwrap();
        kelpie.until_status("/readyz", 200, TIMEOUT).await.unwrap();
        assert_eq!(kelpie.get("/livez").await.unwrap().status, 200);
    })
    .await;
}

async fn raft_index(etcd: &EtcdMember) -> i64 {
    let token = etcd.token("root", PASSWORD).await.unwrap();
    let header = format!("Authorization: {token}");
    let nothing = serde_json::json!({});
    let status = etcd
        .call_with("/v3/maintenance/status", &nothing, &header)
        .await
        .unwrap();
    status["raftIndex"].as_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn wrong_password_is_a_probe_problem() {
    on_every_release(async |release| {
        let etcd = start_with_auth(release).await;
        let kelpie = start_kelpie(&etcd, &["--user=probe:not the password"]).await;
        assert_probe_problem(&kelpie, &["password"]).await;
    })
    .await;
}

#[tokio::test]
async fn auth_can_be_toggled_at_runtime() {
    let etcd = EtcdMember::start_with(&EtcdSetup::new("etcd").flag("--bcrypt-cost=4"))
        .await
        .unwrap();
    // Credentials for a member without authentication do no harm.
    let with = start_kelpie(&etcd, &[&format!("--user=probe:{PASSWORD}")]).await;
    let without = start_kelpie(&etcd, &[]).await;
    for kelpie in [&with, &without] {
        kelpie.until_status("/readyz", 200, TIMEOUT).await.unwrap();
    }
    etcd.enable_auth(PASSWORD).await.unwrap();
    assert_probe_problem(&without, &["--user"]).await;
    with.until_status("/readyz", 200, TIMEOUT).await.unwrap();
    let token = etcd.token("root", PASSWORD).await.unwrap();
    let header = format!("Authorization: {token}");
    let nothing = serde_json::json!({});
    etcd.call_with("/v3/auth/disable", &nothing, &header)
        .await
        .unwrap();
    for kelpie in [&with, &without] {
        kelpie.until_status("/readyz", 200, TIMEOUT).await.unwrap();
        assert!(!is_misconfigured(kelpie).await);
    }
}
