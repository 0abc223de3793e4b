//! What the probe itself costs.

use std::time::Duration;

use kelpie_e2e::{Etcd, Kelpie};
use tokio::time::{Instant, interval};

use super::stage::{PATIENCE, beside, command_line, quiet};

#[tokio::test]
async fn it_is_small_and_idle() {
    let etcd = Etcd::start("etcd").await.unwrap();
    let kelpie = beside(&etcd, &[]).await;
    let share = share_of_a_core(&kelpie).await;
    let allocated = kelpie.process().allocated().unwrap();
    let share = share * 100.0;
    println!(
        "debug build: {share:.2} % of a core, {} KiB of its own",
        allocated / 1024
    );
    assert!(share < 1.0, "{share:.2} % of a core");
    // The code of a debug build is several times that of a release: only the rest tells here.
    assert!(allocated < 5 << 20, "{} KiB of its own", allocated / 1024);
}

#[tokio::test]
#[ignore = "builds the release, takes minutes"]
async fn as_released_it_needs_less_than_15_mb_and_a_hundredth_of_a_core() {
    let etcd = Etcd::start("etcd").await.unwrap();
    let kelpie = Kelpie::start_released(&command_line(&etcd, &[]))
        .await
        .unwrap();
    let share = share_of_a_core(&kelpie).await * 100.0;
    let resident = kelpie.process().resident().unwrap();
    println!(
        "release: {share:.2} % of a core, {} KiB resident",
        resident / 1024
    );
    assert!(share < 1.0, "{share:.2} % of a core");
    assert!(resident < 15 << 20, "{} KiB resident", resident / 1024);
}

/// The processor time of twenty seconds with one probe of each per second.
async fn share_of_a_core(kelpie: &Kelpie) -> f64 {
    kelpie.until("/readyz", 200, PATIENCE).await.unwrap();
    let used = || kelpie.process().processor_time().unwrap().as_secs_f64();
    let (before, began) = (used(), Instant::now());
    // The kernel counts in hundredths of a second: a twentieth of what is allowed.
    let mut second = interval(Duration::from_secs(1));
    for _ in 0..20 {
        second.tick().await;
        let (live, ready) = tokio::join!(kelpie.get("/livez"), kelpie.get("/readyz"));
        assert_eq!((live.unwrap().status, ready.unwrap().status), (200, 200));
    }
    second.tick().await;
    (used() - before) / began.elapsed().as_secs_f64()
}

#[tokio::test]
async fn the_first_answer_comes_at_once() {
    let _quiet = quiet().await;
    let etcd = Etcd::start("etcd").await.unwrap();
    let mut times = Vec::new();
    for _ in 0..10 {
        let kelpie = beside(&etcd, &[]).await;
        let reply = kelpie.get("/livez").await.unwrap();
        assert_eq!(reply.status, 200, "{}", reply.body);
        times.push(kelpie.started().elapsed());
    }
    let fastest = times.iter().min().unwrap();
    println!("from the start to the first answer: {times:?}");
    // The harness looks for the address every 25 ms.
    assert!(*fastest < Duration::from_millis(100), "{times:?}");
}
