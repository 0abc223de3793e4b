//! A prober in this process, on simulated clusters.

use std::time::Duration;

use axum::Router;
use kelpie_config::{Strictness, prober};
use kelpie_health::{LoopHeartbeat, Readiness};
use kelpie_kube::SystemClock;
use kelpie_kube::client::ClusterClient;
use kelpie_kube::leader::LeaseName;
use kelpie_prober::{LEADER_LEASE, Prober, ProberOptions};
use kelpie_sim::{Landscape, LandscapePlan, SimProcess};
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

/// Starts a prober that judges its clusters after a second. Returns it with its pages.
pub(super) fn start_prober(landscape: &Landscape, name: &str) -> (SimProcess<()>, Router) {
    let link = landscape.link(name);
    let wall = SystemClock::new(landscape.watchdog_clock());
    let seed = ClusterClient::in_process(&link.network(), wall, &landscape.seed_url(), name);
    let options = ProberOptions {
        dry_run: false,
        fresh_connections: false,
        allow_local_clusters: false,
        election: None,
        lease: LeaseName {
            namespace: "garden".into(),
            name: LEADER_LEASE.into(),
        },
        identity: name.to_owned(),
        event_namespace: "garden".into(),
    };
    let [kcm, mcm, _] = LandscapePlan::CONTROLLERS;
    let target = |name: &str| {
        format!(
            "- ref: {{apiVersion: apps/v1, kind: Deployment, name: {name}}}\n  \
             scaleUp: {{level: 0}}\n  scaleDown: {{level: 0}}\n"
        )
    };
    let config = format!(
        "kubeConfigSecretName: {}\ninitialDelay: 1s\nkcmNodeMonitorGraceDuration: 40s\n\
         dependentResourceInfos:\n{}{}",
        LandscapePlan::SECRET,
        target(kcm),
        target(mcm),
    );
    let config = prober::parse(config.as_bytes(), Strictness::Strict).unwrap();
    let mut registry = Registry::default();
    let prober = Prober::new(config.value, options, seed.unwrap(), &mut registry);
    let pages = prober.routes();
    let shutdown = CancellationToken::new();
    let heartbeat = LoopHeartbeat::new(Duration::from_mins(1));
    let ready = Readiness::new().handle("seed");
    let work = prober.run(shutdown.clone(), heartbeat, ready);
    (SimProcess::start(link, shutdown, (), work), pages)
}
