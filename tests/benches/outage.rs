//! An outage of a whole seed: the time a prober takes to fence all clusters, and to restore them.
//!
//! The seed has a real API server, and the nodes of all clusters share another one. No
//! kube-controller-manager runs: the time of scaling its Deployment counts. `--prober` measures
//! another prober: its command line, with `{config}` and `{kubeconfig}` for the two files.

#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use kelpie_e2e::landscape::{AnyProber, ProberConfigFile, Timings};
use kelpie_e2e::open_files;
use kelpie_e2e::outage::load::LoadSnapshot;
use kelpie_e2e::outage::{Outage, OutageOptions};
use tokio::time::{sleep, sleep_until};

/// Outage of all clusters of a seed
#[derive(Parser)]
struct OutageArgs {
    /// Number of shoot clusters
    #[arg(long, default_value_t = 200)]
    clusters: usize,
    /// Number of nodes of each cluster
    #[arg(long, default_value_t = 50)]
    nodes: usize,
    /// Seconds from scaling down until a pod is gone
    #[arg(long, default_value_t = 2)]
    pod_stop: u64,
    /// Seconds to wait before the outage
    #[arg(long, default_value_t = 75)]
    settle: u64,
    /// Simulate the API server of the shoot clusters: with requests for all clusters each second, a
    /// real one takes more of a small machine than the seed's
    #[arg(long)]
    simulated_shoots: bool,
    /// Command line of another prober to run instead of Kelpie
    #[arg(long, value_name = "COMMAND")]
    prober: Option<String>,
    /// Passed by `cargo bench`, and ignored
    #[arg(long, hide = true)]
    bench: bool,
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = OutageArgs::parse();
    // Each cluster has a connection, at both of its ends.
    println!(
        "open files: at most {} per process",
        open_files::raise_limit()?
    );
    let options = OutageOptions {
        clusters: args.clusters,
        nodes: args.nodes,
        timings: Timings::REAL,
        pod_stop: Duration::from_secs(args.pod_stop),
        simulated: args.simulated_shoots,
    };
    println!("starting a seed with {} clusters", args.clusters);
    let outage = Outage::prepare(options).await?;
    let command = args.prober.unwrap_or_default();
    let command: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
    let config = ProberConfigFile::gardener_defaults();
    let prober = AnyProber::start(&command, &config, &outage.kubeconfig()?, None).await?;
    println!("waiting for {} s", args.settle);
    sleep(Duration::from_secs(args.settle)).await;

    let start = outage.begin().await?;
    println!("all clusters are cut off");
    sleep_until(start.first_trip()).await;
    let before = LoadSnapshot::take(&outage, &prober.process).await?;
    let fences = outage.until_fenced(&start).await?;
    let load = before.until(LoadSnapshot::take(&outage, &prober.process).await?);
    println!("\n{fences}\n{load}");

    sleep(options.timings.grace).await;
    let before = LoadSnapshot::take(&outage, &prober.process).await?;
    let restores = outage.recover().await?;
    let load = before.until(LoadSnapshot::take(&outage, &prober.process).await?);
    println!("{restores}\n{load}");
    Ok(())
}
