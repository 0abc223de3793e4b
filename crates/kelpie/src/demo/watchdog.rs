//! The prober as it runs in production, on a simulated seed.

use std::time::Duration;

use anyhow::Result;
use kelpie_health::{Pulse, Readiness};
use kelpie_kube::WallClock;
use kelpie_kube::seed::{Seed, SeedOptions};
use kelpie_prober::{Options, Prober};
use kelpie_sim::{Landscape, Link, Order, Plan};
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use crate::cli::Guise;
use crate::config_file;

/// How it is known.
const NAME: &str = "kelpie";

/// A prober that does what the script says happens to it.
pub(super) struct Watchdog {
    landscape: Landscape,
    /// `None`: it has crashed.
    alive: Option<Process>,
}

/// As good as one.
struct Process {
    link: Link,
    over: CancellationToken,
}

impl Watchdog {
    /// To be called in the stage's runtime.
    pub(super) fn start(landscape: &Landscape) -> Result<Self> {
        Ok(Self {
            landscape: landscape.clone(),
            alive: Some(start(landscape)?),
        })
    }

    /// Does what the script says.
    pub(super) fn follow_orders(&mut self) -> Result<()> {
        for order in self.landscape.take_orders() {
            match (order, &self.alive) {
                (Order::Start, None) => self.alive = Some(start(&self.landscape)?),
                (Order::Crash, Some(process)) => {
                    process.link.cut();
                    process.over.cancel();
                    self.alive = None;
                }
                (Order::Pause, Some(process)) => process.link.hold(),
                (Order::Resume, Some(process)) => process.link.release(),
                // There is one, or none to which it could happen.
                (_, _) => {}
            }
        }
        Ok(())
    }
}

fn start(landscape: &Landscape) -> Result<Process> {
    let link = landscape.link(NAME);
    let options = SeedOptions {
        kubeconfig: None,
        qps: 20.0,
        burst: 100,
        user_agent: NAME.to_owned(),
    };
    let wall = WallClock::new(landscape.watchdog_clock());
    let seed = Seed::inside(&link.network(), wall, &landscape.seed_url(), NAME, &options)?;
    let mut config = config_file::gardeners(Guise::Kelpie)?;
    Plan::SECRET.clone_into(&mut config.kubeconfig_secret);
    let options = Options {
        dry_run: false,
        fresh_connections: false,
        election: None,
        identity: NAME.to_owned(),
        event_namespace: "garden".to_owned(),
    };
    let prober = Prober::new(config, options, seed, &mut Registry::default());
    let over = CancellationToken::new();
    let pulse = Pulse::new(Duration::from_mins(1));
    let ready = Readiness::new().handle("seed");
    tokio::spawn(prober.run(over.clone(), pulse, ready));
    Ok(Process { link, over })
}
