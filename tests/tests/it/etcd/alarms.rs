//! Alarms: CORRUPT takes a member out of service, NOSPACE does not, neither restarts it.

use kelpie_e2e::{Cluster, Etcd, Setup};

use super::stage::{PATIENCE, beside, on_every_line};

#[tokio::test]
async fn corrupt_of_any_member_fails_readyz_and_never_livez() {
    on_every_line(async |line| {
        let etcd = Etcd::start(line).await.unwrap();
        let kelpie = beside(&etcd, &[]).await;
        kelpie.until("/readyz", 200, PATIENCE).await.unwrap();
        let own = etcd.status().await.unwrap();
        let own = own["header"]["member_id"].as_str().unwrap();
        for member in [own, "4711", "0"] {
            etcd.raise("CORRUPT", member).await.unwrap();
            let ready = kelpie.until("/readyz", 503, PATIENCE).await.unwrap();
            let lines: Vec<&str> = ready.body.lines().collect();
            let failed = "[-]data_corruption failed: alarm activated: CORRUPT";
            assert!(lines.contains(&failed), "{}", ready.body);
            assert!(
                ready.body.contains("[+]serializable_read ok\n"),
                "{}",
                ready.body
            );
            assert_eq!(ready.body.matches("[-]").count(), 1, "{}", ready.body);
            assert!(ready.body.ends_with("\n\n"), "{:?}", ready.body);
            assert_eq!(kelpie.get("/livez").await.unwrap().status, 200);
            for (target, status) in [
                ("/readyz?exclude=data_corruption", 200),
                ("/readyz?exclude=non_exist", 503),
                ("/readyz/data_corruption", 503),
                ("/readyz/read_index", 200),
            ] {
                let reply = kelpie.get(target).await.unwrap();
                assert_eq!(reply.status, status, "{target}: {}", reply.body);
            }
            etcd.clear("CORRUPT", member).await.unwrap();
            kelpie.until("/readyz", 200, PATIENCE).await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn nospace_fails_nothing_but_writes() {
    on_every_line(async |line| {
        let etcd = Etcd::start(line).await.unwrap();
        let kelpie = beside(&etcd, &[]).await;
        kelpie.until("/readyz", 200, PATIENCE).await.unwrap();
        etcd.raise("NOSPACE", "4711").await.unwrap();
        assert!(etcd.put("key", b"value").await.is_err(), "the alarm is on");
        for target in ["/livez", "/readyz", "/livez", "/readyz"] {
            let reply = kelpie.get(target).await.unwrap();
            assert_eq!(reply.status, 200, "{target}: {}", reply.body);
        }
    })
    .await;
}

#[tokio::test]
async fn corrupt_shows_beside_every_member_of_a_cluster() {
    on_every_line(async |line| {
        let cluster = Cluster::start(&Setup::new(line), 3).await.unwrap();
        cluster.members[0].raise("CORRUPT", "4711").await.unwrap();
        for member in &cluster.members {
            let kelpie = beside(member, &[]).await;
            let failed = kelpie.until("/readyz/data_corruption", 503, PATIENCE).await;
            assert!(failed.unwrap().body.contains("CORRUPT"));
        }
    })
    .await;
}
