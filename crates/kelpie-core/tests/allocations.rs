//! Healthy rounds and rounds that compute the trip instant allocate nothing.
#![allow(missing_docs, unreachable_pub, reason = "test code")]

mod rounds;

use rounds::{Rounds, SECOND};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

#[test]
fn steady_rounds_allocate_nothing() {
    let mut rounds = Rounds::with_leases(5_000);
    let mut trips_at =
        |now: i64, renewed: i64| rounds.round(now, |_| renewed * SECOND).reasons.trips_at;
    // The first list fills the tracker, and the first trip instant its scratch buffer.
    for now in [40, 50, 60] {
        trips_at(now, now - 1);
    }
    assert!(trips_at(80, 59).is_some());

    let _profiler = dhat::Profiler::builder().testing().build();
    for now in [90, 100, 110, 120] {
        assert_eq!(trips_at(now, now - 1), None);
    }
    assert!(trips_at(139, 119).is_some());
    let allocations = dhat::HeapStats::get().total_blocks;
    assert_eq!(allocations, 0, "allocations in five rounds of 5,000 leases");
}
