//! The operator: deploys the collectors that the addon asks for, and says in its status how that went.
//!
//! Reading order: a `pass` reads the `world`, takes `aim` for each collector, and makes what its
//! `manifest` says. Passes are level-triggered: whatever happened, the whole world is looked at.

mod aim;
mod allowlist;
mod hub_info;
mod manifest;
mod pass;
mod readiness;
mod settings;
mod world;

use std::pin::Pin;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use futures_util::{Stream, StreamExt, stream};
use kelpie_core::addon::Component;
use kelpie_health::{Pulse, ReadyHandle};
use kelpie_kube::objects::{Kind, Objects};
use kelpie_kube::seed::{Change, Seed};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

pub use allowlist::{Allowlist, Rule};
pub use settings::{OperatorOptions, Source};
pub(crate) use world::{INPUTS, POD, STATEFUL_SET};

use self::manifest::deployment_name;
use self::pass::{Findings, Operation};
use self::readiness::Unready;
use crate::addon::ADDON;
use crate::backoff::Backoff;
use crate::made::{DEPLOYMENT, SERVICE};
use crate::metrics::OperatorMetrics;
use crate::post::{Options, Post};
use crate::writer::StatusWriter;

/// How Events are signed.
const COMPONENT: &str = "kelpie-addon-operator";
/// Changes that come together are one pass.
const GATHER: Duration = Duration::from_millis(100);
/// Between passes that fail.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// The loop turns at least this often, so that somebody can tell that it does.
const TURN: Duration = Duration::from_secs(10);

/// The operator, ready to run.
pub struct Operator {
    post: Post,
    options: OperatorOptions,
    metrics: OperatorMetrics,
    last: watch::Sender<Option<Result<Vec<String>, String>>>,
}

impl Operator {
    /// Nothing runs yet.
    pub fn new(
        spoke: Seed,
        options: Options,
        operator: OperatorOptions,
        registry: &mut Registry,
    ) -> Self {
        Self {
            post: Post::new(spoke, COMPONENT, options),
            options: operator,
            metrics: OperatorMetrics::new(registry),
            last: watch::Sender::new(None),
        }
    }

    /// `GET /debug/state`: what the last pass came to.
    pub fn routes(&self) -> Router {
        let (last, say) = (self.last.subscribe(), self.post.say());
        let (addon, dry_run) = (self.post.options.addon.clone(), self.post.options.dry_run);
        let show = move || {
            let last = match &*last.borrow() {
                None => Value::Null,
                Some(Ok(failures)) => json!({ "failures": failures }),
                Some(Err(error)) => json!({ "error": error }),
            };
            let state = json!({
                "addon": { "namespace": addon.namespace, "name": addon.name },
                "leads": say.may_act(),
                "dryRun": dry_run,
                "lastPass": last,
            });
            std::future::ready(axum::Json(state))
        };
        Router::new().route("/debug/state", get(show))
    }

    /// Runs until `shutdown`. `pulse` beats while it turns; `ready` is ready after the first pass.
    pub async fn run(self, shutdown: CancellationToken, pulse: Pulse, ready: ReadyHandle) {
        let objects = self.post.spoke.objects();
        let options = &self.post.options;
        let operation = Operation {
            writer: StatusWriter::new(objects.clone(), options.addon.clone()),
            addon: options.addon.clone(),
            options: self.options,
            voice: self.post.voice.clone(),
            say: self.post.say(),
            dry_run: options.dry_run,
            unready: Unready::default(),
            objects,
        };
        let mut shift = Shift {
            operation,
            resync: options.resync,
            metrics: self.metrics.clone(),
            last: self.last,
        };
        let say = self.post.say();
        let work = async {
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = shift.work(say, pulse, ready) => {}
            }
        };
        let leader = self.metrics.leader.clone();
        Box::pin(self.post.during(leader, work)).await;
    }
}

/// Pass after pass.
struct Shift {
    operation: Operation,
    resync: Duration,
    metrics: OperatorMetrics,
    last: watch::Sender<Option<Result<Vec<String>, String>>>,
}

