//! Streams a federate body through the pipeline: parse, transform, deduplicate, encode, compress.
//!
//! `cargo xtask bench collector`
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::cast_precision_loss,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench prints, and fails loudly"
)]

#[path = "../tests/body/mod.rs"]
mod body;

use std::fs;
use std::sync::Arc;

use body::{Body, INTERVAL_MS, START_MS, stream};
use kelpie_collector::DedupTable;

/// The memory limits of a pipeline without the table, and of a series in the table.
const FIXED: u64 = 64_000_000;
const PER_SERIES: u64 = 24;

fn main() {
    let (mut ticks, mut samples, mut mebibytes) = (20, 100_000, 0);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let number = match argument.as_str() {
            "--ticks" => &mut ticks,
            "--samples" => &mut samples,
            "--mebibytes" => &mut mebibytes,
            _ => continue, // cargo's own, such as --bench
        };
        *number = arguments.next().unwrap().parse().unwrap();
    }
    if mebibytes == 0 {
        speed(ticks, samples);
    } else {
        memory(mebibytes << 20);
    }
}

/// Measures the speed with the same series at every tick and new timestamps.
fn speed(ticks: usize, samples: usize) {
    let source = Body::recorded();
    let instances = samples.div_ceil(source.samples());
    let samples = instances * source.samples();
    let mut text = String::new();
    for instance in 0..instances {
        source.write(instance, START_MS, &mut text);
    }
    let length = text.len();
    let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at).collect();
    let mut text = text.into_bytes();

    let dedup = Arc::new(DedupTable::with_key(1));
    let mut spent = 0.0;
    let mut compressed = 0;
    let nows = (START_MS..).step_by(INTERVAL_MS);
    for now in nows.take(ticks) {
        let stamp = now.to_string();
        for end in &ends {
            text[end - stamp.len()..*end].copy_from_slice(stamp.as_bytes());
        }
        compressed = 0;
        let before = processor_time();
        let counts = stream(&dedup, now, [&*text], &mut |batch| {
            compressed += batch.encoded().len();
            dedup.acknowledge(batch);
        });
        spent += processor_time() - before;
        assert_eq!(counts.sent, samples as u64);
        dedup.end_tick();
    }
    let seconds = spent / ticks as f64;
    println!(
        "{samples} samples in lines of {} bytes, {ticks} ticks, per second of processor time: \
         {:.2} million samples, {:.0} MB in; {} bytes per sample out",
        length / samples,
        samples as f64 / seconds / 1e6,
        length as f64 / seconds / 1e6,
        compressed / samples,
    );
}

/// Measures the memory with one body of many series, generated as it is read.
fn memory(bytes: usize) {
    let source = Body::recorded();
    let dedup = Arc::new(DedupTable::with_key(1));
    let before = processor_time();
    let mut out = |batch: &_| dedup.acknowledge(batch);
    let counts = stream(&dedup, START_MS, source.chunks(bytes), &mut out);
    let series = dedup.len() as u64;
    assert_eq!(series, counts.sent);
    let (peak, limit) = (resident_peak(), FIXED + PER_SERIES * series);
    println!(
        "{} MiB with {series} series in {:.1} s of processor time: {:.1} MB resident at most, the \
         limit is {:.1} MB; the table takes {:.1} bytes per series",
        bytes >> 20,
        processor_time() - before,
        peak as f64 / 1e6,
        limit as f64 / 1e6,
        dedup.bytes() as f64 / series as f64,
    );
    assert!(peak <= limit, "too much memory");
}

/// Returns the peak memory of this process.
fn resident_peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.unwrap().trim().strip_suffix(" kB").unwrap();
    kilobytes.parse::<u64>().unwrap() * 1024
}

/// Returns the processor time of this single-threaded process in seconds. Other load does not
/// count.
fn processor_time() -> f64 {
    let text = fs::read_to_string("/proc/self/schedstat").unwrap();
    let nanoseconds: f64 = text.split(' ').next().unwrap().parse().unwrap();
    nanoseconds / 1e9
}
