//! A replica of the prober on a simulated landscape.

use std::time::Duration;

use axum::Router;
use kelpie_config::{ProberConfig, Strictness, prober};
use kelpie_health::{LoopHeartbeat, Readiness};
use kelpie_kube::SystemClock;
use kelpie_kube::client::ClusterClient;
use kelpie_kube::leader::{ElectionSettings, LeaseName};
use kelpie_prober::{Prober, ProberOptions};
use kelpie_sim::{Landscape, LandscapePlan, Platform, SimProcess};
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use crate::recording;

/// The Lease by which replicas elect a leader.
pub(crate) const LEASE: &str = "dwd-prober-leader-election";

/// The Secret with a cluster's kubeconfig for its external address.
pub(crate) const EXTERNAL_SECRET: &str = "external-kubeconfig";

/// Starts a replica, which runs for election if `elected`.
pub(crate) fn prober(landscape: &Landscape, name: &str, elected: bool) -> SimProcess<Registry> {
    start(landscape, name, elected, "").0
}

/// Starts a replica, and returns its pages too.
pub(crate) fn prober_with_pages(
    landscape: &Landscape,
    name: &str,
    elected: bool,
) -> (SimProcess<Registry>, Router) {
    start(landscape, name, elected, "")
}

/// Starts a replica that also keeps the guards of its clusters.
pub(crate) fn prober_with_guard(
    landscape: &Landscape,
    name: &str,
    elected: bool,
) -> SimProcess<Registry> {
    start(landscape, name, elected, "guard: {}\n").0
}

/// Starts a replica that is not elected and probes the external paths too.
pub(crate) fn prober_with_external_paths(
    landscape: &Landscape,
    name: &str,
) -> SimProcess<Registry> {
    let external = format!("externalKubeConfigSecretName: {EXTERNAL_SECRET}\n");
    start(landscape, name, false, &external).0
}

fn start(
    landscape: &Landscape,
    name: &str,
    elected: bool,
    more_config: &str,
) -> (SimProcess<Registry>, Router) {
    let link = landscape.link(name);
    let wall = SystemClock::new(landscape.watchdog_clock());
    let seed =
        ClusterClient::in_process(&link.network(), wall, &landscape.seed_url(), name).unwrap();
    let election = elected.then(|| ElectionSettings {
        namespace: "garden".into(),
        name: LEASE.into(),
        identity: name.to_owned(),
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
    });
    let options = ProberOptions {
        dry_run: false,
        fresh_connections: false,
        allow_local_clusters: false,
        election,
        lease: LeaseName {
            namespace: "garden".into(),
            name: LEASE.into(),
        },
        identity: name.to_owned(),
        event_namespace: "garden".into(),
    };
    let mut registry = Registry::default();
    let config = match landscape.platform() {
        Platform::Gardener => config(more_config),
        Platform::ClusterApi => parse(&format!("source: {{clusterAPI: {{}}}}\n{more_config}")),
    };
    let mut prober = Prober::new(config, options, seed, &mut registry);
    if let Some(settings) = recording::next_record() {
        let (recorded, end) = prober.recording(&settings, name).unwrap();
        prober = recorded;
        recording::started(end);
    }
    let shutdown = CancellationToken::new();
    let heartbeat = LoopHeartbeat::new(Duration::from_mins(1));
    let ready = Readiness::new().handle("seed");
    let pages = prober.routes();
    let work = prober.run(shutdown.clone(), heartbeat, ready);
    (SimProcess::start(link, shutdown, registry, work), pages)
}

/// Returns the configuration that Gardener ships, with the lines of `more`.
fn config(more: &str) -> ProberConfig {
    let [kcm, mcm, autoscaler] = LandscapePlan::CONTROLLERS;
    let target = |name: &str, optional: bool, up: u32, down: u32| {
        format!(
            "- ref: {{apiVersion: apps/v1, kind: Deployment, name: {name}}}
  optional: {optional}
  scaleUp: {{level: {up}}}
  scaleDown: {{level: {down}}}
"
        )
    };
    let yaml = format!(
        "kubeConfigSecretName: {}
{more}kcmNodeMonitorGraceDuration: 40s
dependentResourceInfos:
{}{}{}",
        LandscapePlan::SECRET,
        target(kcm, false, 0, 1),
        target(mcm, false, 1, 0),
        target(autoscaler, true, 2, 0),
    );
    parse(&yaml)
}

fn parse(yaml: &str) -> ProberConfig {
    let parsed = prober::parse(yaml.as_bytes(), Strictness::Strict);
    parsed.unwrap().value
}