impl Shift {
    async fn work(&mut self, mut say: crate::post::Say, pulse: Pulse, ready: ReadyHandle) {
        let mut pokes = self.pokes();
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        let mut next = Instant::now();
        loop {
            pulse.beat();
            let turn = Instant::now() + TURN;
            tokio::select! {
                _ = pokes.next() => {
                    sleep(GATHER).await;
                    next = Instant::now();
                }
                () = say.changed() => next = Instant::now(),
                () = sleep_until(next.min(turn)) => {}
            }
            if Instant::now() < next {
                continue;
            }
            let now = Instant::now();
            next = now + self.resync;
            if !(say.may_act() || self.operation.dry_run) {
                ready.ready();
                continue;
            }
            let found = self.pass().await;
            ready.ready();
            match found {
                Some(found) if found.failures.is_empty() => {
                    backoff.reset();
                    next = found.wake.map_or(next, |wake| next.min(wake));
                }
                _ => next = next.min(Instant::now() + backoff.pause(fastrand::f64())),
            }
        }
    }

    async fn pass(&mut self) -> Option<Findings> {
        let found = self.operation.pass().await;
        self.metrics
            .passed(found.as_ref().ok().map(|found| found.failures.is_empty()));
        match found {
            Ok(found) => {
                self.last.send_replace(Some(Ok(found.failures.clone())));
                Some(found)
            }
            Err(error) => {
                warn!("this pass could not be made: {error}");
                self.last.send_replace(Some(Err(error.to_string())));
                None
            }
        }
    }

    /// Something that a pass reads has changed.
    fn pokes(&self) -> Pin<Box<dyn Stream<Item = ()> + Send>> {
        let Operation {
            objects,
            addon,
            options,
            ..
        } = &self.operation;
        let own = addon.namespace.as_str();
        let (platform, uwl) = (&options.platform, &options.uwl);
        let mut watched: Vec<(Kind, &str, &str)> = vec![
            (ADDON, own, &addon.name),
            (SERVICE, &platform.namespace, &platform.name),
            (STATEFUL_SET, &uwl.namespace, &uwl.name),
        ];
        watched.extend(INPUTS.map(|(kind, name)| (kind, own, name)));
        watched
            .extend(Component::ALL.map(|component| (DEPLOYMENT, own, deployment_name(component))));
        let streams = watched
            .into_iter()
            .map(|(kind, namespace, name)| pokes_of(objects, kind, namespace, name));
        Box::pin(stream::select_all(streams))
    }
}

/// Pokes by one object. Changes of the addon's own status are none: we write them ourselves.
fn pokes_of(
    objects: &Objects,
    kind: Kind,
    namespace: &str,
    name: &str,
) -> Pin<Box<dyn Stream<Item = ()> + Send>> {
    let mut last = None;
    let mut is_blind = false;
    let changes = objects.watch(kind, namespace, Some(name));
    let pokes = changes.filter_map(move |change| {
        let poke = match change {
            Change::Applied(object) => {
                is_blind = false;
                let seen = Some(essence(kind, &object));
                let is_news = last != seen;
                last = seen;
                is_news.then_some(())
            }
            Change::Deleted { .. } => {
                last = None;
                Some(())
            }
            Change::Restarted | Change::Synced => None,
            Change::Failed(error) => {
                if is_blind {
                    debug!(%error, "it still cannot be watched");
                } else {
                    warn!("{error}; changes are seen at the next resync");
                }
                is_blind = true;
                None
            }
        };
        std::future::ready(poke)
    });
    Box::pin(pokes)
}

/// What of an object matters: all that is not status, and a Deployment's readiness.
fn essence(kind: Kind, object: &Value) -> Value {
    let metadata = &object["metadata"];
    if kind == DEPLOYMENT {
        let ready = readiness::is_ready(object);
        json!([metadata["uid"], metadata["generation"], ready])
    } else if kind == ADDON {
        let going = metadata["deletionTimestamp"].is_string();
        json!([metadata["uid"], metadata["generation"], going])
    } else if kind == STATEFUL_SET || kind == SERVICE {
        metadata["uid"].clone()
    } else {
        metadata["resourceVersion"].clone()
    }
}
