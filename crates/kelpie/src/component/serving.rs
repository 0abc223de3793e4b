//! Servers of a component: metrics, state page, health checks.
//!
//! They run on a thread of their own, so that nothing that reaches their ports delays the
//! component.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use clap::Args;
use kelpie_health::{Health, HealthSettings, LoopHeartbeat, Readiness, ReadyHandle};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::runtime;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use super::register_process_metrics;
use crate::bind::BindAddress;
use crate::log;

/// The loop that follows the seed turns at least every 5 s.
const LONGEST_TURN: Duration = Duration::from_mins(1);

/// Flags of the servers.
#[derive(Args)]
#[command(next_help_heading = "Serving (HOST:PORT; :PORT for all interfaces; 0 for nothing)")]
pub(crate) struct ServingFlags {
    /// Address of /metrics, and for clients on the same host of /debug/state
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
        log::register_metrics(&mut registry);
        register_process_metrics(&mut registry);
        let state = kelpie_health::loopback_only(state);
        let numbers = kelpie_health::metrics(Arc::new(registry)).merge(state);
        let checks = kelpie_health::routes(health.clone()).merge(kelpie_health::healthz(health));
        let over = CancellationToken::new();
        let mut servers = Vec::new();
        for (address, what, pages) in [
            (&self.metrics, "metrics", numbers),
            (&self.health, "health", checks),
        ] {
            if let Some(listener) = address.listen(&format!("--{what}-bind-addr")).await? {
                info!("listening on http://{} for {what}", listener.local_addr()?);
                servers.push((listener.into_std()?, pages));
            }
        }
        serve(servers, &over)?;
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

/// Serves pages until `over`, on a thread with a runtime of its own.
fn serve(servers: Vec<(std::net::TcpListener, Router)>, over: &CancellationToken) -> Result<()> {
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime of the servers")?;
    let over = over.clone();
    let serve = async move {
        let mut serving = JoinSet::new();
        for (listener, pages) in servers {
            let over = over.clone().cancelled_owned();
            let listener = TcpListener::from_std(listener)?;
            serving.spawn(kelpie_health::serve(listener, pages, over));
        }
        serving.join_all().await.into_iter().collect()
    };
    let run = move || {
        let served: io::Result<()> = runtime.block_on(serve);
        if let Err(error) = served {
            error!("serving metrics and health checks has ended: {error}");
        }
    };
    let thread = thread::Builder::new().name("serving".to_owned());
    thread
        .spawn(run)
        .context("cannot start the serving thread")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpStream};

    use super::*;

    /// The thread of the component is this test's, which waits for the answer without turning its
    /// runtime.
    #[tokio::test]
    async fn busy_component_delays_no_page() {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let pages = kelpie_health::metrics(Arc::new(Registry::default()));
        let over = CancellationToken::new();
        serve(vec![(listener, pages)], &over).unwrap();

        let mut client = TcpStream::connect(address).unwrap();
        client
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let request = b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        client.write_all(request).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        over.cancel();
    }
}
