//! The prober as it watches over a simulated landscape.

use std::time::Duration;

use kelpie_config::{ProberConfig, Strictness, prober};
use kelpie_health::{Pulse, Readiness};
use kelpie_kube::WallClock;
use kelpie_kube::leader::ElectionSettings;
use kelpie_kube::seed::Seed;
use kelpie_prober::{Options, Prober};
use kelpie_sim::{Landscape, Plan, Process};
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

/// By which replicas elect the one that acts.
pub(crate) const LEASE: &str = "dwd-prober-leader-election";

/// Starts a replica of the prober that takes part in an election, or is alone.
pub(crate) fn prober(landscape: &Landscape, name: &str, elected: bool) -> Process<Registry> {
    let link = landscape.link(name);
    let wall = WallClock::new(landscape.watchdog_clock());
    let seed = Seed::inside(&link.network(), wall, &landscape.seed_url(), name).unwrap();
    let election = elected.then(|| ElectionSettings {
        namespace: "garden".into(),
        name: LEASE.into(),
        identity: name.to_owned(),
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
    });
    let options = Options {
        dry_run: false,
        fresh_connections: false,
        election,
        identity: name.to_owned(),
        event_namespace: "garden".into(),
    };
    let mut registry = Registry::default();
    let prober = Prober::new(config(), options, seed, &mut registry);
    let over = CancellationToken::new();
    let pulse = Pulse::new(Duration::from_mins(1));
    let ready = Readiness::new().handle("seed");
    let work = prober.run(over.clone(), pulse, ready);
    Process::start(link, over, registry, work)
}

/// What Gardener ships.
fn config() -> ProberConfig {
    let [kcm, mcm, autoscaler] = Plan::CONTROLLERS;
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
kcmNodeMonitorGraceDuration: 40s
dependentResourceInfos:
{}{}{}",
        Plan::SECRET,
        target(kcm, false, 0, 1),
        target(mcm, false, 1, 0),
        target(autoscaler, true, 2, 0),
    );
    prober::parse(yaml.as_bytes(), Strictness::Strict)
        .unwrap()
        .value
}
