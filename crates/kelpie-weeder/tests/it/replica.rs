//! A replica of the weeder on a simulated landscape.

use std::time::Duration;

use kelpie_config::{Strictness, weeder};
use kelpie_health::{LoopHeartbeat, Readiness};
use kelpie_kube::SystemClock;
use kelpie_kube::client::ClusterClient;
use kelpie_sim::{Landscape, SimProcess};
use kelpie_weeder::{Weeder, WeederOptions};
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

/// The configuration that Gardener ships.
const CONFIG: &str = include_str!("../../../../docs/examples/weeder.yaml");

/// The options of a single replica for all namespaces.
pub(crate) fn single_replica(name: &str) -> WeederOptions {
    WeederOptions {
        dry_run: false,
        namespace: None,
        election: None,
        identity: name.to_owned(),
    }
}

/// Starts a replica with Gardener's configuration and the given options.
pub(crate) fn weeder(landscape: &Landscape, options: WeederOptions) -> SimProcess<Registry> {
    weeder_with(landscape, CONFIG, options)
}

/// Starts a replica.
pub(crate) fn weeder_with(
    landscape: &Landscape,
    config: &str,
    options: WeederOptions,
) -> SimProcess<Registry> {
    let name = options.identity.clone();
    let link = landscape.link(&name);
    let wall = SystemClock::new(landscape.watchdog_clock());
    let seed =
        ClusterClient::in_process(&link.network(), wall, &landscape.seed_url(), &name).unwrap();
    let config = weeder::parse(config.as_bytes(), Strictness::Strict);
    let config = config.unwrap().value;
    let mut registry = Registry::default();
    let shutdown = CancellationToken::new();
    let weeder = Weeder::new(config, options, seed, &mut registry, shutdown.clone());
    let heartbeat = LoopHeartbeat::new(Duration::from_mins(1));
    let ready = Readiness::new().handle("seed");
    SimProcess::start(link, shutdown, registry, weeder.run(heartbeat, ready))
}
