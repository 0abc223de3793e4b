//! Servers of a component: metrics, state page, health checks.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use axum::Router;
use clap::Args;
use kelpie_health::{Health, HealthSettings, LoopHeartbeat, Readiness, ReadyHandle};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::bind::BindAddress;

/// The loop that follows the seed turns at least every 5 s.
const LONGEST_TURN: Duration = Duration::from_mins(1);

/// Flags of the servers.
#[derive(Args)]
#[command(next_help_heading = "Serving (HOST:PORT; :PORT for all interfaces; 0 for nothing)")]
pub(crate) struct ServingFlags {
    /// Address of /metrics and /debug/state
    #[arg(
        long = "metrics-bind-addr",
        value_name = "ADDR",
        default_value = ":9643"
    )]
    metrics: BindAddress,

    /// Address of /livez, /readyz and /healthz
    #[arg(
        long = "health-bind-addr",
        value_name = "ADDR",
        default_value = ":9644"
    )]
    health: BindAddress,

    /// Ignored; accepted for compatibility with dependency-watchdog
    #[arg(long = "pprof-bind-addr", value_name = "ADDR")]
    _pprof: Option<String>,
}

/// The main loop of a component, and the condition for its readiness.
pub(crate) struct Loop {
    /// The name of the livez check.
    pub(crate) name: &'static str,
    pub(crate) longest_turn: Duration,
    /// The name of the readyz component, usually the cluster that has to be known.
    pub(crate) ready: &'static str,
}

/// The servers of a component that does not run yet.
pub(crate) struct Served {
    heartbeat: LoopHeartbeat,
    ready: ReadyHandle,
    over: CancellationToken,
}

impl ServingFlags {
    /// Starts to serve metrics, `state` and the health checks in the background.
    pub(crate) async fn open(
        &self,
        mut registry: Registry,
        state: Router,
        turning: &Loop,
        dry_run: bool,
    ) -> Result<Served> {
        let (health, heartbeat, ready) = turning.checks(&mut registry)?;
        register_dry_run(&mut registry).set(dry_run.into());
        let numbers = kelpie_health::metrics(Arc::new(registry)).merge(state);
        let checks = kelpie_health::routes(health.clone()).merge(kelpie_health::healthz(health));
        let over = CancellationToken::new();
        serve(&self.metrics, "metrics", numbers, &over).await?;
        serve(&self.health, "health", checks, &over).await?;
        Ok(Served {
            heartbeat,
            ready,
            over,
        })
    }
}

impl Served {
    /// Runs the component to its end. The servers answer until then.
    pub(crate) async fn during<F: Future<Output = ()>>(
        self,
        component: impl FnOnce(LoopHeartbeat, ReadyHandle) -> F,
    ) {
        component(self.heartbeat, self.ready).await;
        self.over.cancel();
        info!("stopped");
    }
}

impl Loop {
    /// The loop of a component that follows the seed.
    pub(crate) const fn of_seed(name: &'static str) -> Self {
        Self {
            name,
            longest_turn: LONGEST_TURN,
            ready: "seed",
        }
    }

    /// Creates the checks of livez and readyz, with their handles.
    pub(crate) fn checks(
        &self,
        registry: &mut Registry,
    ) -> Result<(Health, LoopHeartbeat, ReadyHandle)> {
        let mut checks = Health::builder(HealthSettings::default(), registry);
        let heartbeat = LoopHeartbeat::new(self.longest_turn);
        let readiness = Readiness::new();
        let ready = readiness.handle(self.ready);
        checks.livez(self.name, heartbeat.clone());
        checks.readyz("components", readiness);
        Ok((checks.build()?, heartbeat, ready))
    }
}

/// Registers the metric of a dry run, which never leads: alerts must not wait for its leader.
pub(crate) fn register_dry_run(registry: &mut Registry) -> Gauge {
    let dry_run = Gauge::default();
    registry.register(
        "kelpie_dry_run",
        "1 if this replica decides and reports, but writes nothing and never leads, otherwise 0",
        dry_run.clone(),
    );
    dry_run
}

/// Serves pages in the background until `over`, unless the address is disabled.
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
