//! One tick: reads, transforms and delivers everything once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::metrics::CollectorMetrics;
use crate::queue::queue;
use crate::remote_write::DeliveryContext;
use crate::sink::BatchSink;
use crate::source::{PrometheusSource, ReadingContext, SourceError};
use crate::tick_outcome::TickOutcome;
use crate::tick_stats::TickStats;
use crate::{DedupTable, Pipeline, SampleCounts, TransformRules};

/// The state that the tasks of a tick share.
pub(crate) struct Tick {
    rules: Arc<TransformRules>,
    pub(crate) dedup: Arc<DedupTable>,
    /// The start of the tick in Unix milliseconds.
    now_ms: i64,
    pub(crate) delivery: DeliveryContext,
    pub(crate) reading: ReadingContext,
    pub(crate) stats: Mutex<TickStats>,
    pub(crate) metrics: CollectorMetrics,
    limit_bytes: u64,
    /// The bytes of all response bodies so far.
    read_bytes: AtomicU64,
    aborted: CancellationToken,
}

impl Tick {
    pub(crate) fn new(
        rules: &Arc<TransformRules>,
        dedup: &Arc<DedupTable>,
        metrics: &CollectorMetrics,
        now_ms: i64,
        interval: Duration,
        limit_bytes: u64,
    ) -> Self {
        Self {
            rules: Arc::clone(rules),
            dedup: Arc::clone(dedup),
            now_ms,
            delivery: DeliveryContext::new(interval, now_ms),
            reading: ReadingContext::new(interval),
            stats: Mutex::default(),
            metrics: metrics.clone(),
            limit_bytes,
            read_bytes: AtomicU64::new(0),
            aborted: CancellationToken::new(),
        }
    }

    /// Creates a pipeline for one response.
    pub(crate) fn pipeline(&self) -> Pipeline {
        let (rules, dedup) = (Arc::clone(&self.rules), Arc::clone(&self.dedup));
        Pipeline::new(rules, dedup, self.now_ms)
    }

    /// Counts bytes of a response body. Fails if the tick exceeds its limit.
    pub(crate) fn count_bytes(&self, bytes: usize) -> Result<(), SourceError> {
        let read = self.read_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        if read.saturating_add(bytes as u64) > self.limit_bytes {
            return Err(SourceError::TooMuch(self.limit_bytes));
        }
        Ok(())
    }

    /// Counts samples as they are read, so that those of an aborted tick are counted too.
    pub(crate) fn count_samples(&self, counts: SampleCounts) {
        self.metrics.samples_read(&counts);
        self.stats.lock().counts += counts;
    }

    /// Fails the tick and ends it at once.
    pub(crate) fn abort(&self, failure: String) {
        self.stats.lock().fail(failure);
        self.aborted.cancel();
    }

    /// Reads and delivers everything, for one interval at most. Requests that are in flight at the
    /// end of it are dropped with their connections.
    pub(crate) async fn run(
        self,
        source: &Arc<PrometheusSource>,
        sink: &Arc<BatchSink>,
        workers: usize,
        interval: Duration,
    ) -> TickOutcome {
        let tick = Arc::new(self);
        let (sender, receiver) = queue();
        let (mut reading, mut writing) = (JoinSet::new(), JoinSet::new());
        for task in source.tasks() {
            let (source, tick, sender) = (Arc::clone(source), Arc::clone(&tick), sender.clone());
            reading.spawn(async move { source.read(task, &tick, &sender).await });
        }
        drop(sender);
        for _ in 0..workers.max(1) {
            let (sink, tick, receiver) = (Arc::clone(sink), Arc::clone(&tick), receiver.clone());
            writing.spawn(async move {
                while let Some(queued) = receiver.recv().await {
                    sink.deliver(queued, &tick).await;
                }
            });
        }
        let done = async { tokio::join!(tick.join(&mut reading), tick.join(&mut writing)) };
        let is_late = tokio::select! {
            ended = timeout(interval, done) => ended.is_err(),
            () = tick.aborted.cancelled() => false,
        };
        if is_late {
            let unfinished = if reading.is_empty() {
                "the hub has not accepted everything"
            } else {
                "the source has not sent everything"
            };
            let text = format!(
                "the tick did not finish within its interval of {interval:?}: {unfinished}"
            );
            tick.stats.lock().fail(text);
        }
        // At once, because the source holds locks while a response is open.
        reading.shutdown().await;
        writing.shutdown().await;
        // No task is left to update the stats.
        std::mem::take(&mut *tick.stats.lock()).finish()
    }

    async fn join(&self, tasks: &mut JoinSet<()>) {
        while let Some(ended) = tasks.join_next().await {
            if ended.is_err() {
                let text = "a collector task panicked".to_owned();
                self.stats.lock().fail(text);
            }
        }
    }
}
