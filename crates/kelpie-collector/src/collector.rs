//! The collector: runs ticks and reports their results.

use std::borrow::Cow;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use kelpie_core::Time;
use kelpie_core::addon::{Debounce, ForwardOutcome};
use kelpie_health::{LoopHeartbeat, ReadyHandle};
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::time::{Instant, interval, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::metrics::CollectorMetrics;
use crate::remote_write::RemoteWriter;
use crate::schedule::TickSchedule;
use crate::settings::{CollectorSettings, CollectorSettingsError};
use crate::sink::BatchSink;
use crate::source::{PrometheusSource, assign_matchers};
use crate::state_page::LastTickPage;
use crate::tick::Tick;
use crate::tick_outcome::TickOutcome;
use crate::{DecodedSample, DedupTable, RecordingRule, TransformRules};

/// The interval of heartbeats to livez, also while a tick runs.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(5);

/// The state of forwarding after a tick, for the addon's status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardReport {
    /// The debounced result: a success at once, a failure only if it persists.
    pub forward: ForwardOutcome,
    /// A message for people, without numbers that change with every tick.
    pub message: String,
}

/// Reads samples from a Prometheus and writes them to a hub.
pub struct Collector {
    source: Arc<PrometheusSource>,
    sink: Arc<BatchSink>,
    rules: Arc<TransformRules>,
    dedup: Arc<DedupTable>,
    metrics: CollectorMetrics,
    state_page: LastTickPage,
    clock: Box<dyn Fn() -> Time + Send + Sync>,
    schedule: TickSchedule,
    interval: Duration,
    limit_bytes: u64,
    workers: usize,
    debounce: Debounce,
    started: Instant,
    reports: watch::Sender<Option<ForwardReport>>,
}

impl Collector {
    /// Creates a collector. `clock` returns the wall-clock time, which decides on samples that are
    /// too old or ahead. Without a hub in the settings, `show` receives the samples that would be
    /// sent.
    pub fn new(
        settings: CollectorSettings,
        clock: impl Fn() -> Time + Send + Sync + 'static,
        show: impl Fn(&DecodedSample) + Send + Sync + 'static,
        registry: &mut Registry,
    ) -> Result<Self, CollectorSettingsError> {
        let sink = match &settings.to {
            None => BatchSink::DryRun(Box::new(show)),
            Some(to) => {
                let hub =
                    RemoteWriter::new(to, &settings.network).map_err(CollectorSettingsError::To)?;
                BatchSink::Hub(Box::new(hub))
            }
        };
        let worker_queries = assign_matchers(&settings.matchers, settings.workers)?;
        let mut recording_rules = settings.recording_rules;
        for RecordingRule { name, .. } in &mut recording_rules {
            let valid = settings.rules.invalid_names.metric(name);
            let valid = valid.ok_or_else(|| CollectorSettingsError::RuleName(name.clone()))?;
            if let Cow::Owned(escaped) = valid {
                warn!(%name, %escaped, "the name of a recording rule is not valid; escaping it");
                *name = escaped;
            }
        }
        let source = PrometheusSource::new(
            &settings.from,
            settings.from_queries.as_ref(),
            &settings.network,
            worker_queries,
            recording_rules,
        );
        Ok(Self {
            source: Arc::new(source.map_err(CollectorSettingsError::From)?),
            sink: Arc::new(sink),
            rules: Arc::new(settings.rules),
            dedup: Arc::default(),
            metrics: CollectorMetrics::new(registry),
            state_page: LastTickPage::default(),
            clock: Box::new(clock),
            schedule: TickSchedule::new(settings.cluster.as_deref(), settings.interval),
            interval: settings.interval,
            limit_bytes: settings.limit_bytes,
            workers: settings.workers,
            debounce: Debounce::new(settings.degrade_after),
            started: Instant::now(),
            reports: watch::Sender::new(None),
        })
    }

    /// Subscribes to reports. Ticks with a reportable result send one, also if it is the same as
    /// before. A slow receiver does not delay the collector.
    pub fn reports(&self) -> watch::Receiver<Option<ForwardReport>> {
        self.reports.subscribe()
    }

