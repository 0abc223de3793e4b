//! Federate bodies of any size, made of what a real Prometheus has answered.

use std::fmt::Write;
use std::sync::Arc;

use kelpie_collector::{Batch, Pipeline, Rules, Seen, Tally};

/// What a Prometheus answered that scrapes a kube-apiserver, an etcd, a hub and itself.
const RECORDED: &str = include_str!("../corpus/prometheus-federate.txt");

/// When the first tick is.
pub const START_MS: i64 = 1_794_811_500_000;
pub const INTERVAL_MS: usize = 300_000;

const INSTANCE: &str = "instance=\"";
/// What the network brings at once.
const PIECE: usize = 64 << 10;

/// The answers of a source with many instances of what was recorded.
pub struct Body {
    /// Of every line what stands before the instance, and what stands between it and the timestamp.
    lines: Vec<(&'static str, &'static str)>,
}

impl Body {
    pub fn recorded() -> Self {
        let lines = RECORDED.lines().filter(|line| !line.starts_with('#'));
        let parts = |line: &'static str| {
            let (begin, rest) = line.split_once(INSTANCE).unwrap();
            let (_, rest) = rest.split_once('"').unwrap();
            let (end, _timestamp) = rest.rsplit_once(' ').unwrap();
            (begin, end)
        };
        let lines = lines.map(parts).collect();
        Self { lines }
    }

    /// Samples of one instance.
    pub fn samples(&self) -> usize {
        self.lines.len()
    }

    /// Appends all samples of one instance.
    pub fn write(&self, instance: usize, timestamp_ms: i64, to: &mut String) {
        let [high, middle, low] = [instance / 62_500, instance / 250 % 250, instance % 250];
        for (begin, end) in &self.lines {
            let address = format_args!("10.{high}.{middle}.{low}:6443");
            writeln!(to, "{begin}{INSTANCE}{address}\"{end} {timestamp_ms}").unwrap();
        }
    }

    /// A body of at least so many bytes, instance by instance.
    pub fn pieces(&self, bytes: usize) -> impl Iterator<Item = String> {
        let mut written = 0;
        (0..).map_while(move |instance| {
            let mut text = String::with_capacity(2 * PIECE);
            self.write(instance, START_MS, &mut text);
            let is_needed = written < bytes;
            written += text.len();
            is_needed.then_some(text)
        })
    }
}

/// Streams a body as a collector does that adds its cluster and leaves out the replica.
pub fn stream(
    seen: &Arc<Seen>,
    now_ms: i64,
    body: impl IntoIterator<Item = impl AsRef<[u8]>>,
    sink: &mut impl FnMut(&Batch),
) -> Tally {
    let rules = Rules::new().inject("cluster", "spoke-1").unwrap();
    let rules = rules.inject("clusterID", "7f1c1d6e-5a3d-4d0f-9f86-0d3a5c3a3b52");
    let rules = rules.unwrap().elide("prometheus").unwrap();
    let rules = rules.elide("prometheus_replica").unwrap();
    let mut pipeline = Pipeline::new(Arc::new(rules), Arc::clone(seen), now_ms);
    let mut out = |batch: Batch| sink(&batch);
    for part in body {
        for piece in part.as_ref().chunks(PIECE) {
            pipeline.feed(piece, &mut out).unwrap();
        }
    }
    pipeline.finish(&mut out).unwrap();
    pipeline.tally()
}
