//! The cases of etcd's own end-to-end test of its health endpoints, asked of etcd and of kelpie.
//!
//! etcd's test gives each request two seconds. Every difference is listed in
//! `docs/reference/etcd.md`.

use std::time::Duration;

use kelpie_e2e::{EtcdCluster, EtcdMember, EtcdSetup, Kelpie, plain_http};
use tokio::time::timeout;

use super::fixture::{TIMEOUT, start_kelpie};

/// The time limit that etcd's test sets for a request.
const LIMIT: Duration = Duration::from_secs(2);

/// Longer than all requests of a case together.
const FAULT: Duration = Duration::from_secs(20);

/// The expected response to a request.
#[derive(Clone, Copy, Debug)]
enum Expected {
    Ok,
    Unavailable,
    /// No response within [`LIMIT`].
    Silence,
    /// No response, or a failure: it depends on whether a leader is lost meanwhile.
    SilenceOrUnavailable,
}

use Expected::{Ok as Passes, Silence, SilenceOrUnavailable, Unavailable};

const SERIALIZABLE: &str = "/health?serializable=true";
const LINEARIZABLE: &str = "/health?serializable=false";

impl Expected {
    fn matches(self, status: Option<u16>) -> bool {
        match self {
            Self::Ok => status == Some(200),
            Self::Unavailable => status == Some(503),
            Self::Silence => status.is_none(),
            Self::SilenceOrUnavailable => matches!(status, None | Some(503)),
        }
    }
}

/// Starts kelpie with deadlines below [`LIMIT`].
async fn kelpie_for(etcd: &EtcdMember, flags: &[&str]) -> Kelpie {
    let deadline: &[&str] = &["--livez-deadline=1500ms"];
    let kelpie = start_kelpie(etcd, &[deadline, flags].concat()).await;
    kelpie.until_status("/readyz", 200, TIMEOUT).await.unwrap();
    kelpie
}

/// Asks both for each target: the first expectation is about etcd, the second about kelpie. kelpie
/// must get there in time, and always respond within the limit.
async fn compare(
    case: &str,
    etcd: &EtcdMember,
    kelpie: &Kelpie,
    rows: &[(&str, Expected, Expected)],
) {
    for (target, upstream, ours) in rows {
        let asked = plain_http::get_within(etcd.metrics_url(), target, LIMIT).await;
        let status = asked.unwrap().map(|reply| reply.status);
        println!("{case}: {target}: etcd {status:?}, expected of kelpie {ours:?}");
        assert!(
            upstream.matches(status),
            "{case}: etcd {target}: {status:?}"
        );
        let reached = kelpie_e2e::poll::until("the expected response", TIMEOUT, async || {
            let reply = plain_http::get_within(kelpie.url(), target, LIMIT).await?;
            let status = reply.map(|reply| reply.status);
            assert!(status.is_some(), "{case}: kelpie is silent on {target}");
            Ok(ours.matches(status).then_some(()))
        });
        reached
            .await
            .unwrap_or_else(|error| panic!("{case}: kelpie {target}: {error:#}"));
    }
}

async fn start_write(etcd: &EtcdMember) {
    let _ = timeout(Duration::from_millis(300), etcd.put("foo", b"bar")).await;
}

#[tokio::test]
async fn no_failure_matches() {
    let etcd = EtcdMember::start("etcd").await.unwrap();
    let kelpie = kelpie_for(&etcd, &[]).await;
    let rows = ["/health", "/livez", "/readyz", "/livez?verbose=true"];
    compare("none", &etcd, &kelpie, &rows.map(|it| (it, Passes, Passes))).await;
}

#[tokio::test]
async fn exceeded_quota_matches() {
    let setup = EtcdSetup::new("etcd").flag("--quota-backend-bytes=53248");
    let etcd = EtcdMember::start_with(&setup).await.unwrap();
    let kelpie = kelpie_for(&etcd, &[]).await;
    let mut written = 0;
    while etcd.put("foo", &[b'b'; 4096]).await.is_ok() {
        written += 1;
        assert!(written < 1_000, "the quota is never exceeded");
    }
    let rows = [
        ("/health", Unavailable, Unavailable),
        ("/health?exclude=NOSPACE", Passes, Passes),
        ("/health?exclude=CORRUPT", Unavailable, Unavailable),
        ("/livez", Passes, Passes),
        ("/readyz", Passes, Passes),
    ];
    compare("no space", &etcd, &kelpie, &rows).await;
}

