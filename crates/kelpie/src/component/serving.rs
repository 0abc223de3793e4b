//! What is served: numbers, state, health.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use axum::Router;
use clap::Args;
use kelpie_health::{Health, Pulse, Readiness, ReadyHandle, Settings};
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::bind::BindAddress;

/// The loop that follows the seed turns at least every 5 s.
const LONGEST_TURN: Duration = Duration::from_mins(1);

/// What is served, and where.
#[derive(Args)]
#[command(next_help_heading = "Serving (HOST:PORT; :PORT for all interfaces; 0 for nothing)")]
pub(crate) struct ServingFlags {
    /// Where /metrics and /debug/state are
    #[arg(
        long = "metrics-bind-addr",
        value_name = "ADDR",
        default_value = ":9643"
    )]
    metrics: BindAddress,

    /// Where /livez, /readyz and /healthz are
    #[arg(
        long = "health-bind-addr",
        value_name = "ADDR",
        default_value = ":9644"
    )]
    health: BindAddress,

    /// Accepted for dependency-watchdog's sake: nothing is served there
    #[arg(long = "pprof-bind-addr", value_name = "ADDR")]
    _pprof: Option<String>,
}

/// The loop of a component that must not stop, and what must be there before it is of use.
pub(crate) struct Loop {
    /// As livez calls it.
    pub(crate) name: &'static str,
    pub(crate) longest_turn: Duration,
    /// As readyz calls what must be there: the cluster that it has to know, most often.
    pub(crate) ready: &'static str,
}

/// A component that is served, before it runs.
pub(crate) struct Served {
    pulse: Pulse,
    ready: ReadyHandle,
    over: CancellationToken,
}

impl ServingFlags {
    /// Serves in the background: metrics and `state`, and the health checks.
    pub(crate) async fn open(
        &self,
        mut registry: Registry,
        state: Router,
        turning: &Loop,
    ) -> Result<Served> {
        let (health, pulse, ready) = turning.checks(&mut registry)?;
        let numbers = kelpie_health::metrics(Arc::new(registry)).merge(state);
        let checks = kelpie_health::routes(health.clone()).merge(kelpie_health::healthz(health));
        let over = CancellationToken::new();
        serve(&self.metrics, "metrics", numbers, &over).await?;
        serve(&self.health, "health", checks, &over).await?;
        Ok(Served { pulse, ready, over })
    }
}

impl Served {
    /// Runs the component to its end: answers are given until then.
    pub(crate) async fn during<F: Future<Output = ()>>(
        self,
        component: impl FnOnce(Pulse, ReadyHandle) -> F,
    ) {
        component(self.pulse, self.ready).await;
        self.over.cancel();
        info!("ended");
    }
}

impl Loop {
    /// One that follows the seed.
    pub(crate) const fn of_seed(name: &'static str) -> Self {
        Self {
            name,
            longest_turn: LONGEST_TURN,
            ready: "seed",
        }
    }

    /// The checks of livez and readyz, with their handles.
    pub(crate) fn checks(&self, registry: &mut Registry) -> Result<(Health, Pulse, ReadyHandle)> {
        let mut checks = Health::builder(Settings::default(), registry);
        let pulse = Pulse::new(self.longest_turn);
        let readiness = Readiness::new();
        let ready = readiness.handle(self.ready);
        checks.livez(self.name, pulse.clone());
        checks.readyz("components", readiness);
        Ok((checks.build()?, pulse, ready))
    }
}

/// Serves pages in the background until `over`, if they are to be served at all.
async fn serve(
    address: &BindAddress,
    what: &str,
    pages: Router,
    over: &CancellationToken,
) -> Result<()> {
    if let Some(listener) = address.listen(&format!("--{what}-bind-addr")).await? {
        info!("listening on http://{} for {what}", listener.local_addr()?);
        let over = over.clone().cancelled_owned();
        tokio::spawn(kelpie_health::serve(listener, pages, over));
    }
    Ok(())
}
