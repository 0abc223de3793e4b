//! A race between a prober and real kube-controller-managers.
//!
//! The seed and each shoot cluster have a real API server. Each shoot cluster has a real
//! kube-controller-manager, which stops when its Deployment in the seed is scaled down, and
//! kubelets that are cut off at random times. `--prober` runs another prober: its command line,
//! with `{config}` and `{kubeconfig}` for the two files.

#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use kelpie_e2e::landscape::{AnyProber, ProberConfigFile, Timings};
use kelpie_e2e::race::{Race, RaceOptions, RaceTrial, report};

/// Race between a prober and kube-controller-manager
#[derive(Parser)]
struct RaceArgs {
    /// Number of partitions, divided among the shoot clusters
    #[arg(long, default_value_t = 12)]
    trials: usize,
    /// Number of shoot clusters, each with its own servers
    #[arg(long, default_value_t = 4)]
    shoots: usize,
    /// Numbers of nodes, assigned to the shoot clusters in turn
    #[arg(long, value_delimiter = ',', default_value = "2,3,20,100")]
    nodes: Vec<usize>,
    /// Seconds from scaling down until a pod is gone; also reported for a second less and more
    #[arg(long, default_value_t = 2)]
    pod_stop: u64,
    /// Seconds to wait before the first partition
    #[arg(long, default_value_t = 75)]
    settle: u64,
    /// Seed of the random number generators
    #[arg(long = "seed", value_name = "SEED", default_value_t = 1)]
    rng_seed: u64,
    /// Command line of another prober to run instead of Kelpie
    #[arg(long, value_name = "COMMAND")]
    prober: Option<String>,
    /// File for the trials as JSON; the log of the prober goes next to it
    #[arg(long, default_value = "race.json")]
    out: PathBuf,
    /// Passed by `cargo bench`, and ignored
    #[arg(long, hide = true)]
    bench: bool,
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = RaceArgs::parse();
    let options = RaceOptions {
        timings: Timings::REAL,
        node_counts: args.nodes.clone(),
        clusters: args.shoots,
        pod_stop: Duration::from_secs(args.pod_stop),
        settle: Duration::from_secs(args.settle),
        rng_seed: args.rng_seed,
    };
    let command = args.prober.unwrap_or_default();
    let command: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
    println!("starting a seed and {} shoot clusters", args.shoots);
    let race = Race::start(&options).await?;
    let config = ProberConfigFile::gardener_defaults();
    let log = args.out.with_extension("log");
    let kubeconfig = race.kubeconfig()?;
    let prober = AnyProber::start(&command, &config, &kubeconfig, Some(&log)).await?;
    println!("waiting for {} s", args.settle);
    let done = AtomicUsize::new(0);
    let on_trial = |trial: &RaceTrial| {
        let number = done.fetch_add(1, Ordering::Relaxed) + 1;
        println!("[{number:>3}/{}] {}", args.trials, trial.line());
    };
    let trials = race.run(args.trials, on_trial).await?;
    drop(prober);
    println!("\n{}", report::table(&trials));
    let text = serde_json::to_string_pretty(&report::json(&command, &trials))?;
    std::fs::write(&args.out, text)?;
    println!("\nall trials are in {}", args.out.display());
    Ok(())
}
