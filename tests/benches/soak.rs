//! Random faults on real servers for half an hour: `cargo xtask soak`.

#![expect(clippy::print_stdout, reason = "a command prints its progress")]

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Parser;
use kelpie_e2e::landscape::Timings;
use kelpie_e2e::soak::{Soak, SoakOptions};

/// Chaos on real servers
#[derive(Parser)]
struct SoakBenchArgs {
    /// Duration of the faults in minutes
    #[arg(long, default_value_t = 30.0)]
    minutes: f64,
    /// Number of shoot clusters
    #[arg(long, default_value_t = 30)]
    clusters: usize,
    /// Number of API servers that the clusters share
    #[arg(long, default_value_t = 3)]
    servers: usize,
    /// Average seconds between two faults
    #[arg(long, default_value_t = 2.0)]
    every: f64,
    /// Seed of the random number generator
    #[arg(long = "seed", value_name = "SEED", default_value_t = 1)]
    rng_seed: u64,
    /// File for the seed's audit log, written if an invariant is violated
    #[arg(long, default_value = "soak.audit.log")]
    out: PathBuf,
    /// Passed by `cargo bench`, and ignored
    #[arg(long, hide = true)]
    bench: bool,
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = SoakBenchArgs::parse();
    let options = SoakOptions {
        duration: Duration::from_secs_f64(args.minutes * 60.0),
        fault_interval: Duration::from_secs_f64(args.every),
        clusters: args.clusters,
        nodes: 3,
        servers: args.servers,
        timings: Timings::QUICK,
        rng_seed: args.rng_seed,
    };
    println!("starting a seed with {} clusters", options.clusters);
    let mut soak = Soak::prepare(options).await?;
    let report = soak.run(|event| println!("{event}")).await?;
    println!(
        "{} targets were scaled down, {} up; a replica has {} files and sockets open; \
         {} invariants were violated",
        report.scale_downs,
        report.scale_ups,
        soak.open_files()?,
        report.violations.len()
    );
    if report.violations.is_empty() {
        return Ok(());
    }
    std::fs::write(&args.out, soak.audit_log()?)?;
    println!("{}", report.violations.join("\n"));
    bail!("the audit log is in {}", args.out.display())
}
