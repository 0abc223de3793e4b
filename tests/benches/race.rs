//! The race against real kube-controller-managers: which prober is faster.
//!
//! A real seed API server, real shoot API servers, a real kube-controller-manager for each of them that
//! ends with its Deployment in the seed, and kubelets that are cut off at random. Any prober can run:
//! `--prober` is its command line, with `{config}` and `{kubeconfig}` for the two files.

#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use kelpie_e2e::landscape::{Contender, Pace, ProberConfig};
use kelpie_e2e::race::{Course, Race, Trial, report};

/// Race against kube-controller-manager
#[derive(Parser)]
struct Arguments {
    /// Partitions in all, shared among the shoots
    #[arg(long, default_value_t = 12)]
    trials: usize,
    /// Shoots side by side, each with its own servers
    #[arg(long, default_value_t = 4)]
    shoots: usize,
    /// Nodes of the shoots, one size after the other
    #[arg(long, value_delimiter = ',', default_value = "2,3,20,100")]
    nodes: Vec<usize>,
    /// Seconds from the scale call until a pod is gone; a second less and more are reported, too
    #[arg(long, default_value_t = 2)]
    pod_stop: u64,
    /// How long the prober settles at the start, in seconds
    #[arg(long, default_value_t = 75)]
    settle: u64,
    /// What is random follows from it
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Another prober's command line instead of ours
    #[arg(long, value_name = "COMMAND")]
    prober: Option<String>,
    /// Every trial goes here as JSON, the prober's log beside it
    #[arg(long, default_value = "race.json")]
    out: PathBuf,
    /// What `cargo bench` passes on
    #[arg(long, hide = true)]
    bench: bool,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let course = Course {
        pace: Pace::REAL,
        sizes: arguments.nodes.clone(),
        arenas: arguments.shoots,
        pod_stop: Duration::from_secs(arguments.pod_stop),
        settle: Duration::from_secs(arguments.settle),
        seed: arguments.seed,
    };
    let command = arguments.prober.unwrap_or_default();
    let command: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
    println!("starting a seed and {} shoots", arguments.shoots);
    let race = Race::prepare(&course).await?;
    let config = ProberConfig::gardeners();
    let log = arguments.out.with_extension("log");
    let kubeconfig = race.kubeconfig()?;
    let prober = Contender::start(&command, &config, &kubeconfig, Some(&log)).await?;
    println!("settling for {} s", arguments.settle);
    let done = AtomicUsize::new(0);
    let told = |trial: &Trial| {
        let number = done.fetch_add(1, Ordering::Relaxed) + 1;
        println!("[{number:>3}/{}] {}", arguments.trials, trial.line());
    };
    let trials = race.run(arguments.trials, told).await?;
    drop(prober);
    println!("\n{}", report::table(&trials));
    let text = serde_json::to_string_pretty(&report::json(&command, &trials))?;
    std::fs::write(&arguments.out, text)?;
    println!("\n{} has every trial", arguments.out.display());
    Ok(())
}
