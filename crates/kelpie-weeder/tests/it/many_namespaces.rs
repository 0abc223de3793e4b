//! The load on the seed, with windows in many namespaces.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kelpie_core::Time;
use kelpie_sim::scenario::{Fault, Incident, Scenario};
use kelpie_sim::{Landscape, LandscapePlan, SimClock, SimEvent, SimEventKind};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};

use crate::replica::{single_replica, weeder_with};

/// Two selectors for the dependants of etcd.
const CONFIG: &str = "\
watchDuration: 5m
servicesAndDependantSelectors:
  etcd-main-client:
    podSelectors:
    - matchLabels: {gardener.cloud/role: controlplane, role: apiserver}
    - matchLabels: {gardener.cloud/role: controlplane, role: backup}
";

/// The rate limit of the simulated client, in requests.
const BURST: usize = 100;
const QPS: usize = 20;

#[derive(Default)]
struct LoadCounts {
    /// The lists and watches of pods that began in each second.
    requests: BTreeMap<u64, usize>,
    /// The paths of the lists.
    listed: BTreeSet<String>,
}

/// A landscape that counts the requests for pods.
struct LoadFixture {
    landscape: Landscape,
    counts: Arc<Mutex<LoadCounts>>,
    start: Instant,
    driver: JoinHandle<()>,
}

impl LoadFixture {
    fn new(namespaces: usize) -> Self {
        fastrand::seed(1);
        let clock = SimClock::starting_at(Time::from_unix(1_700_000_000, 0));
        let plan = LandscapePlan::with_size(namespaces, 1);
        let landscape = Landscape::in_process(&plan, &clock).unwrap();
        let counts = Arc::new(Mutex::new(LoadCounts::default()));
        let (start, counted) = (landscape.now(), Arc::clone(&counts));
        landscape.observe(move |event: &SimEvent| {
            if let SimEventKind::Request {
                received_at,
                verb: verb @ ("list" | "watch"),
                path,
                ..
            } = &event.kind
                && path.ends_with("/pods")
            {
                let mut counts = counted.lock().unwrap();
                let second = received_at.since(start).as_secs();
                *counts.requests.entry(second).or_default() += 1;
                if *verb == "list" {
                    counts.listed.insert(path.clone());
                }
            }
        });
        let driven = landscape.clone();
        Self {
            landscape,
            counts,
            start: Instant::now(),
            driver: tokio::spawn(async move { driven.run().await }),
        }
    }

    /// Returns the number of open watches on pods, each of which is a connection.
    fn open_watches(&self) -> usize {
        let open = std::cell::Cell::new(0);
        self.landscape.seed().reset_watches(|request| {
            open.set(open.get() + usize::from(request.path.ends_with("/pods")));
            false
        });
        open.get()
    }

    /// Waits until `then` after the start. Returns the largest number of open watches.
    async fn peak_watches_until(&self, then: Duration) -> usize {
        let mut peak = 0;
        while self.start.elapsed() < then {
            sleep_until((Instant::now() + SECOND).min(self.start + then)).await;
            peak = peak.max(self.open_watches());
        }
        peak
    }

    /// Returns the number of requests for pods in these seconds.
    fn requests(&self, seconds: std::ops::Range<u64>) -> usize {
        let counts = self.counts.lock().unwrap();
        counts.requests.range(seconds).map(|(_, count)| count).sum()
    }

    /// Returns the number of namespaces whose pods were listed.
    fn listed(&self) -> usize {
        self.counts.lock().unwrap().listed.len()
    }

    /// Takes etcd away from all clusters for a while.
    fn lose_etcd(&self, at: Duration, lasts: Duration) {
        self.landscape.play(&Scenario {
            incidents: vec![Incident::new(at, Some(lasts), Fault::EtcdOutage)],
            ..Scenario::default()
        });
    }
}

impl Drop for LoadFixture {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn namespace_has_one_watch() {
    let fixture = LoadFixture::new(40);
    fixture.lose_etcd(400 * SECOND, 100 * SECOND);
    let weeder = weeder_with(&fixture.landscape, CONFIG, single_replica("weeder-0"));
    sleep(490 * SECOND).await;
    assert_eq!(fixture.open_watches(), 0, "no window is open");
    sleep(20 * SECOND).await;
    assert_eq!(fixture.open_watches(), 40);
    assert_eq!(fixture.requests(499..510), 80, "a list and a watch each");
    weeder.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn start_keeps_to_the_request_rate() {
    let fixture = LoadFixture::new(700);
    let weeder = weeder_with(&fixture.landscape, CONFIG, single_replica("weeder-0"));
    let peak = fixture.peak_watches_until(120 * SECOND).await;
    assert!((300..=500).contains(&peak), "{peak} watches");
    for second in 0..110 {
        let requests = fixture.requests(second..second + 10);
        assert!(
            requests <= BURST + 10 * QPS,
            "{requests} from {second} s on"
        );
    }
    sleep(60 * SECOND).await;
    assert_eq!(fixture.listed(), 700, "every namespace has its window");
    weeder.stop().await.unwrap();
}

/// `cargo test -p kelpie-weeder --test it -- two_thousand --ignored --nocapture`
#[tokio::test(start_paused = true)]
#[ignore = "a measurement, which takes minutes"]
async fn load_of_two_thousand_namespaces() {
    const NAMESPACES: usize = 2_000;
    let fixture = LoadFixture::new(NAMESPACES);
    let weeder = weeder_with(&fixture.landscape, CONFIG, single_replica("weeder-0"));
    let (mut peak, mut all_listed) = (0, None);
    for minute in 1..=10 {
        peak = peak.max(fixture.peak_watches_until(minute * 60 * SECOND).await);
        if all_listed.is_none() && fixture.listed() == NAMESPACES {
            all_listed = Some(minute);
        }
    }
    let busiest = (0..600).map(|second| fixture.requests(second..second + 10));
    println!(
        "start: at most {peak} watches, at most {} requests in 10 s, all listed after \
         {all_listed:?} min",
        busiest.max().unwrap_or_default()
    );
    weeder.stop().await.unwrap();
}
