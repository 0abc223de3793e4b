//! The collector: tick after tick, and a word about how it goes.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use kelpie_core::Time;
use kelpie_core::addon::{Debounce, Forward};
use kelpie_health::{Pulse, ReadyHandle};
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::time::{Instant, interval, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::board::Board;
use crate::hub::Hub;
use crate::metrics::Metrics;
use crate::outcome::Outcome;
use crate::outlet::Outlet;
use crate::schedule::Schedule;
use crate::settings::{Settings, SettingsError};
use crate::source::{Source, deal};
use crate::tick::Tick;
use crate::{Rules, Sample, Seen};

/// How often livez hears from a collector that waits.
const BEAT: Duration = Duration::from_secs(5);

/// What there is to say about forwarding, after a tick.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// Whether it works.
    pub forward: Forward,
    /// For people.
    pub message: String,
}

/// Reads from a Prometheus and writes to a hub.
pub struct Collector {
    source: Arc<Source>,
    outlet: Arc<Outlet>,
    rules: Arc<Rules>,
    seen: Arc<Seen>,
    metrics: Metrics,
    board: Board,
    clock: Box<dyn Fn() -> Time + Send + Sync>,
    schedule: Schedule,
    interval: Duration,
    limit_bytes: u64,
    workers: usize,
    debounce: Debounce,
    began: Instant,
    words: watch::Sender<Option<Word>>,
}

impl Collector {
    /// `clock` tells the wall's time: samples are judged by it. Without a hub in the settings, `show` is
    /// given what would be sent.
    pub fn new(
        settings: Settings,
        clock: impl Fn() -> Time + Send + Sync + 'static,
        show: impl Fn(&Sample) + Send + Sync + 'static,
        registry: &mut Registry,
    ) -> Result<Self, SettingsError> {
        let outlet = match &settings.to {
            None => Outlet::Shown(Box::new(show)),
            Some(to) => {
                let hub = Hub::new(to, &settings.network).map_err(SettingsError::To)?;
                Outlet::Hub(Box::new(hub))
            }
        };
        let hands = deal(&settings.matchers, settings.workers)?;
        let source = Source::new(
            &settings.from,
            &settings.network,
            hands,
            settings.recording_rules,
        );
        Ok(Self {
            source: Arc::new(source.map_err(SettingsError::From)?),
            outlet: Arc::new(outlet),
            rules: Arc::new(settings.rules),
            seen: Arc::default(),
            metrics: Metrics::new(registry),
            board: Board::default(),
            clock: Box::new(clock),
            schedule: Schedule::new(settings.cluster.as_deref(), settings.interval),
            interval: settings.interval,
            limit_bytes: settings.limit_bytes,
            workers: settings.workers,
            debounce: Debounce::new(settings.degrade_after),
            began: Instant::now(),
            words: watch::Sender::new(None),
        })
    }

    /// What there is to say: told after every tick that has something to say, also if it is the
    /// same. Whoever listens holds up nobody.
    pub fn words(&self) -> watch::Receiver<Option<Word>> {
        self.words.subscribe()
    }

    /// `/debug/state`.
    pub fn routes(&self) -> axum::Router {
        self.board.routes()
    }

    /// Runs until `shutdown`; a tick under way is dropped. `pulse` beats while it turns; `ready` is
    /// ready from the start: whether forwarding works is for the status to say.
    pub async fn run(mut self, shutdown: CancellationToken, pulse: Pulse, ready: ReadyHandle) {
        ready.ready();
        let mut beats = interval(BEAT);
        let mut at = self.schedule.first();
        info!(first = ?at, interval = ?self.interval, "ticks begin");
        loop {
            {
                let mut turn = pin!(self.tick_at(self.began + at));
                loop {
                    tokio::select! {
                        () = shutdown.cancelled() => return,
                        _ = beats.tick() => pulse.beat(),
                        () = &mut turn => break,
                    }
                }
            }
            let next = self.schedule.next(at, self.began.elapsed());
            if next.missed > 0 {
                warn!(
                    missed = next.missed,
                    "ticks are skipped: the last one took too long"
                );
                self.metrics.missed(next.missed);
            }
            at = next.at;
        }
    }

    async fn tick_at(&mut self, instant: Instant) {
        sleep_until(instant).await;
        let began = Instant::now();
        let outcome = self.tick().await;
        log(&outcome, self.debounce.failures(), began.elapsed());
    }

    /// One tick, now.
    pub async fn tick(&mut self) -> Outcome {
        let (began, now) = (Instant::now(), (self.clock)());
        let now_ms = now.as_micros().div_euclid(1_000);
        let tick = Tick::new(
            &self.rules,
            &self.seen,
            &self.metrics,
            now_ms,
            self.interval,
            self.limit_bytes,
        );
        let ran = tick.run(&self.source, &self.outlet, self.workers, self.interval);
        let outcome = ran.await;
        self.seen.turn();
        let took = began.elapsed();
        self.tell(&outcome, now.after(took), took);
        outcome
    }

    /// The numbers, the board and whoever listens.
    fn tell(&mut self, outcome: &Outcome, now: Time, took: Duration) {
        let succeeded = outcome.result.is_ok();
        let age = Time::from_micros(0).after(self.began.elapsed());
        let forward = self.debounce.tick(succeeded, age);
        let failures = self.debounce.failures();
        #[expect(clippy::cast_precision_loss, reason = "a time for people")]
        let at = succeeded.then(|| now.as_micros() as f64 / 1e6);
        self.metrics.undelivered(outcome.undelivered);
        self.metrics.ticked(at, took, failures, self.seen.len());
        let word = forward.map(|forward| Word {
            forward,
            message: outcome.message().to_owned(),
        });
        self.board.show(outcome, word.as_ref(), now, failures);
        if word.is_some() {
            self.words.send_replace(word);
        }
    }
}

/// A tick is worth a line.
fn log(outcome: &Outcome, failures: u32, took: Duration) {
    let (read, accepted, refused) = (outcome.tally.read, outcome.accepted, outcome.refused());
    let (unchanged, undelivered) = (outcome.tally.unchanged, outcome.undelivered);
    let said = outcome.message();
    match (&outcome.result, outcome.objection()) {
        (Ok(_), None) => info!(read, accepted, unchanged, ?took, "{said}"),
        (Ok(_), Some(why)) => warn!(
            read,
            accepted,
            unchanged,
            refused,
            ?took,
            "{said}, but it refuses some: {why}"
        ),
        (Err(_), _) => warn!(
            read,
            accepted,
            unchanged,
            refused,
            undelivered,
            failures,
            ?took,
            "{said}"
        ),
    }
}
