//! The prober and the weeder as they run in production, on a simulated seed.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use axum::Router;
use kelpie_config::{ProberConfig, Strictness};
use kelpie_core::Time;
use kelpie_core::prober::guard::GuardSettings;
use kelpie_health::{LoopHeartbeat, Readiness};
use kelpie_kube::SystemClock;
use kelpie_kube::client::ClusterClient;
use kelpie_kube::leader::{ElectionSettings, LeaseName};
use kelpie_prober::Prober;
use kelpie_sim::{Landscape, Platform, ProcessLink, ReplicaCommand, ReplicaSet, SimProcess};
use kelpie_weeder::Weeder;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use crate::cli::Invocation;
use crate::component::default_election;
use crate::{config_file, prober, weeder};

/// The names under which the seed knows the components.
const PROBER: &str = "kelpie-prober";
const WEEDER: &str = "kelpie-weeder";

/// The namespace of the Leases.
const NAMESPACE: &str = "garden";

/// The configuration that Gardener deploys.
pub(super) const GARDENER_WEEDER: &str = include_str!("../../../../docs/examples/weeder.yaml");

/// The example of a configuration for Cluster API.
const CLUSTER_API_PROBER: &str = include_str!("../../../../docs/examples/prober-cluster-api.yaml");

/// The replicas of the prober and of the weeder. Faults of the scenario can crash and pause those
/// of the prober.
pub(super) struct Watchdog {
    landscape: Landscape,
    pub(super) protection: Protection,
    probers: ReplicaSet<Router>,
    weeders: ReplicaSet<Router>,
    changes: Vec<ReplicaChange>,
}

/// The means by which the prober protects the clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protection {
    /// It fences the targets of the platform's configuration.
    Fence,
    /// It guards the nodes, and scales nothing.
    Guard,
}

/// A component with its HTTP routes: metrics and state page.
type ComponentProcess = SimProcess<Router>;

/// A change of a replica of the prober, which the simulation made.
#[derive(Clone, Debug)]
pub(super) struct ReplicaChange {
    pub(super) at: Time,
    pub(super) replica: Arc<str>,
    pub(super) state: ReplicaState,
}

/// The state of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplicaState {
    Started,
    Crashed,
    Paused,
    Resumed,
}

impl Watchdog {
    /// Starts `count` replicas of both components. Must be called in the simulation's runtime.
    pub(super) fn start(
        landscape: &Landscape,
        count: usize,
        protection: Protection,
    ) -> Result<Self> {
        let mut watchdog = Self {
            landscape: landscape.clone(),
            protection,
            probers: ReplicaSet::new(count, prober::LEASE),
            weeders: ReplicaSet::new(count, weeder::LEASE),
            changes: Vec::new(),
        };
        for _ in 0..count {
            watchdog.start_prober()?;
            watchdog.start_weeder()?;
        }
        Ok(watchdog)
    }

    /// Applies the commands of the scenario's faults to the prober.
    pub(super) fn apply_commands(&mut self) -> Result<()> {
        for command in self.landscape.take_commands() {
            let (replica, state) = match command {
                ReplicaCommand::Start => {
                    self.start_prober()?;
                    continue;
                }
                ReplicaCommand::Crash => (
                    self.probers.crash_leader(&self.landscape),
                    ReplicaState::Crashed,
                ),
                ReplicaCommand::Pause => {
                    let pause = ProcessLink::pause;
                    let paused = self.probers.pause_leader(&self.landscape, pause);
                    (paused, ReplicaState::Paused)
                }
                ReplicaCommand::Resume => (self.probers.resume_first(), ReplicaState::Resumed),
            };
            if let Some(replica) = replica {
                self.record(&replica, state);
            }
        }
        Ok(())
    }

    /// Takes the changes of the prober's replicas since the last call.
    pub(super) fn take_changes(&mut self) -> Vec<ReplicaChange> {
        std::mem::take(&mut self.changes)
    }

    /// Returns the HTTP routes of the replicas that run, by their names.
    pub(super) fn routes(&self) -> Vec<(String, Router)> {
        let components = self.probers.running().iter().chain(self.weeders.running());
        let routes = components.map(|component| {
            let name = short_name(component.link.name()).to_owned();
            (name, component.exposed.clone())
        });
        routes.collect()
    }

