//! The memory and processor time of the probe itself.

use std::time::Duration;

use kelpie_e2e::{EtcdMember, Kelpie};
use tokio::time::{Instant, interval};

use super::fixture::{TIMEOUT, command_line, exclusive, start_kelpie};

#[tokio::test]
async fn idle_process_is_small() {
    let etcd = EtcdMember::start("etcd").await.unwrap();
    let kelpie = start_kelpie(&etcd, &[]).await;
    let share = share_of_a_core(&kelpie).await;
    let allocated = kelpie.process().anonymous_bytes().unwrap();
    let share = share * 100.0;
    println!(
        "debug build: {share:.2} % of a core, {} KiB of its own",
        allocated / 1024
    );
    assert!(share < 1.0, "{share:.2} % of a core");
    // The code of a debug build is several times larger, so only the allocated memory counts.
    assert!(allocated < 5 << 20, "{} KiB of its own", allocated / 1024);
}

#[tokio::test]
#[ignore = "builds the release, takes minutes"]
async fn release_build_is_small() {
    let etcd = EtcdMember::start("etcd").await.unwrap();
    let kelpie = Kelpie::start_dist_build(&command_line(&etcd, &[]))
        .await
        .unwrap();
    let share = share_of_a_core(&kelpie).await * 100.0;
    let resident = kelpie.process().resident_bytes().unwrap();
    println!(
        "release: {share:.2} % of a core, {} KiB resident",
        resident / 1024
    );
    assert!(share < 1.0, "{share:.2} % of a core");
    assert!(resident < 15 << 20, "{} KiB resident", resident / 1024);
}

/// Returns the share of a core used in twenty seconds, with one probe of each group per second.
async fn share_of_a_core(kelpie: &Kelpie) -> f64 {
    kelpie.until_status("/readyz", 200, TIMEOUT).await.unwrap();
    let used = || kelpie.process().cpu_time().unwrap().as_secs_f64();
    let (before, started) = (used(), Instant::now());
    // The kernel counts in hundredths of a second, a twentieth of the limit.
    let mut second = interval(Duration::from_secs(1));
    for _ in 0..20 {
        second.tick().await;
        let (live, ready) = tokio::join!(kelpie.get("/livez"), kelpie.get("/readyz"));
        assert_eq!((live.unwrap().status, ready.unwrap().status), (200, 200));
    }
    second.tick().await;
    (used() - before) / started.elapsed().as_secs_f64()
}

#[tokio::test]
async fn first_response_is_fast() {
    let _exclusive = exclusive().await;
    let etcd = EtcdMember::start("etcd").await.unwrap();
    let mut times = Vec::new();
    for _ in 0..10 {
        let kelpie = start_kelpie(&etcd, &[]).await;
        let reply = kelpie.get("/livez").await.unwrap();
        assert_eq!(reply.status, 200, "{}", reply.body);
        times.push(kelpie.started().elapsed());
    }
    let fastest = times.iter().min().unwrap();
    println!("from the start to the first answer: {times:?}");
    // The harness polls the log for the address every 25 ms.
    assert!(*fastest < Duration::from_millis(100), "{times:?}");
}
