//! The prober as a process runs it.

use std::time::Duration;

use axum::extract::{Query, State as Shared};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use kelpie_bell::Listener;
use kelpie_config::ProberConfig;
use kelpie_health::{Pulse, ReadyHandle};
use kelpie_kube::Clock;
use kelpie_kube::leader::{Candidacy, ElectionSettings, Leadership, Part};
use kelpie_kube::seed::{Events, LostEvents, Seed, SeedNumbers};
use kelpie_kube::tenant::Keeping;
use prometheus_client::registry::Registry;
use serde::Deserialize;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::warn;

use crate::board::{Board, State};
use crate::fleet::{Common, Fleet};
use crate::hands::Reach;
use crate::metrics::{Metrics, PREFIX};
use crate::scribe::EventLog;

/// How Events are signed.
const COMPONENT: &str = "kelpie-prober";
/// Probes get this long to come to a step boundary.
const DRAIN: Duration = Duration::from_secs(3);

/// What the command line says beside the configuration.
#[derive(Clone, Debug)]
pub struct Options {
    /// Decide and report everything, write nothing.
    pub dry_run: bool,
    /// Connect anew in every round.
    pub fresh_connections: bool,
    /// Act only while leading; `None`: always.
    pub election: Option<ElectionSettings>,
    /// How this process signs its Events.
    pub identity: String,
    /// The namespace of Events about Clusters, which are in none: our own, as we may write there.
    pub event_namespace: String,
}

/// The prober, ready to run.
pub struct Prober {
    config: ProberConfig,
    options: Options,
    seed: Seed,
    metrics: Metrics,
    /// `None`: nothing is written to the seed.
    events: Option<Events>,
    board: Board,
    clock: Clock,
    candidacy: Candidacy,
}

impl Prober {
    /// Nothing runs yet. Its numbers go to `registry`.
    pub fn new(
        config: ProberConfig,
        options: Options,
        seed: Seed,
        registry: &mut Registry,
    ) -> Self {
        let part = Part::new(options.election.clone(), options.dry_run);
        let candidacy = part.play(&seed);
        let events = (!options.dry_run).then(|| seed.events(COMPONENT, &options.identity));
        let clock = Clock::anchored(seed.wall_clock());
        let metrics = Metrics::new(registry, clock);
        let (counted, told) = (seed.clone(), events.clone());
        let lost = move || told.as_ref().map(LostEvents::of).unwrap_or_default();
        SeedNumbers::register(registry, PREFIX, move || counted.answers(), lost);
        Self {
            metrics,
            events,
            board: Board::default(),
            clock,
            config,
            options,
            seed,
            candidacy,
        }
    }

    /// `GET /debug/state`: every cluster's last decision; `?cluster=NAME`: one cluster's.
    pub fn routes(&self) -> Router {
        let window = Window {
            board: self.board.clone(),
            clock: self.clock,
            dry_run: self.options.dry_run,
            leadership: self.candidacy.leadership(),
        };
        Router::new()
            .route("/debug/state", get(state))
            .with_state(window)
    }

    /// Runs until `shutdown`. Then probes come to a step boundary, and the Lease is given back.
    /// `pulse` beats while it turns; `ready` is ready once the seed is known.
    pub async fn run(self, shutdown: CancellationToken, pulse: Pulse, ready: ReadyHandle) {
        let leader = self.metrics.leader.clone();
        let leadership = self.candidacy.leadership();
        let office = self.candidacy.begin(move |leads| {
            leader.set(leads.into());
        });
        if let Some(events) = self.events.clone() {
            office.beside(|over| events.run(over));
        }
        let (survey, answering) = self.seed.survey();
        office.beside(|over| over.run_until_cancelled_owned(answering));

        let probes = TaskTracker::new();
        let common = Common {
            clock: self.clock,
            targets: self.config.targets.clone().into(),
            config: self.config,
            keeping: if self.options.fresh_connections {
                Keeping::FreshEachRound
            } else {
                Keeping::Kept
            },
            network: self.seed.network().clone(),
            reach: Reach::new(&self.seed, survey, leadership, self.options.dry_run),
            metrics: self.metrics,
            board: self.board,
            events: self.events.map(|events| EventLog {
                events,
                namespace: self.options.event_namespace.into(),
            }),
        };
        Fleet::new(common, shutdown, probes.clone())
            .run(&self.seed, pulse, ready)
            .await;

        probes.close();
        if timeout(DRAIN, probes.wait()).await.is_err() {
            warn!("some calls to the seed are still out; what they did is found at the next start");
        }
        office.leave().await;
    }
}

/// What `/debug/state` looks through.
#[derive(Clone)]
struct Window {
    board: Board,
    clock: Clock,
    dry_run: bool,
    leadership: Listener<Leadership>,
}

#[derive(Deserialize)]
struct Question {
    cluster: Option<String>,
}

async fn state(Shared(window): Shared<Window>, Query(question): Query<Question>) -> Response {
    let clusters = window.board.clusters(question.cluster.as_deref());
    if let Some(name) = question.cluster.filter(|_| clusters.is_empty()) {
        let answer = Json(window.board.unprobed(&name));
        return (StatusCode::NOT_FOUND, answer).into_response();
    }
    let state = State {
        at: window.clock.now(),
        leads: window.leadership.peek().may_act(Instant::now()),
        dry_run: window.dry_run,
        clusters,
    };
    Json(state).into_response()
}
