//! `kelpie etcd check` runs every check once.

use std::process::Output;

use kelpie_e2e::{EtcdCluster, EtcdMember, EtcdSetup, kelpie};
use serde_json::Value;

use super::fixture::{TIMEOUT, on_every_release};

/// The beginnings of the rows in the table.
const CHECKS: [&str; 9] = [
    "livez   serializable_read ",
    "livez   raft_loop ",
    "readyz  serializable_read ",
    "readyz  data_corruption ",
    "readyz  read_index ",
    "readyz  defragmentation ",
    "readyz  non_learner ",
    "readyz  raft_loop ",
    "readyz  watch ",
];

async fn check(url: &str, flags: &[&str]) -> Output {
    let endpoint = format!("--endpoints={url}");
    let mut arguments = vec!["etcd", "check", &endpoint];
    arguments.extend(flags);
    kelpie::run(&arguments).await.unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the exit code, and the checks that failed with their reasons.
async fn failures(url: &str) -> (Option<i32>, Vec<(String, String)>) {
    let done = check(url, &["--output=json"]).await;
    let report: Value = serde_json::from_slice(&done.stdout)
        .unwrap_or_else(|error| panic!("{error}: {} {}", text(&done.stdout), text(&done.stderr)));
    let checks = report["checks"].as_array().unwrap().clone();
    let failed = checks.iter().filter(|check| check["ok"] == false);
    let failed = failed.map(|check| {
        let field = |key: &str| check[key].as_str().unwrap_or_default().to_owned();
        (field("group") + "/" + &field("name"), field("reason"))
    });
    (done.status.code(), failed.collect())
}

#[tokio::test]
async fn healthy_member_passes_every_check() {
    on_every_release(async |release| {
        let etcd = EtcdMember::start(release).await.unwrap();
        let done = check(etcd.url(), &[]).await;
        let table = text(&done.stdout);
        assert_eq!(done.status.code(), Some(0), "{table}{}", text(&done.stderr));
        for name in CHECKS {
            assert_eq!(table.matches(name).count(), 1, "{name}: {table}");
        }
        assert!(
            !table.contains('\u{1b}'),
            "no colours without a terminal: {table:?}"
        );
        assert_eq!(failures(etcd.url()).await, (Some(0), vec![]));
        if release == "etcd-3.6" {
            println!("{table}");
        }
    })
    .await;
}

#[tokio::test]
async fn failures_have_name_reason_and_exit_code() {
    on_every_release(async |release| {
        let etcd = EtcdMember::start(release).await.unwrap();
        etcd.raise("CORRUPT", "4711").await.unwrap();
        let (code, failed) = failures(etcd.url()).await;
        assert_eq!(code, Some(1));
        let corrupt = (
            "readyz/data_corruption".to_owned(),
            "alarm activated: CORRUPT".to_owned(),
        );
        assert_eq!(failed, [corrupt]);
        let table = text(&check(etcd.url(), &[]).await.stdout);
        assert!(table.contains("alarm activated: CORRUPT"), "{table}");

        let mut cluster = EtcdCluster::start(&EtcdSetup::new(release), 1)
            .await
            .unwrap();
        let learner = cluster.add_learner().await.unwrap();
        let (code, failed) = failures(learner.url()).await;
        assert_eq!(code, Some(1));
        assert_eq!(failed.len(), 1, "{failed:?}");
        assert_eq!(failed[0].0, "readyz/non_learner");
        let gone = learner.url().to_owned();
        drop(cluster);
        let (code, failed) = failures(&gone).await;
        assert_eq!(code, Some(1));
        assert!(
            failed.iter().any(|(_, reason)| reason.contains("refused")),
            "{failed:?}"
        );
    })
    .await;
}

#[tokio::test]
async fn lost_quorum_is_named() {
    on_every_release(async |release| {
        let mut cluster = EtcdCluster::start(&EtcdSetup::new(release), 3)
            .await
            .unwrap();
        let remaining = cluster.follower().await.unwrap();
        for other in [remaining + 1, remaining + 2] {
            cluster.members[other % 3].kill();
        }
        let member = &cluster.members[remaining];
        kelpie_e2e::poll::until("a lost leader", TIMEOUT, async || {
            let has_leader = member.metric("etcd_server_has_leader").await?;
            Ok((has_leader < 0.5).then_some(()))
        })
        .await
        .unwrap();
        let (code, failed) = failures(member.url()).await;
        assert_eq!(code, Some(1));
        let read_index = failed.iter().find(|(name, _)| name == "readyz/read_index");
        assert!(read_index.unwrap().1.contains("no leader"), "{failed:?}");
    })
    .await;
}

#[tokio::test]
async fn refused_connection_skips_checks() {
    // Bound and closed again, so that nothing listens there.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", closed.local_addr().unwrap());
    drop(closed);
    let done = check(&url, &[]).await;
    assert_eq!(done.status.code(), Some(1));
    let table = text(&done.stdout);
    assert!(table.starts_with(&format!("etcd at {url}\n")), "{table}");
    let state = |row: &str| {
        let line = table.lines().find(|line| line.starts_with(row)).unwrap();
        line.split_whitespace().nth(2).unwrap().to_owned()
    };
    assert_eq!(state("livez   serializable_read "), "failed");
    for row in [
        "readyz  defragmentation ",
        "readyz  raft_loop ",
        "livez   raft_loop ",
    ] {
        assert_eq!(state(row), "skipped", "{table}");
    }
    assert!(!table.contains(" ok "), "{table}");
}

#[tokio::test]
async fn bad_command_line_exits_with_2() {
    let done = kelpie::run(&["etcd", "check", "--endpoints=a,b"])
        .await
        .unwrap();
    assert_eq!(done.status.code(), Some(2), "{}", text(&done.stderr));
}
