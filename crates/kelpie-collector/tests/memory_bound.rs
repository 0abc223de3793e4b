//! Memory: no allocation per line, and a bound for any body.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "test code fails loudly"
)]

mod body;

use std::sync::Arc;

use body::{Body, INTERVAL_MS, START_MS, stream};
use kelpie_collector::DedupTable;

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// The memory of a pipeline without the table: two requests of 4 MiB, plain and compressed, and
/// some spare.
const FIXED: usize = 12_000_000;

/// A single test, because there can be only one profiler at a time.
#[test]
fn memory_stays_within_bound() {
    let source = Body::recorded();
    let dedup = Arc::new(DedupTable::with_key(1));
    let tick = |now: i64| {
        let mut body = String::new();
        for instance in 0..20 {
            source.write(instance, now, &mut body);
        }
        let profiler = dhat::Profiler::builder().testing().build();
        let mut batches = 0;
        let counts = stream(&dedup, now, [&body], &mut |batch| {
            batches += 1;
            dedup.acknowledge(batch);
        });
        dedup.end_tick();
        let stats = dhat::HeapStats::get();
        drop(profiler);
        assert_eq!((counts.sent, batches), (20 * source.samples() as u64, 1));
        stats.total_blocks
    };
    let mut nows = (START_MS..).step_by(INTERVAL_MS);
    tick(nows.next().unwrap());
    let allocations = tick(nows.next().unwrap());
    // The rules, the growing buffers of the pipeline and the batch, but none for each of 7,280
    // lines.
    assert!(allocations < 150, "{allocations} allocations");

    let dedup = Arc::new(DedupTable::with_key(1));
    let _profiler = dhat::Profiler::builder().testing().build();
    let mut out = |batch: &_| dedup.acknowledge(batch);
    let counts = stream(&dedup, START_MS, source.chunks(64 << 20), &mut out);
    let peak = dhat::HeapStats::get().max_bytes;
    let series = dedup.len();
    assert_eq!(series as u64, counts.sent);
    assert!(series > 300_000, "{series} series");
    let limit = FIXED + 24 * series;
    assert!(
        peak <= limit,
        "{peak} bytes for {series} series, limit {limit}"
    );
}
