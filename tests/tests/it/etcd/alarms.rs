//! Alarms: CORRUPT fails readyz, NOSPACE does not, and neither fails livez.

use kelpie_e2e::{EtcdCluster, EtcdMember, EtcdSetup};

use super::fixture::{TIMEOUT, on_every_release, start_kelpie};

#[tokio::test]
async fn corrupt_alarm_fails_readyz_only() {
    on_every_release(async |release| {
        let etcd = EtcdMember::start(release).await.unwrap();
        let kelpie = start_kelpie(&etcd, &[]).await;
        kelpie.until_status("/readyz", 200, TIMEOUT).await.unwrap();
        let own = etcd.status().await.unwrap();
        let own = own["header"]["member_id"].as_str().unwrap();
        for member in [own, "4711", "0"] {
            etcd.raise("CORRUPT", member).await.unwrap();
            let ready = kelpie.until_status("/readyz", 503, TIMEOUT).await.unwrap();
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
            kelpie.until_status("/readyz", 200, TIMEOUT).await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn nospace_alarm_fails_no_check() {
    on_every_release(async |release| {
        let etcd = EtcdMember::start(release).await.unwrap();
        let kelpie = start_kelpie(&etcd, &[]).await;
        kelpie.until_status("/readyz", 200, TIMEOUT).await.unwrap();
        etcd.raise("NOSPACE", "4711").await.unwrap();
        assert!(
            etcd.put("key", b"value").await.is_err(),
            "the alarm is active"
        );
        for target in ["/livez", "/readyz", "/livez", "/readyz"] {
            let reply = kelpie.get(target).await.unwrap();
            assert_eq!(reply.status, 200, "{target}: {}", reply.body);
        }
    })
    .await;
}

#[tokio::test]
async fn corrupt_alarm_shows_on_every_member() {
    on_every_release(async |release| {
        let cluster = EtcdCluster::start(&EtcdSetup::new(release), 3)
            .await
            .unwrap();
        cluster.members[0].raise("CORRUPT", "4711").await.unwrap();
        for member in &cluster.members {
            let kelpie = start_kelpie(member, &[]).await;
            let failed = kelpie
                .until_status("/readyz/data_corruption", 503, TIMEOUT)
                .await;
            assert!(failed.unwrap().body.contains("CORRUPT"));
        }
    })
    .await;
}
