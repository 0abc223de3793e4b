//! The weeder as a process runs it.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Query, State as Shared};
use axum::routing::get;
use axum::{Json, Router};
use futures_util::future::BoxFuture;
use kelpie_config::WeederConfig;
use kelpie_core::weeder::{Readiness, Rules};
use kelpie_health::{Pulse, ReadyHandle};
use kelpie_kube::Clock;
use kelpie_kube::leader::{ElectionSettings, Leadership, Part, announce};
use kelpie_kube::seed::{LostEvents, Seed, SeedNumbers};
use prometheus_client::registry::Registry;
use serde::Deserialize;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::warn;

use crate::board::{Board, State};
use crate::lookout::Lookout;
use crate::metrics::{Metrics, PREFIX};
use crate::pacer::Pacer;
use crate::plot::Common;
use crate::scribe::Audience;

/// How Events are signed.
const COMPONENT: &str = "kelpie-weeder";
/// Deletions that are under way get this long.
const DRAIN: Duration = Duration::from_secs(3);
/// The Lease gets this long to be given back.
const HANDOVER: Duration = Duration::from_secs(1);

/// What the command line says beside the configuration.
#[derive(Clone, Debug)]
pub struct Options {
    /// Decide and report everything, write nothing.
    pub dry_run: bool,
    /// Only this namespace.
    pub namespace: Option<String>,
    /// Act only while leading; `None`: always.
    pub election: Option<ElectionSettings>,
    /// How this process signs its Events.
    pub identity: String,
}

/// The weeder, ready to run.
pub struct Weeder {
    common: Arc<Common>,
    namespace: Option<String>,
    readiness: Readiness,
    /// Ends when `election_over` is cancelled and the Lease is given back.
    election: BoxFuture<'static, ()>,
    election_over: CancellationToken,
}

impl Weeder {
    /// Nothing runs yet. Its numbers go to `registry`. It ends when `shutdown` is cancelled.
    pub fn new(
        config: WeederConfig,
        options: Options,
        seed: Seed,
        registry: &mut Registry,
        shutdown: CancellationToken,
    ) -> Self {
        let dry_run = options.dry_run || config.dry_run;
        let election_over = CancellationToken::new();
        let part = Part::new(options.election, dry_run);
        let (leadership, election) = part.play(&seed, election_over.clone());
        let events = (!dry_run).then(|| seed.urgent_events(COMPONENT, &options.identity));
        let services = config.services.keys().map(String::as_str);
        let metrics = Metrics::new(registry, services);
        let (counted, told) = (seed.clone(), events.clone());
        let lost = move || told.as_ref().map(LostEvents::of).unwrap_or_default();
        SeedNumbers::register(registry, PREFIX, move || counted.answers(), lost);
        let selectors = config.services.into_iter().map(|(service, selectors)| {
            let selectors = selectors.iter().map(ToString::to_string);
            (service, selectors.collect())
        });
        let common = Common {
            clock: Clock::anchored(),
            seed,
            rules: Rules {
                watch_duration: config.watch_duration,
                max_deletions_per_pod: config.max_deletions_per_pod,
                dry_run,
            },
            selectors: selectors.collect(),
            pacer: Pacer::default(),
            leadership,
            audience: Audience {
                metrics,
                board: Board::default(),
                events,
            },
            cancelled: shutdown,
        };
        Self {
            common: Arc::new(common),
            namespace: options.namespace,
            readiness: config.readiness,
            election,
            election_over,
        }
    }

    /// `GET /debug/state`: every service and its window; `?namespace=NAME`: those of one namespace.
    pub fn routes(&self) -> Router {
        let view = View {
            board: self.common.audience.board.clone(),
            clock: self.common.clock,
            dry_run: self.common.rules.dry_run,
            leadership: self.common.leadership.clone(),
        };
        Router::new()
            .route("/debug/state", get(state))
            .with_state(view)
    }

    /// Runs until the shutdown. Then deletions that are under way may end, and the Lease is given
    /// back. `pulse` beats while it turns; `ready` is ready once the services are known.
    pub async fn run(self, pulse: Pulse, ready: ReadyHandle) {
        let background = TaskTracker::new();
        let background_over = CancellationToken::new();
        let election = background.spawn(self.election);
        let leader = self.common.audience.metrics.leader.clone();
        let leadership = self.common.leadership.clone();
        background.spawn(announce(leadership, move |leads| {
            leader.set(leads.into());
        }));
        if let Some(events) = self.common.audience.events.clone() {
            background.spawn(events.run(background_over.clone()));
        }

        let plots = TaskTracker::new();
        Lookout::new(self.common, self.namespace, self.readiness, plots.clone())
            .run(pulse, ready)
            .await;

        plots.close();
        if timeout(DRAIN, plots.wait()).await.is_err() {
            warn!("some deletions are still out; what they did is found at the next start");
        }
        // Only now: who hands over must have stopped acting.
        self.election_over.cancel();
        if timeout(HANDOVER, election).await.is_err() {
            warn!("the Lease could not be given back in time; it runs out by itself");
        }
        background_over.cancel();
        background.close();
        let _ = timeout(HANDOVER, background.wait()).await;
    }
}

/// What `/debug/state` looks through.
#[derive(Clone)]
struct View {
    board: Board,
    clock: Clock,
    dry_run: bool,
    leadership: watch::Receiver<Leadership>,
}

#[derive(Deserialize)]
struct Question {
    namespace: Option<String>,
}

async fn state(Shared(view): Shared<View>, Query(question): Query<Question>) -> Json<State> {
    Json(State {
        at: view.clock.now(),
        leads: view.leadership.borrow().may_act(Instant::now()),
        dry_run: view.dry_run,
        namespaces: view.board.namespaces(question.namespace.as_deref()),
    })
}
