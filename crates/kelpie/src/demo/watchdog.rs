//! The prober and the weeder as they run in production, on a simulated seed.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use axum::Router;
use kelpie_config::Strictness;
use kelpie_health::{LoopHeartbeat, Readiness};
use kelpie_kube::SystemClock;
use kelpie_kube::client::ClusterClient;
use kelpie_kube::leader::LeaseName;
use kelpie_prober::Prober;
use kelpie_sim::{Landscape, ProcessLink, ReplicaCommand, SimProcess};
use kelpie_weeder::Weeder;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use crate::cli::Invocation;
use crate::config_file;

/// The names under which the seed knows the components.
const PROBER: &str = "kelpie-prober";
const WEEDER: &str = "kelpie-weeder";

/// The configuration that Gardener deploys.
pub(super) const GARDENER_WEEDER: &str = include_str!("../../../../docs/examples/weeder.yaml");

/// The prober and the weeder. Faults of the scenario can crash and pause the prober.
pub(super) struct Watchdog {
    landscape: Landscape,
    /// `None` after a crash.
    prober: Option<ComponentProcess>,
    weeder: ComponentProcess,
}

/// A component with its HTTP routes: metrics and state page.
type ComponentProcess = SimProcess<Router>;

impl Watchdog {
    /// Starts both components. Must be called in the simulation's runtime.
    pub(super) fn start(landscape: &Landscape) -> Result<Self> {
        Ok(Self {
            landscape: landscape.clone(),
            prober: Some(start_prober(landscape)?),
            weeder: start_weeder(landscape)?,
        })
    }

    /// Applies the commands of the scenario's faults to the prober.
    pub(super) fn apply_commands(&mut self) -> Result<()> {
        for command in self.landscape.take_commands() {
            match (command, &self.prober) {
                (ReplicaCommand::Start, None) => {
                    self.prober = Some(start_prober(&self.landscape)?);
                }
                (ReplicaCommand::Crash, _) => {
                    self.prober.take().into_iter().for_each(SimProcess::crash);
                }
                (ReplicaCommand::Pause, Some(prober)) => prober.link.pause(),
                (ReplicaCommand::Resume, Some(prober)) => prober.link.resume(),
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the HTTP routes of the components that run.
    pub(super) fn routes(&self) -> Vec<(&'static str, Router)> {
        let prober = self.prober.iter().map(|prober| ("prober", prober));
        let components = prober.chain([("weeder", &self.weeder)]);
        let routes = components.map(|(name, component)| (name, component.exposed.clone()));
        routes.collect()
    }
}

fn start_prober(landscape: &Landscape) -> Result<ComponentProcess> {
    let config = config_file::gardener_prober(Invocation::Kelpie)?;
    let options = kelpie_prober::ProberOptions {
        dry_run: false,
        fresh_connections: false,
        election: None,
        lease: LeaseName {
            namespace: "garden".to_owned(),
            name: crate::prober::LEASE.to_owned(),
        },
        identity: PROBER.to_owned(),
        event_namespace: "garden".to_owned(),
    };
    let (link, seed) = connect(landscape, PROBER)?;
    let mut registry = Registry::default();
    let prober = Prober::new(config, options, seed, &mut registry);
    let routes = kelpie_health::metrics(Arc::new(registry)).merge(prober.routes());
    let shutdown = CancellationToken::new();
    let run = prober.run(
        shutdown.clone(),
        heartbeat(),
        Readiness::new().handle("seed"),
    );
    Ok(SimProcess::start(link, shutdown, routes, run))
}

fn start_weeder(landscape: &Landscape) -> Result<ComponentProcess> {
    let config = kelpie_config::weeder::parse(GARDENER_WEEDER.as_bytes(), Strictness::Strict);
    let config = config_file::built_in(config)?;
    let options = kelpie_weeder::WeederOptions {
        dry_run: false,
        namespace: None,
        election: None,
        identity: WEEDER.to_owned(),
    };
    let (link, seed) = connect(landscape, WEEDER)?;
    let mut registry = Registry::default();
    let shutdown = CancellationToken::new();
    let weeder = Weeder::new(config, options, seed, &mut registry, shutdown.clone());
    let routes = kelpie_health::metrics(Arc::new(registry)).merge(weeder.routes());
    let run = weeder.run(heartbeat(), Readiness::new().handle("seed"));
    Ok(SimProcess::start(link, shutdown, routes, run))
}

fn heartbeat() -> LoopHeartbeat {
    LoopHeartbeat::new(Duration::from_mins(1))
}

fn connect(landscape: &Landscape, name: &str) -> Result<(ProcessLink, ClusterClient)> {
    let link = landscape.link(name);
    let clock = SystemClock::new(landscape.watchdog_clock());
    let seed = ClusterClient::in_process(&link.network(), clock, &landscape.seed_url(), name)?;
    Ok((link, seed))
}
