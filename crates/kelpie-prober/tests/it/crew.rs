//! Watchdogs that watch over a simulated landscape.

use std::time::Duration;

use kelpie_config::{ProberConfig, Strictness, prober};
use kelpie_health::{Pulse, Readiness};
use kelpie_kube::WallClock;
use kelpie_kube::leader::ElectionSettings;
use kelpie_kube::seed::{Seed, SeedOptions};
use kelpie_prober::{Options, Prober};
use kelpie_sim::{Landscape, Link, Plan};
use prometheus_client::registry::Registry;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A replica of the prober.
pub(crate) struct Watchdog {
    pub(crate) link: Link,
    pub(crate) registry: Registry,
    over: CancellationToken,
    running: JoinHandle<()>,
}

impl Watchdog {
    /// Starts a replica that takes part in an election, or is alone.
    pub(crate) fn start(landscape: &Landscape, name: &str, elected: bool) -> Self {
        let link = landscape.link(name);
        let options = SeedOptions {
            kubeconfig: None,
            qps: 20.0,
            burst: 100,
            user_agent: name.to_owned(),
        };
        let wall = WallClock::new(landscape.watchdog_clock());
        let url = landscape.seed_url();
        let seed = Seed::inside(&link.network(), wall, &url, name, &options).unwrap();
        let election = elected.then(|| ElectionSettings {
            namespace: "garden".into(),
            name: "dwd-prober-leader-election".into(),
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
        let running = tokio::spawn(prober.run(over.clone(), pulse, ready));
        Self {
            link,
            registry,
            over,
            running,
        }
    }

    /// It dies at once: whatever it was about to say is never heard.
    pub(crate) fn crash(self) {
        self.link.cut();
        self.over.cancel();
    }

    /// It ends as it should.
    pub(crate) async fn end(self) {
        self.over.cancel();
        self.running.await.unwrap();
    }
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
