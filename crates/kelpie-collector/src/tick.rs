//! One tick: everything is read, transformed and delivered once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::hub::Course;
use crate::ledger::Ledger;
use crate::metrics::Metrics;
use crate::outcome::Outcome;
use crate::outlet::Outlet;
use crate::queue::queue;
use crate::source::{Source, SourceFault};
use crate::{Rules, Seen, Tally};

/// What the parts of a tick share.
pub(crate) struct Tick {
    pub(crate) rules: Arc<Rules>,
    pub(crate) seen: Arc<Seen>,
    /// When it began.
    pub(crate) now_ms: i64,
    pub(crate) course: Course,
    pub(crate) ledger: Ledger,
    pub(crate) metrics: Metrics,
    limit: u64,
    /// Bytes of bodies so far.
    taken: AtomicU64,
    aborted: CancellationToken,
}

impl Tick {
    pub(crate) fn new(
        rules: &Arc<Rules>,
        seen: &Arc<Seen>,
        metrics: &Metrics,
        now_ms: i64,
        interval: Duration,
        limit: u64,
    ) -> Self {
        Self {
            rules: Arc::clone(rules),
            seen: Arc::clone(seen),
            now_ms,
            course: Course::new(interval, now_ms),
            ledger: Ledger::default(),
            metrics: metrics.clone(),
            limit,
            taken: AtomicU64::new(0),
            aborted: CancellationToken::new(),
        }
    }

    /// More bytes of a body have come.
    pub(crate) fn take(&self, bytes: usize) -> Result<(), SourceFault> {
        let taken = self.taken.fetch_add(bytes as u64, Ordering::Relaxed);
        if taken.saturating_add(bytes as u64) > self.limit {
            return Err(SourceFault::TooMuch(self.limit));
        }
        Ok(())
    }

    /// More samples were read. As they come: a tick that is aborted has read them too.
    pub(crate) fn count(&self, tally: Tally) {
        self.metrics.read(&tally);
        self.ledger.lock().tally += tally;
    }

    /// Ends the tick as it is.
    pub(crate) fn abort(&self, why: String) {
        self.ledger.lock().fail(why);
        self.aborted.cancel();
    }

    /// Reads and delivers everything, for an interval at most. What is under way then is dropped,
    /// with its connections.
    pub(crate) async fn run(
        self,
        source: &Arc<Source>,
        outlet: &Arc<Outlet>,
        workers: usize,
        interval: Duration,
    ) -> Outcome {
        let tick = Arc::new(self);
        let (inlet, queued) = queue();
        let (mut reading, mut writing) = (JoinSet::new(), JoinSet::new());
        for part in source.parts() {
            let (source, tick, inlet) = (Arc::clone(source), Arc::clone(&tick), inlet.clone());
            reading.spawn(async move { source.read(part, &tick, &inlet).await });
        }
        drop(inlet);
        for _ in 0..workers.max(1) {
            let (outlet, tick, queued) = (Arc::clone(outlet), Arc::clone(&tick), queued.clone());
            writing.spawn(async move {
                while let Some(next) = queued.next().await {
                    outlet.deliver(next, &tick).await;
                }
            });
        }
        let done = async { tokio::join!(tick.join(&mut reading), tick.join(&mut writing)) };
        let is_late = tokio::select! {
            ended = timeout(interval, done) => ended.is_err(),
            () = tick.aborted.cancelled() => false,
        };
        if is_late {
            let left = if reading.is_empty() {
                "the hub has not taken everything"
            } else {
                "the source has not sent everything"
            };
            let text =
                format!("the tick has not ended within its interval of {interval:?}: {left}");
            tick.ledger.lock().fail(text);
        }
        // Not a moment longer: an open body keeps its locks at the source.
        reading.shutdown().await;
        writing.shutdown().await;
        tick.ledger.close()
    }

    async fn join(&self, tasks: &mut JoinSet<()>) {
        while let Some(ended) = tasks.join_next().await {
            if ended.is_err() {
                let text = "a part of the collector panicked".to_owned();
                self.ledger.lock().fail(text);
            }
        }
    }
}
