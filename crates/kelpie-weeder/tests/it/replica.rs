//! The weeder as it works in a simulated landscape.

use std::time::Duration;

use kelpie_config::{Strictness, weeder};
use kelpie_health::{Pulse, Readiness};
use kelpie_kube::WallClock;
use kelpie_kube::seed::Seed;
use kelpie_sim::{Landscape, Process};
use kelpie_weeder::{Options, Weeder};
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

/// What Gardener ships.
const CONFIG: &str = include_str!("../../../../docs/examples/weeder.yaml");

/// A replica that is alone and looks after all namespaces.
pub(crate) fn alone(name: &str) -> Options {
    Options {
        dry_run: false,
        namespace: None,
        election: None,
        identity: name.to_owned(),
    }
}

/// Starts a replica.
pub(crate) fn weeder(landscape: &Landscape, options: Options) -> Process<Registry> {
    let name = options.identity.clone();
    let link = landscape.link(&name);
    let wall = WallClock::new(landscape.watchdog_clock());
    let seed = Seed::inside(&link.network(), wall, &landscape.seed_url(), &name).unwrap();
    let config = weeder::parse(CONFIG.as_bytes(), Strictness::Strict);
    let config = config.unwrap().value;
    let mut registry = Registry::default();
    let over = CancellationToken::new();
    let weeder = Weeder::new(config, options, seed, &mut registry, over.clone());
    let pulse = Pulse::new(Duration::from_mins(1));
    let ready = Readiness::new().handle("seed");
    Process::start(link, over, registry, weeder.run(pulse, ready))
}