    /// Returns the routes of the state page, `/debug/state`.
    pub fn routes(&self) -> axum::Router {
        self.state_page.routes()
    }

    /// Runs until `shutdown`, which drops a tick in progress. `heartbeat` gets beats throughout.
    /// `ready` is set at once, because the state of forwarding belongs to the addon's status.
    pub async fn run(
        mut self,
        shutdown: CancellationToken,
        heartbeat: LoopHeartbeat,
        ready: ReadyHandle,
    ) {
        ready.ready();
        let mut beats = interval(HEARTBEAT_INTERVAL);
        let mut at = self.schedule.first();
        info!(first = ?at, interval = ?self.interval, "collector started");
        loop {
            {
                let mut tick = pin!(self.tick_at(self.started + at));
                loop {
                    tokio::select! {
                        () = shutdown.cancelled() => return,
                        _ = beats.tick() => heartbeat.beat(),
                        () = &mut tick => break,
                    }
                }
            }
            let next = self.schedule.next(at, self.started.elapsed());
            if next.missed > 0 {
                warn!(
                    missed = next.missed,
                    "skipped ticks: the previous one took longer than the interval"
                );
                self.metrics.missed.inc_by(next.missed);
            }
            at = next.at;
        }
    }

    async fn tick_at(&mut self, instant: Instant) {
        sleep_until(instant).await;
        let started = Instant::now();
        let outcome = self.tick().await;
        log(&outcome, self.debounce.failures(), started.elapsed());
    }

    /// Runs one tick now.
    pub async fn tick(&mut self) -> TickOutcome {
        let (started, now) = (Instant::now(), (self.clock)());
        let now_ms = now.as_micros().div_euclid(1_000);
        let tick = Tick::new(
            &self.rules,
            &self.dedup,
            &self.metrics,
            now_ms,
            self.interval,
            self.limit_bytes,
        );
        let run = tick.run(&self.source, &self.sink, self.workers, self.interval);
        let outcome = run.await;
        self.dedup.end_tick();
        let took = started.elapsed();
        self.publish(&outcome, now.after(took), took);
        outcome
    }

    /// Updates the metrics, the state page and the subscribers.
    fn publish(&mut self, outcome: &TickOutcome, now: Time, took: Duration) {
        let succeeded = outcome.result.is_ok();
        let age = Time::from_micros(0).after(self.started.elapsed());
        let forward = self.debounce.tick(succeeded, age);
        let failures = self.debounce.failures();
        #[expect(
            clippy::cast_precision_loss,
            reason = "a metric does not need microseconds"
        )]
        let at = succeeded.then(|| now.as_micros() as f64 / 1e6);
        self.metrics.undelivered.inc_by(outcome.undelivered);
        self.metrics
            .tick_ended(at, took, failures, self.dedup.len());
        let report = forward.map(|forward| ForwardReport {
            forward,
            message: outcome.message().to_owned(),
        });
        self.state_page
            .update(outcome, report.as_ref(), now, failures);
        if report.is_some() {
            self.reports.send_replace(report);
        }
    }
}

/// Writes one log line per tick.
fn log(outcome: &TickOutcome, failures: u32, took: Duration) {
    let (read, accepted, refused) = (outcome.counts.read, outcome.accepted, outcome.refused());
    let (unchanged, undelivered) = (outcome.counts.unchanged, outcome.undelivered);
    let message = outcome.message();
    match (&outcome.result, &outcome.refusal_message) {
        (Ok(_), None) => info!(read, accepted, unchanged, ?took, "{message}"),
        (Ok(_), Some(why)) => warn!(
            read,
            accepted,
            unchanged,
            refused,
            ?took,
            "{message}, but the hub refused some samples: {why}"
        ),
        (Err(_), _) => warn!(
            read,
            accepted,
            unchanged,
            refused,
            undelivered,
            failures,
            ?took,
            "{message}"
        ),
    }
}
