//! The prober and the weeder as they run in production, on a simulated seed.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use axum::Router;
use kelpie_health::{Pulse, Readiness};
use kelpie_kube::WallClock;
use kelpie_kube::seed::Seed;
use kelpie_prober::Prober;
use kelpie_sim::{Landscape, Link, Order, Process};
use kelpie_weeder::Weeder;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use crate::cli::Guise;
use crate::config_file;

/// How they are known.
const PROBER: &str = "kelpie-prober";
const WEEDER: &str = "kelpie-weeder";

/// Both; the prober does what the script says happens to it.
pub(super) struct Watchdog {
    landscape: Landscape,
    /// `None`: it has crashed.
    prober: Option<Replica>,
    weeder: Replica,
}

/// It shows what it would serve: its numbers and its state.
type Replica = Process<Router>;

impl Watchdog {
    /// To be called in the stage's runtime.
    pub(super) fn start(landscape: &Landscape) -> Result<Self> {
        Ok(Self {
            landscape: landscape.clone(),
            prober: Some(prober(landscape)?),
            weeder: weeder(landscape)?,
        })
    }

    /// Does what the script says.
    pub(super) fn follow_orders(&mut self) -> Result<()> {
        for order in self.landscape.take_orders() {
            match order {
                Order::Start if self.prober.is_some() => {}
                Order::Start => self.prober = Some(prober(&self.landscape)?),
                Order::Crash => self.prober.take().into_iter().for_each(Process::crash),
                Order::Pause => self.prober.iter().for_each(Process::pause),
                Order::Resume => self.prober.iter().for_each(Process::resume),
            }
        }
        Ok(())
    }

    /// What the prober, if it is there, and the weeder have to show.
    pub(super) fn pages(&self) -> (Option<Router>, Router) {
        let prober = self.prober.as_ref().map(|prober| prober.shows.clone());
        (prober, self.weeder.shows.clone())
    }
}

fn prober(landscape: &Landscape) -> Result<Replica> {
    let config = config_file::gardeners_prober(Guise::Kelpie)?;
    let options = kelpie_prober::Options {
        dry_run: false,
        fresh_connections: false,
        election: None,
        identity: PROBER.to_owned(),
        event_namespace: "garden".to_owned(),
    };
    let (link, seed) = connect(landscape, PROBER)?;
    let mut registry = Registry::default();
    let prober = Prober::new(config, options, seed, &mut registry);
    let pages = kelpie_health::metrics(Arc::new(registry)).merge(prober.routes());
    let over = CancellationToken::new();
    let work = prober.run(over.clone(), pulse(), Readiness::new().handle("seed"));
    Ok(Process::start(link, over, pages, work))
}

fn weeder(landscape: &Landscape) -> Result<Replica> {
    let config = config_file::gardeners_weeder(Guise::Kelpie)?;
    let options = kelpie_weeder::Options {
        dry_run: false,
        namespace: None,
        election: None,
        identity: WEEDER.to_owned(),
    };
    let (link, seed) = connect(landscape, WEEDER)?;
    let mut registry = Registry::default();
    let over = CancellationToken::new();
    let weeder = Weeder::new(config, options, seed, &mut registry, over.clone());
    let pages = kelpie_health::metrics(Arc::new(registry)).merge(weeder.routes());
    let work = weeder.run(pulse(), Readiness::new().handle("seed"));
    Ok(Process::start(link, over, pages, work))
}

fn pulse() -> Pulse {
    Pulse::new(Duration::from_mins(1))
}

fn connect(landscape: &Landscape, name: &str) -> Result<(Link, Seed)> {
    let link = landscape.link(name);
    let wall = WallClock::new(landscape.watchdog_clock());
    let seed = Seed::inside(&link.network(), wall, &landscape.seed_url(), name)?;
    Ok((link, seed))
}
