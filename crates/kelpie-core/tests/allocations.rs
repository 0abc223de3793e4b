//! A healthy round allocates nothing, and neither does one that looks for the trip instant.
#![allow(clippy::unwrap_used, reason = "test code: failures should be loud")]

use std::collections::BTreeMap;

use kelpie_core::{
    Decision, Fence, Judge, Lease, Listing, Lists, Node, Observation, Outcome, Roster, Settings,
    Time,
};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const SECOND: i64 = 1_000_000;

fn round(judge: &mut Judge, names: &[String], now: i64, renewed: i64) -> Decision {
    let start = Time::from_micros(now * SECOND);
    let renew_time = Some(Time::from_micros(renewed * SECOND));
    let leases = names.iter().map(|name| Lease {
        name,
        renew_time,
        duration_seconds: Some(40),
    });
    let listed = judge.read(Listing { start, end: start }, leases);
    judge.decide(&Observation {
        start,
        end: start,
        api_server: Outcome::Success,
        external: None,
        lists: Lists::Read(listed),
        throttled: None,
        fence: Fence::None,
        jitter: 0.5,
    })
}

#[test]
fn rounds_in_the_steady_state_allocate_nothing() {
    let names: Vec<_> = (0..5_000).map(|index| format!("node-{index:04}")).collect();
    let nodes: Vec<_> = names
        .iter()
        .map(|name| Node {
            name: name.clone(),
            ..Node::default()
        })
        .collect();
    let mut judge = Judge::new(Settings::default(), Time::from_micros(0));
    judge.learn(
        Roster::new(&nodes, None, &BTreeMap::new()),
        Time::from_micros(0),
    );
    // The first list fills the book, the first search for the trip instant its scratch space.
    for now in [40, 50, 60] {
        round(&mut judge, &names, now, now - 1);
    }
    assert!(round(&mut judge, &names, 80, 59).reasons.trips_at.is_some());

    let _profiler = dhat::Profiler::builder().testing().build();
    for now in [90, 100, 110, 120] {
        assert_eq!(
            round(&mut judge, &names, now, now - 1).reasons.trips_at,
            None
        );
    }
    assert!(
        round(&mut judge, &names, 139, 119)
            .reasons
            .trips_at
            .is_some()
    );
    let stats = dhat::HeapStats::get();
    assert_eq!(
        stats.total_blocks, 0,
        "allocations in five rounds of 5,000 leases"
    );
}
