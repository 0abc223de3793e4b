//! The harness itself: the operations on members that the other tests rely on.

use kelpie_e2e::{EtcdCluster, EtcdSetup};

use super::fixture::on_every_release;

#[tokio::test]
async fn members_restart_and_change_roles() {
    on_every_release(async |release| {
        let mut cluster = EtcdCluster::start(&EtcdSetup::new(release), 3)
            .await
            .unwrap();
        let version = cluster.members[2].get("/version").await.unwrap();
        let expected = release.trim_start_matches("etcd-");
        assert!(
            version["etcdserver"]
                .as_str()
                .unwrap()
                .starts_with(expected)
        );
        let follower = cluster.follower().await.unwrap();

        cluster.members[follower].kill();
        assert!(cluster.members[follower].metrics().await.is_err());
        cluster.members[follower].restart().await.unwrap();
        assert_eq!(
            term_of(&cluster, follower).await,
            term_of(&cluster, (follower + 1) % 3).await
        );

        cluster.replace(follower).await.unwrap();
        assert_ne!(cluster.leader().await.unwrap(), follower);

        let learner = cluster.add_learner().await.unwrap();
        assert!(is_set(
            learner.metric("etcd_server_is_learner").await.unwrap()
        ));
        cluster.promote(3).await.unwrap();
    })
    .await;
}

async fn term_of(cluster: &EtcdCluster, member: usize) -> String {
    let status = cluster.members[member].status().await.unwrap();
    status["raftTerm"].as_str().unwrap().to_owned()
}

fn is_set(gauge: f64) -> bool {
    gauge > 0.5
}