    /// Starts a replica of the prober, if one is missing.
    fn start_prober(&mut self) -> Result<()> {
        if let Some(name) = missing_replica(&self.probers, PROBER) {
            let election = election(&self.probers, &name, prober::LEASE);
            let process = start_prober(&self.landscape, &name, election, self.protection)?;
            self.probers.add(process);
            self.record(&name, ReplicaState::Started);
        }
        Ok(())
    }

    /// Starts a replica of the weeder, if one is missing.
    fn start_weeder(&mut self) -> Result<()> {
        if let Some(name) = missing_replica(&self.weeders, WEEDER) {
            let election = election(&self.weeders, &name, weeder::LEASE);
            let process = start_weeder(&self.landscape, &name, election)?;
            self.weeders.add(process);
        }
        Ok(())
    }

    fn record(&mut self, replica: &str, state: ReplicaState) {
        self.changes.push(ReplicaChange {
            at: self.landscape.now(),
            replica: short_name(replica).into(),
            state,
        });
    }
}

/// Returns the name by which the demo shows a process, such as `prober-0`.
pub(super) fn short_name(process: &str) -> &str {
    process.strip_prefix("kelpie-").unwrap_or(process)
}

/// Returns the name of the next replica, if one is missing. Replicas that elect a leader are
/// numbered, and none has the name of an earlier one.
fn missing_replica(replicas: &ReplicaSet<Router>, component: &str) -> Option<String> {
    let number = replicas.missing()?;
    Some(if replicas.is_elected() {
        format!("{component}-{number}")
    } else {
        component.to_owned()
    })
}

/// Returns the settings of a replica's election, with the defaults of its flags.
fn election(replicas: &ReplicaSet<Router>, name: &str, lease: &str) -> Option<ElectionSettings> {
    replicas.is_elected().then(|| ElectionSettings {
        identity: name.to_owned(),
        ..default_election(NAMESPACE, lease)
    })
}

fn start_prober(
    landscape: &Landscape,
    name: &str,
    election: Option<ElectionSettings>,
    protection: Protection,
) -> Result<ComponentProcess> {
    let config = prober_config(protection, landscape.platform())?;
    let options = kelpie_prober::ProberOptions {
        dry_run: false,
        fresh_connections: false,
        allow_local_clusters: false,
        election,
        lease: LeaseName {
            namespace: NAMESPACE.to_owned(),
            name: crate::prober::LEASE.to_owned(),
        },
        identity: name.to_owned(),
        event_namespace: NAMESPACE.to_owned(),
    };
    let (link, seed) = connect(landscape, name)?;
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

/// Returns the configuration that Gardener deploys; for a guard, without its targets. With Cluster
/// API, returns that of the example, and without a guard only its pauses.
pub(super) fn prober_config(protection: Protection, platform: Platform) -> Result<ProberConfig> {
    let mut config = match platform {
        Platform::Gardener => config_file::gardener_prober(Invocation::Kelpie)?,
        Platform::ClusterApi => {
            let example = CLUSTER_API_PROBER.as_bytes();
            let parsed = kelpie_config::prober::parse(example, Strictness::Strict);
            config_file::built_in(parsed)?
        }
    };
    config.guard = match protection {
        Protection::Fence => None,
        Protection::Guard => Some(GuardSettings::default()),
    };
    if protection == Protection::Guard && platform == Platform::Gardener {
        config.targets.clear();
    }
    Ok(config)
}

fn start_weeder(
    landscape: &Landscape,
    name: &str,
    election: Option<ElectionSettings>,
) -> Result<ComponentProcess> {
    let config = kelpie_config::weeder::parse(GARDENER_WEEDER.as_bytes(), Strictness::Strict);
    let config = config_file::built_in(config)?;
    let options = kelpie_weeder::WeederOptions {
        dry_run: false,
        namespace: None,
        election,
        identity: name.to_owned(),
    };
    let (link, seed) = connect(landscape, name)?;
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
