//! What probing costs the member.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use kelpie_e2e::wire::Connection;
use kelpie_e2e::{Etcd, Kelpie};
use tokio::time::{Instant, sleep};

use super::stage::{PATIENCE, beside, on_every_line, quiet};

/// Calls the member has answered so far, by method.
async fn calls(etcd: &Etcd) -> BTreeMap<String, f64> {
    let mut calls = BTreeMap::new();
    for line in etcd.metrics().await.unwrap().lines() {
        let Some(labels) = line.strip_prefix("grpc_server_handled_total{") else {
            continue;
        };
        let (_, after) = labels.split_once("grpc_method=\"").unwrap();
        let (method, _) = after.split_once('"').unwrap();
        let (_, count) = line.rsplit_once(' ').unwrap();
        *calls.entry(method.to_owned()).or_default() += count.parse::<f64>().unwrap();
    }
    calls
}

fn difference(before: &BTreeMap<String, f64>, after: &BTreeMap<String, f64>) -> Vec<(String, f64)> {
    let more = after.iter().map(|(method, count)| {
        let before = before.get(method).copied().unwrap_or_default();
        (method.clone(), count - before)
    });
    more.filter(|(_, by)| *by > 0.0).collect()
}

#[tokio::test]
async fn fifty_probes_at_once_cost_one_call_of_each_kind() {
    let _quiet = quiet().await;
    on_every_line(async |line| {
        let etcd = Etcd::start(line).await.unwrap();
        let kelpie = beside(&etcd, &["--readyz-deadline=5s"]).await;
        kelpie.until("/readyz", 200, PATIENCE).await.unwrap();
        // 3.4 has no read index of its own, so there are two kinds of Range.
        let expected: &[(&str, f64)] = match line {
            "etcd-3.4" => &[("Range", 2.0), ("Status", 1.0)],
            _ => &[("MemberList", 1.0), ("Range", 1.0), ("Status", 1.0)],
        };
        // A loaded machine may send the last ones after the answers, or look twice; not each time.
        let mut costs = Vec::new();
        while costs.len() < 5 && costs.last() != Some(&named(expected)) {
            costs.push(cost_of_fifty(&etcd, &kelpie).await);
        }
        println!("{line}: 50 probes of readyz cost {:?}", costs.last());
        assert_eq!(costs.last(), Some(&named(expected)), "{costs:?}");
    })
    .await;
}

fn named(calls: &[(&str, f64)]) -> Vec<(String, f64)> {
    let calls = calls
        .iter()
        .map(|(method, times)| ((*method).to_owned(), *times));
    calls.collect()
}

/// All are asked while none can be answered, so all wait for the same.
async fn cost_of_fifty(etcd: &Etcd, kelpie: &Kelpie) -> Vec<(String, f64)> {
    // What is still under way from before is not theirs.
    sleep(Duration::from_millis(200)).await;
    let before = calls(etcd).await;
    etcd.pause().await.unwrap();
    let probes = join_all((0..50).map(|_| kelpie.get("/readyz")));
    let resume = async {
        sleep(Duration::from_millis(100)).await;
        etcd.resume().unwrap();
    };
    let (replies, ()) = tokio::join!(probes, resume);
    for reply in replies {
        let reply = reply.unwrap();
        assert_eq!(reply.status, 200, "{}", reply.body);
    }
    difference(&before, &calls(etcd).await)
}

#[tokio::test]
async fn an_hour_of_probing_adds_nothing_to_the_raft_log() {
    on_every_line(async |line| {
        let etcd = Etcd::start(line).await.unwrap();
        let kelpie = beside(&etcd, &[]).await;
        kelpie.until("/readyz", 200, PATIENCE).await.unwrap();
        let before = raft_index(&etcd).await;
        let began = Instant::now();
        // One probe of each per second is 3,600 rounds; here they follow each other at once.
        let rounds = if line == "etcd-3.6" { 3_600 } else { 360 };
        let mut livez = Connection::open(kelpie.url()).await.unwrap();
        let mut readyz = Connection::open(kelpie.url()).await.unwrap();
        for round in 0..rounds {
            let (live, ready) = tokio::join!(livez.get("/livez"), readyz.get("/readyz"));
            assert_eq!((live.unwrap(), ready.unwrap()), (200, 200), "round {round}");
        }
        let after = raft_index(&etcd).await;
        println!(
            "{line}: {rounds} rounds in {:?}, index {before} to {after}",
            began.elapsed()
        );
        assert_eq!(after, before);
    })
    .await;
}

async fn raft_index(etcd: &Etcd) -> String {
    let status = etcd.status().await.unwrap();
    status["raftIndex"].as_str().unwrap().to_owned()
}
