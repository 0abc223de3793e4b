//! `kelpie etcd check`: every check once, for people and for scripts.

use std::process::Output;

use kelpie_e2e::{Cluster, Etcd, Setup, kelpie};
use serde_json::Value;

use super::stage::on_every_line;

/// Groups and checks, as the table has them.
const CHECKS: [&str; 7] = [
    "livez   serializable_read ",
    "readyz  serializable_read ",
    "readyz  data_corruption ",
    "readyz  read_index ",
    "readyz  defragmentation ",
    "readyz  non_learner ",
    "readyz  raft_loop ",
];

async fn check(url: &str, flags: &[&str]) -> Output {
    let endpoint = format!("--endpoints={url}");
    let mut line = vec!["etcd", "check", &endpoint];
    line.extend(flags);
    kelpie::run(&line).await.unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The checks that failed, by name, with their reasons; from JSON.
async fn failures(url: &str) -> (Option<i32>, Vec<(String, String)>) {
    let done = check(url, &["--output=json"]).await;
    let report: Value = serde_json::from_slice(&done.stdout)
        .unwrap_or_else(|error| panic!("{error}: {} {}", text(&done.stdout), text(&done.stderr)));
    let checks = report["checks"].as_array().unwrap().clone();
    let failed = checks.iter().filter(|check| check["ok"] == false);
    let failed = failed.map(|check| {
        let word = |key: &str| check[key].as_str().unwrap_or_default().to_owned();
        (word("group") + "/" + &word("name"), word("reason"))
    });
    (done.status.code(), failed.collect())
}

#[tokio::test]
async fn a_healthy_member_passes_every_check() {
    on_every_line(async |line| {
        let etcd = Etcd::start(line).await.unwrap();
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
        if line == "etcd-3.6" {
            println!("{table}");
        }
    })
    .await;
}

#[tokio::test]
async fn every_failure_has_its_name_its_reason_and_exit_code_1() {
    on_every_line(async |line| {
        let etcd = Etcd::start(line).await.unwrap();
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

        let mut cluster = Cluster::start(&Setup::new(line), 1).await.unwrap();
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
async fn a_lost_quorum_is_named() {
    on_every_line(async |line| {
        let mut cluster = Cluster::start(&Setup::new(line), 3).await.unwrap();
        let left = cluster.follower().await.unwrap();
        for other in [left + 1, left + 2] {
            cluster.members[other % 3].kill();
        }
        let member = &cluster.members[left];
        let patience = super::stage::PATIENCE;
        kelpie_e2e::poll::until("a lost leader", patience, async || {
            let led = member.metric("etcd_server_has_leader").await?;
            Ok((led < 0.5).then_some(()))
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
async fn a_bad_command_line_exits_with_2() {
    let done = kelpie::run(&["etcd", "check", "--endpoints=a,b"])
        .await
        .unwrap();
    assert_eq!(done.status.code(), Some(2), "{}", text(&done.stderr));
}
