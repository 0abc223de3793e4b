//! An outage of a whole seed: how long a prober takes until all clusters are fenced, and restored.
//!
//! A real seed API server; the nodes of all clusters live on one real API server. No
//! kube-controller-manager runs: what counts is when its Deployment is scaled. Any prober can be
//! measured: `--prober` is its command line, with `{config}` and `{kubeconfig}` for the two files.

#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use kelpie_e2e::landscape::{Contender, Pace, ProberConfig};
use kelpie_e2e::outage::load::Meter;
use kelpie_e2e::outage::{Extent, Outage};
use tokio::time::{sleep, sleep_until};

/// Seed-wide outage
#[derive(Parser)]
struct Arguments {
    /// Clusters of the seed
    #[arg(long, default_value_t = 200)]
    clusters: usize,
    /// Nodes of each cluster
    #[arg(long, default_value_t = 50)]
    nodes: usize,
    /// Seconds from the scale call until a pod is gone
    #[arg(long, default_value_t = 2)]
    pod_stop: u64,
    /// How long the prober settles before the outage, in seconds
    #[arg(long, default_value_t = 75)]
    settle: u64,
    /// Simulate the shoots' API server: a real one, asked by all clusters every second, takes more of a
    /// small machine than the seed's
    #[arg(long)]
    simulated_shoots: bool,
    /// Another prober's command line instead of ours
    #[arg(long, value_name = "COMMAND")]
    prober: Option<String>,
    /// What `cargo bench` passes on
    #[arg(long, hide = true)]
    bench: bool,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let extent = Extent {
        clusters: arguments.clusters,
        nodes: arguments.nodes,
        pace: Pace::REAL,
        pod_stop: Duration::from_secs(arguments.pod_stop),
        simulated: arguments.simulated_shoots,
    };
    println!("starting a seed with {} clusters", arguments.clusters);
    let outage = Outage::prepare(extent).await?;
    let command = arguments.prober.unwrap_or_default();
    let command: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
    let config = ProberConfig::gardeners();
    let prober = Contender::start(&command, &config, &outage.kubeconfig()?, None).await?;
    println!("settling for {} s", arguments.settle);
    sleep(Duration::from_secs(arguments.settle)).await;

    let struck = outage.strike().await?;
    println!("all clusters are cut off");
    sleep_until(struck.first_trip()).await;
    let before = Meter::read(&outage, &prober.process).await?;
    let fences = outage.fenced(&struck).await?;
    let load = before.until(Meter::read(&outage, &prober.process).await?);
    println!("\n{fences}\n{load}");

    sleep(extent.pace.grace).await;
    let before = Meter::read(&outage, &prober.process).await?;
    let restores = outage.recover().await?;
    let load = before.until(Meter::read(&outage, &prober.process).await?);
    println!("{restores}\n{load}");
    Ok(())
}
