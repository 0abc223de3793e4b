//! Memory, tasks and metric series stay constant over days of faults.

use std::time::Duration;

use kelpie_core::Time;
use kelpie_sim::resource::EVENTS;
use kelpie_sim::scenario::{ClusterSelection, Fault, FaultSite, Incident, NodeSelection, Scenario};
use kelpie_sim::{DeleteOptions, Landscape, LandscapePlan, ObjectSelector, SimClock, SimProcess};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::runtime::{Builder, Handle};
use tokio::time::sleep;

use crate::replica::prober;
use crate::scale::resident;

const HOUR: Duration = Duration::from_hours(1);

/// The resources that a process uses.
#[derive(Debug, Clone, Copy)]
struct Size {
    /// All tasks of the runtime, including the simulator's.
    tasks: usize,
    series: usize,
    megabytes: u64,
}

#[test]
fn tasks_and_series_stay_constant() {
    let sizes = run_hours(4, 3, 5);
    let (first, last) = (sizes[0], sizes[4]);
    println!("{sizes:?}");
    assert_eq!(last.series, first.series);
    // A connection may be in the middle of a reconnect.
    assert!(last.tasks <= first.tasks + 4, "{sizes:?}");
}

/// Run by `cargo xtask bench endurance`.
#[test]
#[ignore = "takes minutes: cargo xtask bench endurance"]
fn memory_stays_constant_for_a_day() {
    let sizes = run_hours(20, 5, 24);
    println!("| after hour | tasks | series | resident |\n|---|---|---|---|");
    for (hour, size) in (1..).zip(&sizes) {
        let Size {
            tasks,
            series,
            megabytes,
        } = size;
        println!("| {hour} | {tasks} | {series} | {megabytes} MB |");
    }
    // One-time allocations, and those of the simulator, are over by then.
    let (early, last) = (sizes[2], sizes[23]);
    assert_eq!(last.series, early.series);
    assert!(last.tasks <= early.tasks + 30, "{early:?} {last:?}");
    assert!(last.megabytes <= early.megabytes + 6, "{early:?} {last:?}");
}

/// Runs hours that are each full of faults, all over before the hour is. Returns the size after
/// each hour.
fn run_hours(clusters: usize, nodes: usize, hours: usize) -> Vec<Size> {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        fastrand::seed(1);
        let clock = SimClock::starting_at(Time::from_unix(1_700_000_000, 0));
        let landscape =
            Landscape::in_process(&LandscapePlan::with_size(clusters, nodes), &clock).unwrap();
        let driven = landscape.clone();
        let driver = tokio::spawn(async move { driven.run().await });
        let watchdog = prober(&landscape, "kelpie-0", true);
        let mut sizes = Vec::new();
        for _ in 0..hours {
            landscape.play(&bad_hour());
            sleep(HOUR).await;
            expire_events(&landscape);
            sizes.push(Size::of(&watchdog));
        }
        watchdog.stop().await.unwrap();
        driver.abort();
        assert_eq!(landscape.damage().nodes_unknown, 0);
        sizes
    })
}

fn bad_hour() -> Scenario {
    let minutes = Duration::from_mins;
    let faults = [
        (2, Some(3), Fault::Partition(NodeSelection::All)),
        (8, Some(2), Fault::Outage(FaultSite::Shoot)),
        (13, None, Fault::Rotation),
        (14, None, Fault::WatchDrop),
        (16, Some(1), Fault::Stall(FaultSite::Shoot)),
        (20, Some(2), Fault::Outage(FaultSite::Seed)),
        (25, Some(3), Fault::Partition(NodeSelection::Share(0.8))),
        (32, Some(2), rejections(FaultSite::Shoot, 429)),
        (36, Some(2), rejections(FaultSite::Seed, 503)),
        (
            40,
            Some(2),
            Fault::Latency(FaultSite::Shoot, Duration::from_millis(700)),
        ),
    ];
    let incidents = faults.map(|(at, lasts, fault)| {
        Incident::new(minutes(at), lasts.map(minutes), fault).in_clusters(ClusterSelection::All)
    });
    Scenario {
        name: "a bad hour".into(),
        length: minutes(45),
        incidents: incidents.to_vec(),
        ..Scenario::default()
    }
}

fn rejections(site: FaultSite, status: u16) -> Fault {
    let share = 0.5;
    Fault::Refusal {
        site,
        status,
        share,
    }
}

/// A real API server keeps Events for an hour, the simulated one for good.
fn expire_events(landscape: &Landscape) {
    let seed = landscape.seed();
    let store = seed.store();
    let (events, _) = store.list(&EVENTS, &ObjectSelector::all()).unwrap();
    for event in events {
        let text = |field: &str| {
            event["metadata"][field]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        let (namespace, name) = (text("namespace"), text("name"));
        let gone = store.delete(&EVENTS, &namespace, &name, &DeleteOptions::immediate());
        gone.unwrap();
    }
}

impl Size {
    fn of(watchdog: &SimProcess<Registry>) -> Self {
        let mut text = String::new();
        encode(&mut text, &watchdog.exposed).unwrap();
        let series = text.lines().filter(|line| !line.starts_with('#'));
        Self {
            tasks: Handle::current().metrics().num_alive_tasks(),
            series: series.count(),
            megabytes: resident(),
        }
    }
}
