//! The weeder as a process runs it.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Query, State as Shared};
use axum::routing::get;
use axum::{Json, Router};
use kelpie_bell::Listener;
use kelpie_config::WeederConfig;
use kelpie_core::weeder::{Readiness, Rules};
use kelpie_health::{Pulse, ReadyHandle};
use kelpie_kube::Clock;
use kelpie_kube::leader::{Candidacy, ElectionSettings, Leadership, Part};
use kelpie_kube::seed::{LostEvents, Seed, SeedNumbers};
use prometheus_client::registry::Registry;
use serde::Deserialize;
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
    candidacy: Candidacy,
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
        let candidacy = Part::new(options.election, dry_run).play(&seed);
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
            clock: Clock::anchored(seed.wall_clock()),
            seed,
            rules: Rules {
                watch_duration: config.watch_duration,
                max_deletions_per_pod: config.max_deletions_per_pod,
                dry_run,
            },
            selectors: selectors.collect(),
            pacer: Pacer::default(),
            leadership: candidacy.leadership(),
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
            candidacy,
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
        let leader = self.common.audience.metrics.leader.clone();
        let office = self.candidacy.begin(move |leads| {
            leader.set(leads.into());
        });
        if let Some(events) = self.common.audience.events.clone() {
            office.beside(|over| events.run(over));
        }

        let plots = TaskTracker::new();
        Lookout::new(self.common, self.namespace, self.readiness, plots.clone())
            .run(pulse, ready)
            .await;

        plots.close();
        if timeout(DRAIN, plots.wait()).await.is_err() {
            warn!("some deletions are still out; what they did is found at the next start");
        }
        office.leave().await;
    }
}

/// What `/debug/state` looks through.
#[derive(Clone)]
struct View {
    board: Board,
    clock: Clock,
    dry_run: bool,
    leadership: Listener<Leadership>,
}

#[derive(Deserialize)]
struct Question {
    namespace: Option<String>,
}

async fn state(Shared(view): Shared<View>, Query(question): Query<Question>) -> Json<State> {
    Json(State {
        at: view.clock.now(),
        leads: view.leadership.peek().may_act(Instant::now()),
        dry_run: view.dry_run,
        namespaces: view.board.namespaces(question.namespace.as_deref()),
    })
}
