//! The cost of probing for the member.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use kelpie_e2e::plain_http::KeepAliveConnection;
use kelpie_e2e::{EtcdMember, Kelpie};
use tokio::time::{Instant, sleep};

use super::fixture::{TIMEOUT, exclusive, on_every_release, start_kelpie};

/// Returns the number of calls that the member has answered so far, by method.
async fn calls(etcd: &EtcdMember) -> BTreeMap<String, f64> {
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
async fn concurrent_probes_share_their_calls() {
    let _exclusive = exclusive().await;
    on_every_release(async |release| {
        let etcd = EtcdMember::start(release).await.unwrap();
        let kelpie = start_kelpie(&etcd, &["--readyz-deadline=5s"]).await;
        kelpie.until_status("/readyz", 200, TIMEOUT).await.unwrap();
        // 3.4 has no call for a read index alone, so there are two kinds of Range.
        let expected: &[(&str, f64)] = match release {
            "etcd-3.4" => &[("Range", 2.0), ("Status", 1.0)],
            _ => &[("MemberList", 1.0), ("Range", 1.0), ("Status", 1.0)],
        };
        // On a busy machine some rounds have late or additional calls, but not all of them.
        let mut costs = Vec::new();
        while costs.len() < 5 && costs.last() != Some(&named(expected)) {
            costs.push(cost_of_fifty(&etcd, &kelpie).await);
        }
        println!("{release}: 50 probes of readyz cost {:?}", costs.last());
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

/// Returns the calls that fifty probes cost. They are sent while etcd is paused, so all of them
/// wait for the same calls.
async fn cost_of_fifty(etcd: &EtcdMember, kelpie: &Kelpie) -> Vec<(String, f64)> {
    // Calls still in flight from before do not count.
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
async fn probing_adds_no_raft_entries() {
    on_every_release(async |release| {
        let etcd = EtcdMember::start(release).await.unwrap();
        let kelpie = start_kelpie(&etcd, &[]).await;
        kelpie.until_status("/readyz", 200, TIMEOUT).await.unwrap();
        let before = raft_index(&etcd).await;
        let started = Instant::now();
        // An hour at one probe of each group per second is 3,600 rounds. Here there is no pause.
        let rounds = if release == "etcd-3.6" { 3_600 } else { 360 };
        let mut livez = KeepAliveConnection::open(kelpie.url()).await.unwrap();
        let mut readyz = KeepAliveConnection::open(kelpie.url()).await.unwrap();
        for round in 0..rounds {
            let (live, ready) = tokio::join!(livez.get("/livez"), readyz.get("/readyz"));
            assert_eq!((live.unwrap(), ready.unwrap()), (200, 200), "round {round}");
        }
        let after = raft_index(&etcd).await;
        println!(
            "{release}: {rounds} rounds in {:?}, index {before} to {after}",
            started.elapsed()
        );
        assert_eq!(after, before);
    })
    .await;
}

async fn raft_index(etcd: &EtcdMember) -> String {
    let status = etcd.status().await.unwrap();
    status["raftIndex"].as_str().unwrap().to_owned()
}
