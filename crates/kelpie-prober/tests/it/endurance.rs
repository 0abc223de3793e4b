//! Days go by, and nothing grows: neither memory nor tasks nor series.

use std::time::Duration;

use kelpie_core::Time;
use kelpie_sim::resource::EVENTS;
use kelpie_sim::scenario::{Clusters, Fault, Incident, Nodes, Scenario, Site};
use kelpie_sim::{Clock, Deletion, Landscape, Plan, Process, Selection};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::runtime::{Builder, Handle};
use tokio::time::sleep;

use crate::replica::prober;
use crate::scale::resident;

const HOUR: Duration = Duration::from_hours(1);

/// What a process has now.
#[derive(Debug, Clone, Copy)]
struct Size {
    /// Those of the simulator, too.
    tasks: usize,
    series: usize,
    megabytes: u64,
}

#[test]
fn after_hours_of_faults_there_are_as_many_tasks_and_series_as_after_the_first() {
    let sizes = live(4, 3, 5);
    let (first, last) = (sizes[0], sizes[4]);
    println!("{sizes:?}");
    assert_eq!(last.series, first.series);
    // A connection may just be renewed, here or there.
    assert!(last.tasks <= first.tasks + 4, "{sizes:?}");
}

/// `cargo xtask bench endurance`.
#[test]
#[ignore = "takes minutes: cargo xtask bench endurance"]
fn a_day_of_faults_leaves_nothing_behind() {
    let sizes = live(20, 5, 24);
    println!("| after hour | tasks | series | resident |\n|---|---|---|---|");
    for (hour, size) in (1..).zip(&sizes) {
        let Size {
            tasks,
            series,
            megabytes,
        } = size;
        println!("| {hour} | {tasks} | {series} | {megabytes} MB |");
    }
    // What is allocated once, and the simulator's own, has settled by then.
    let (early, last) = (sizes[2], sizes[23]);
    assert_eq!(last.series, early.series);
    assert!(last.tasks <= early.tasks + 30, "{early:?} {last:?}");
    assert!(last.megabytes <= early.megabytes + 6, "{early:?} {last:?}");
}

/// Everything goes wrong in each of these hours, and is over before the hour is. Gives the size at the
/// end of each.
fn live(clusters: usize, nodes: usize, hours: usize) -> Vec<Size> {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        fastrand::seed(1);
        let clock = Clock::starting_at(Time::from_unix(1_700_000_000, 0));
        let landscape = Landscape::inside(&Plan::of(clusters, nodes), &clock).unwrap();
        let driving = landscape.clone();
        let driver = tokio::spawn(async move { driving.run().await });
        let watchdog = prober(&landscape, "kelpie-0", true);
        let mut sizes = Vec::new();
        for _ in 0..hours {
            landscape.play(&bad_hour());
            sleep(HOUR).await;
            expire_events(&landscape);
            sizes.push(Size::of(&watchdog));
        }
        watchdog.end().await.unwrap();
        driver.abort();
        assert_eq!(landscape.damage().nodes_unknown, 0);
        sizes
    })
}

fn bad_hour() -> Scenario {
    let minutes = Duration::from_mins;
    let faults = [
        (2, Some(3), Fault::Partition(Nodes::All)),
        (8, Some(2), Fault::Outage(Site::Shoot)),
        (13, None, Fault::Rotation),
        (14, None, Fault::WatchDrop),
        (16, Some(1), Fault::Stall(Site::Shoot)),
        (20, Some(2), Fault::Outage(Site::Seed)),
        (25, Some(3), Fault::Partition(Nodes::Share(0.8))),
        (32, Some(2), refusals(Site::Shoot, 429)),
        (36, Some(2), refusals(Site::Seed, 503)),
        (
            40,
            Some(2),
            Fault::Latency(Site::Shoot, Duration::from_millis(700)),
        ),
    ];
    let incidents = faults.map(|(at, lasts, fault)| {
        Incident::new(minutes(at), lasts.map(minutes), fault).of(Clusters::All)
    });
    Scenario {
        name: "a bad hour".into(),
        length: minutes(45),
        incidents: incidents.to_vec(),
        ..Scenario::default()
    }
}

fn refusals(site: Site, status: u16) -> Fault {
    let share = 0.5;
    Fault::Refusal {
        site,
        status,
        share,
    }
}

/// A real API server keeps Events for an hour; the simulated one would keep them for good.
fn expire_events(landscape: &Landscape) {
    let seed = landscape.seed();
    let store = seed.store();
    let (events, _) = store.list(&EVENTS, &Selection::all()).unwrap();
    for event in events {
        let text = |field: &str| {
            event["metadata"][field]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        let (namespace, name) = (text("namespace"), text("name"));
        let gone = store.delete(&EVENTS, &namespace, &name, &Deletion::now());
        gone.unwrap();
    }
}

impl Size {
    fn of(watchdog: &Process<Registry>) -> Self {
        let mut text = String::new();
        encode(&mut text, &watchdog.shows).unwrap();
        let series = text.lines().filter(|line| !line.starts_with('#'));
        Self {
            tasks: Handle::current().metrics().num_alive_tasks(),
            series: series.count(),
            megabytes: resident(),
        }
    }
}
