//! Memory: nothing per line, and a bound for any body.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "test code fails loudly"
)]

mod body;

use std::sync::Arc;

use body::{Body, INTERVAL_MS, START_MS, stream};
use kelpie_collector::Seen;

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// What a pipeline takes beside the table: two requests of 4 MiB, plain and compressed, and change.
const FIXED: usize = 12_000_000;

/// One test, as there can be one profiler at a time.
#[test]
fn a_line_allocates_nothing_and_a_large_body_stays_within_the_bound() {
    let source = Body::recorded();
    let seen = Arc::new(Seen::with_key(1));
    let tick = |now: i64| {
        let mut body = String::new();
        for instance in 0..20 {
            source.write(instance, now, &mut body);
        }
        let profiler = dhat::Profiler::builder().testing().build();
        let mut batches = 0;
        let tally = stream(&seen, now, [&body], &mut |batch| {
            batches += 1;
            seen.acknowledge(batch);
        });
        seen.turn();
        let stats = dhat::HeapStats::get();
        drop(profiler);
        assert_eq!((tally.sent, batches), (20 * source.samples() as u64, 1));
        stats.total_blocks
    };
    let mut nows = (START_MS..).step_by(INTERVAL_MS);
    tick(nows.next().unwrap());
    let allocations = tick(nows.next().unwrap());
    // The rules, the pipeline's buffers as they grow, the batch: not one for each of 7,280 lines.
    assert!(allocations < 150, "{allocations} allocations");

    let seen = Arc::new(Seen::with_key(1));
    let _profiler = dhat::Profiler::builder().testing().build();
    let mut out = |batch: &_| seen.acknowledge(batch);
    let tally = stream(&seen, START_MS, source.pieces(64 << 20), &mut out);
    let peak = dhat::HeapStats::get().max_bytes;
    let series = seen.len();
    assert_eq!(series as u64, tally.sent);
    assert!(series > 300_000, "{series} series");
    let limit = FIXED + 24 * series;
    assert!(
        peak <= limit,
        "{peak} bytes for {series} series, limit {limit}"
    );
}
