//! Federate bodies of any size, based on a response of a real Prometheus.

use std::fmt::Write;
use std::sync::Arc;

use kelpie_collector::{Batch, DedupTable, Pipeline, SampleCounts, TransformRules};

/// The response of a Prometheus that scrapes a kube-apiserver, an etcd, a hub and itself.
const RECORDED: &str = include_str!("../corpus/prometheus-federate.txt");

/// The time of the first tick.
pub const START_MS: i64 = 1_794_811_500_000;
pub const INTERVAL_MS: usize = 300_000;

const INSTANCE: &str = "instance=\"";
/// The size of one chunk from the network.
const CHUNK_BYTES: usize = 64 << 10;

/// The responses of a source with many instances of the recorded targets.
pub struct Body {
    /// For every line, the text before the instance and the text between it and the timestamp.
    lines: Vec<(&'static str, &'static str)>,
}

impl Body {
    pub fn recorded() -> Self {
        let lines = RECORDED.lines().filter(|line| !line.starts_with('#'));
        let parts = |line: &'static str| {
            let (start, rest) = line.split_once(INSTANCE).unwrap();
            let (_, rest) = rest.split_once('"').unwrap();
            let (end, _timestamp) = rest.rsplit_once(' ').unwrap();
            (start, end)
        };
        let lines = lines.map(parts).collect();
        Self { lines }
    }

    /// Returns the number of samples of one instance.
    pub fn samples(&self) -> usize {
        self.lines.len()
    }

    /// Appends all samples of one instance.
    pub fn write(&self, instance: usize, timestamp_ms: i64, to: &mut String) {
        let [high, middle, low] = [instance / 62_500, instance / 250 % 250, instance % 250];
        for (start, end) in &self.lines {
            let address = format_args!("10.{high}.{middle}.{low}:6443");
            writeln!(to, "{start}{INSTANCE}{address}\"{end} {timestamp_ms}").unwrap();
        }
    }

    /// Returns a body of at least this many bytes, instance by instance.
    pub fn chunks(&self, bytes: usize) -> impl Iterator<Item = String> {
        let mut written = 0;
        (0..).map_while(move |instance| {
            let mut text = String::with_capacity(2 * CHUNK_BYTES);
            self.write(instance, START_MS, &mut text);
            let is_needed = written < bytes;
            written += text.len();
            is_needed.then_some(text)
        })
    }
}

/// Streams a body through the pipeline of a collector that injects its cluster and elides the
/// replica.
pub fn stream(
    dedup: &Arc<DedupTable>,
    now_ms: i64,
    body: impl IntoIterator<Item = impl AsRef<[u8]>>,
    sink: &mut impl FnMut(&Batch),
) -> SampleCounts {
    let rules = TransformRules::new().inject("cluster", "spoke-1").unwrap();
    let rules = rules.inject("clusterID", "7f1c1d6e-5a3d-4d0f-9f86-0d3a5c3a3b52");
    let rules = rules.unwrap().elide("prometheus").unwrap();
    let rules = rules.elide("prometheus_replica").unwrap();
    let mut pipeline = Pipeline::new(Arc::new(rules), Arc::clone(dedup), now_ms);
    let mut out = |batch: Batch| sink(&batch);
    for part in body {
        for chunk in part.as_ref().chunks(CHUNK_BYTES) {
            pipeline.feed(chunk, &mut out).unwrap();
        }
    }
    pipeline.finish(&mut out).unwrap();
    pipeline.counts()
}