#[tokio::test]
async fn slow_apply_is_not_unready() {
    let cluster = EtcdCluster::start(&EtcdSetup::with_failpoints(), 3)
        .await
        .unwrap();
    let slow = cluster.follower().await.unwrap();
    let etcd = &cluster.members[slow];
    let kelpie = kelpie_for(etcd, &[]).await;
    etcd.delay("beforeApplyOneEntryNormal", FAULT)
        .await
        .unwrap();
    start_write(&cluster.members[(slow + 1) % 3]).await;
    let rows = [
        // etcd's linearizable read waits for the apply; the read index alone would be enough.
        ("/readyz", Silence, Passes),
        ("/livez", Passes, Passes),
        (SERIALIZABLE, Passes, Passes),
        (LINEARIZABLE, Silence, Unavailable),
    ];
    compare("slow apply", etcd, &kelpie, &rows).await;
}

#[tokio::test]
async fn partition_is_unready_and_live() {
    let cluster = EtcdCluster::start(&EtcdSetup::new("etcd"), 3)
        .await
        .unwrap();
    let etcd = &cluster.members[0];
    let kelpie = kelpie_for(etcd, &[]).await;
    // To this member, paused peers are peers behind a partition.
    for peer in &cluster.members[1..] {
        peer.pause().await.unwrap();
    }
    let rows = [
        ("/livez", Passes, Passes),
        ("/readyz", SilenceOrUnavailable, Unavailable),
        (SERIALIZABLE, Passes, Passes),
        (LINEARIZABLE, SilenceOrUnavailable, Unavailable),
    ];
    compare("partition", etcd, &kelpie, &rows).await;
    for peer in &cluster.members[1..] {
        peer.resume().unwrap();
    }
}

#[tokio::test]
async fn stuck_raft_loop_is_unready_and_not_live() {
    let etcd = EtcdMember::start_with(&EtcdSetup::with_failpoints())
        .await
        .unwrap();
    let kelpie = kelpie_for(&etcd, &[]).await;
    etcd.delay("raftBeforeSave", FAULT * 2).await.unwrap();
    start_write(&etcd).await;
    let rows = [
        (SERIALIZABLE, Passes, Passes),
        (LINEARIZABLE, SilenceOrUnavailable, Unavailable),
        ("/readyz", SilenceOrUnavailable, Unavailable),
        // etcd's own livez lacks the check that the enhancement proposal asks for.
        ("/livez", Passes, Unavailable),
    ];
    compare("raft loop deadlock", &etcd, &kelpie, &rows).await;
}

#[tokio::test]
async fn slow_write_back_is_unready() {
    let setup = EtcdSetup::with_failpoints().flag("--bcrypt-cost=4");
    let etcd = EtcdMember::start_with(&setup).await.unwrap();
    etcd.enable_auth("secret").await.unwrap();
    let kelpie = kelpie_for(&etcd, &["--user=root:secret"]).await;
    let token = etcd.token("root", "secret").await.unwrap();
    etcd.delay("beforeWritebackBuf", FAULT).await.unwrap();
    let put = serde_json::json!({"key": "Zm9v", "value": "YmFy"});
    let header = format!("Authorization: {token}");
    let put = etcd.call_with("/v3/kv/put", &put, &header);
    let _ = timeout(Duration::from_millis(300), put).await;
    // The metrics page hangs too, so a defragmentation cannot be ruled out.
    let rows = [
        (SERIALIZABLE, Silence, Passes),
        ("/livez", Silence, Passes),
        ("/readyz", Silence, Unavailable),
    ];
    compare("slow write back", &etcd, &kelpie, &rows).await;
}

#[tokio::test]
async fn corruption_is_unready_and_live() {
    let cluster = EtcdCluster::start(&EtcdSetup::new("etcd"), 3)
        .await
        .unwrap();
    let etcd = &cluster.members[0];
    let kelpie = kelpie_for(etcd, &[]).await;
    etcd.raise("CORRUPT", "4711").await.unwrap();
    let rows = [
        ("/livez?verbose=true", Passes, Passes),
        ("/readyz", Unavailable, Unavailable),
        ("/health", Unavailable, Unavailable),
    ];
    compare("corrupt", etcd, &kelpie, &rows).await;
    for url in [etcd.metrics_url(), kelpie.url()] {
        let live = plain_http::get(url, "/livez?verbose=true").await.unwrap();
        assert!(live.body.contains("[+]serializable_read ok"), "{live:?}");
        let ready = plain_http::get(url, "/readyz").await.unwrap();
        for line in [
            "[+]serializable_read ok",
            "[-]data_corruption failed: alarm activated: CORRUPT",
        ] {
            assert!(ready.body.contains(line), "{url}: {ready:?}");
        }
    }
}
