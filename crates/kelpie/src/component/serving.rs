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

impl ServingFlags {
    /// Serves in the background until `over`: metrics and `state`, and the health checks.
    pub(crate) async fn start(
        &self,
        registry: Registry,
        state: Router,
        health: Health,
        over: &CancellationToken,
    ) -> Result<()> {
        let numbers = kelpie_health::metrics(Arc::new(registry)).merge(state);
        let checks = kelpie_health::routes(health.clone()).merge(kelpie_health::healthz(health));
        serve(&self.metrics, "metrics", numbers, over).await?;
        serve(&self.health, "health", checks, over).await
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

/// The checks of livez and readyz, with their handles; `turning`: the loop that must not stop.
pub(crate) fn checks(
    registry: &mut Registry,
    turning: &str,
) -> Result<(Health, Pulse, ReadyHandle)> {
    checks_of(registry, turning, LONGEST_TURN, "seed")
}

/// The same for a loop that turns at its own pace, on another cluster than a seed.
pub(crate) fn checks_of(
    registry: &mut Registry,
    turning: &str,
    longest_turn: Duration,
    cluster: &str,
) -> Result<(Health, Pulse, ReadyHandle)> {
    let mut checks = Health::builder(Settings::default(), registry);
    let pulse = Pulse::new(longest_turn);
    let readiness = Readiness::new();
    let ready = readiness.handle(cluster);
    checks.livez(turning, pulse.clone());
    checks.readyz("components", readiness);
    Ok((checks.build()?, pulse, ready))
}
