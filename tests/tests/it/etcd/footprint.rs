//! What the probe itself costs.

use std::time::Duration;

use kelpie_e2e::Etcd;
use tokio::time::{Instant, interval};

use super::stage::{PATIENCE, beside, quiet};

#[tokio::test]
async fn it_is_small_and_idle() {
    let etcd = Etcd::start("etcd").await.unwrap();
    let kelpie = beside(&etcd, &[]).await;
    kelpie.until("/readyz", 200, PATIENCE).await.unwrap();
    let (before, began) = (kelpie.process().processor_time().unwrap(), Instant::now());
    // The kernel counts in hundredths of a second: a twentieth of what is allowed.
    let mut second = interval(Duration::from_secs(1));
    for _ in 0..20 {
        second.tick().await;
        let (live, ready) = tokio::join!(kelpie.get("/livez"), kelpie.get("/readyz"));
        assert_eq!((live.unwrap().status, ready.unwrap().status), (200, 200));
    }
    second.tick().await;
    let used = kelpie.process().processor_time().unwrap().as_secs_f64() - before.as_secs_f64();
    let share = used / began.elapsed().as_secs_f64();
    let resident = kelpie.process().resident().unwrap();
    println!(
        "{:.2} % of a core, {} KiB resident",
        share * 100.0,
        resident / 1024
    );
    assert!(share < 0.01, "{:.2} % of a core", share * 100.0);
    assert!(resident < 15 << 20, "{} KiB resident", resident / 1024);
}

#[tokio::test]
async fn the_first_answer_comes_at_once() {
    let _quiet = quiet().await;
    let etcd = Etcd::start("etcd").await.unwrap();
    let mut times = Vec::new();
    for _ in 0..5 {
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
