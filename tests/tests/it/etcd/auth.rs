//! Members that ask for a password.

use kelpie_e2e::{Etcd, Kelpie, Setup};

use super::stage::{PATIENCE, beside, on_every_line};

const PASSWORD: &str = "open:sesame";

async fn guarded(line: &str) -> Etcd {
    // Checking a password is made to cost much; here it is checked a few times.
    let etcd = Etcd::start_with(&Setup::new(line).flag("--bcrypt-cost=4"))
        .await
        .unwrap();
    etcd.enable_auth(PASSWORD).await.unwrap();
    etcd
}

/// Trouble of our own: not ready with a reason, live, and marked as ours.
async fn is_our_own_trouble(kelpie: &Kelpie, words: &[&str]) {
    let ready = kelpie.until("/readyz", 503, PATIENCE).await.unwrap();
    for word in words {
        assert!(ready.body.contains(word), "no {word:?}: {}", ready.body);
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
async fn without_credentials_a_member_is_live_and_readyz_says_what_is_missing() {
    on_every_line(async |line| {
        let etcd = guarded(line).await;
        let kelpie = beside(&etcd, &[]).await;
        is_our_own_trouble(&kelpie, &["[-]serializable_read failed: ", "--user"]).await;
        // The answer came after the read index: that is all the check asks.
        let reply = kelpie.get("/readyz/read_index").await.unwrap();
        assert_eq!(reply.status, 200, "{}", reply.body);
    })
    .await;
}

#[tokio::test]
async fn with_credentials_a_member_is_ready_and_the_token_costs_one_entry() {
    on_every_line(async |line| {
        let mut etcd = guarded(line).await;
        let before = raft_index(&etcd).await;
        let kelpie = beside(&etcd, &[&format!("--user=probe:{PASSWORD}")]).await;
        kelpie.until("/readyz", 200, PATIENCE).await.unwrap();
        for _ in 0..100 {
            assert_eq!(kelpie.get("/livez").await.unwrap().status, 200);
            assert_eq!(kelpie.get("/readyz").await.unwrap().status, 200);
        }
        assert!(!is_misconfigured(&kelpie).await);
        // One entry for the token of the probe, one for the token that asks for the index.
        let added = raft_index(&etcd).await - before;
        assert!(added <= 2, "{added} entries");

        // A restarted member has forgotten its tokens.
        etcd.kill();
        etcd.restart().await.unwrap();
        kelpie.until("/readyz", 200, PATIENCE).await.unwrap();
        assert_eq!(kelpie.get("/livez").await.unwrap().status, 200);
    })
    .await;
}

async fn raft_index(etcd: &Etcd) -> i64 {
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
async fn a_wrong_password_is_our_own_trouble() {
    on_every_line(async |line| {
        let etcd = guarded(line).await;
        let kelpie = beside(&etcd, &["--user=probe:not the password"]).await;
        is_our_own_trouble(&kelpie, &["password"]).await;
    })
    .await;
}

#[tokio::test]
async fn auth_that_is_turned_on_and_off_under_a_running_probe_is_noticed() {
    let etcd = Etcd::start_with(&Setup::new("etcd").flag("--bcrypt-cost=4"))
        .await
        .unwrap();
    // Credentials for a member that does not ask for any do no harm.
    let with = beside(&etcd, &[&format!("--user=probe:{PASSWORD}")]).await;
    let without = beside(&etcd, &[]).await;
    for kelpie in [&with, &without] {
        kelpie.until("/readyz", 200, PATIENCE).await.unwrap();
    }
    etcd.enable_auth(PASSWORD).await.unwrap();
    is_our_own_trouble(&without, &["--user"]).await;
    with.until("/readyz", 200, PATIENCE).await.unwrap();
    let token = etcd.token("root", PASSWORD).await.unwrap();
    let header = format!("Authorization: {token}");
    let nothing = serde_json::json!({});
    etcd.call_with("/v3/auth/disable", &nothing, &header)
        .await
        .unwrap();
    for kelpie in [&with, &without] {
        kelpie.until("/readyz", 200, PATIENCE).await.unwrap();
        assert!(!is_misconfigured(kelpie).await);
    }
}
