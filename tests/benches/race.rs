//! A race between a prober and real kube-controller-managers.
//!
//! The seed and each shoot cluster have a real API server. Each shoot cluster has a real
//! kube-controller-manager, which stops when its Deployment in the seed is scaled down, and
//! kubelets that are cut off at random times. `--prober` runs another prober: its command line,
//! with `{config}` and `{kubeconfig}` for the two files. `--fault` adds a second fault to each
//! partition, through proxies in front of the API servers.

#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Parser;
use kelpie_e2e::landscape::{ProberConfigFile, Timings};
use kelpie_e2e::race::{
    GuardedClusters, Race, RaceFault, RaceOptions, RaceReplicas, RaceTrial, ReplicaOptions, report,
};

/// Race between a prober and kube-controller-manager
#[derive(Parser)]
#[command(after_help = format!("Faults:\n\n{}", RaceFault::HELP))]
struct RaceArgs {
    /// Number of partitions, divided among the shoot clusters; with --fault, for each fault
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
    /// Number of replicas of the prober; more than one elect a leader
    #[arg(long, default_value_t = 1)]
    replicas: usize,
    /// A second fault beside each partition; may be given repeatedly, see below
    #[arg(long = "fault", value_name = "FAULT")]
    faults: Vec<RaceFault>,
    /// Guards the clusters instead of scaling anything
    #[arg(long, conflicts_with = "prober")]
    guard: bool,
    /// Lets one node die in each trial; every other cluster has a guard, the rest has none
    #[arg(long, conflicts_with_all = ["prober", "faults"])]
    lone_node: bool,
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
    let replicas_needed = args.faults.iter().any(RaceFault::needs_replicas);
    ensure!(
        args.replicas > 1 || !replicas_needed,
        "leader-kill needs --replicas 2"
    );
    let options = RaceOptions {
        timings: Timings::REAL,
        node_counts: args.nodes.clone(),
        clusters: args.shoots,
        pod_stop: Duration::from_secs(args.pod_stop),
        settle: Duration::from_secs(args.settle),
        proxied: !args.faults.is_empty(),
        guarded: match (args.guard, args.lone_node) {
            (_, true) => GuardedClusters::EveryOther,
            (true, false) => GuardedClusters::All,
            (false, false) => GuardedClusters::NotAlone,
        },
        rng_seed: args.rng_seed,
    };
    let command = args.prober.unwrap_or_default();
    let command: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
    let config = if args.guard || args.lone_node {
        ProberConfigFile::guard_only()
    } else {
        ProberConfigFile::gardener_defaults()
    };
    println!("starting a seed and {} shoot clusters", args.shoots);
    let race = Race::start(&options).await?;
    let replicas = RaceReplicas::start(ReplicaOptions {
        command: command.clone(),
        flags: Vec::new(),
        count: args.replicas,
        config,
        kubeconfig: race.kubeconfig()?,
        log: args.out.with_extension("log"),
    })
    .await?;
    println!("waiting for {} s", args.settle);
    if args.lone_node {
        let lost = race.lose_nodes(args.trials.div_ceil(args.shoots)).await?;
        println!("\n{}", report::lone_node_table(&lost));
        return Ok(());
    }
    let all = args.trials * args.faults.len().max(1);
    let done = AtomicUsize::new(0);
    let on_trial = |trial: &RaceTrial| {
        let number = done.fetch_add(1, Ordering::Relaxed) + 1;
        println!("[{number:>3}/{all}] {}", trial.line());
    };
    let mut trials = Vec::new();
    if args.faults.is_empty() {
        trials = race.run(args.trials, on_trial).await?;
    }
    for fault in args.faults {
        println!("second fault: {fault}");
        trials.extend(
            race.run_with_fault(fault, args.trials, &replicas, on_trial)
                .await?,
        );
        // Each step is kept, should a later one fail.
        write(&args.out, &command, &trials)?;
    }
    drop(replicas);
    write(&args.out, &command, &trials)?;
    let table = if options.proxied {
        report::fault_table(&trials)
    } else {
        report::table(&trials)
    };
    println!("\n{table}");
    println!("\nall trials are in {}", args.out.display());
    Ok(())
}

fn write(file: &Path, command: &[String], trials: &[RaceTrial]) -> Result<()> {
    let text = serde_json::to_string_pretty(&report::json(command, trials))?;
    Ok(std::fs::write(file, text)?)
}
