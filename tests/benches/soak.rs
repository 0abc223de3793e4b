//! Everything goes wrong for half an hour: `cargo xtask soak`.

#![expect(clippy::print_stdout, reason = "a command tells what happens")]

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Parser;
use kelpie_e2e::landscape::Pace;
use kelpie_e2e::soak::{Plan, Soak};

/// Chaos on real servers
#[derive(Parser)]
struct Arguments {
    /// How long faults go on
    #[arg(long, default_value_t = 30.0)]
    minutes: f64,
    /// Shoots of the seed
    #[arg(long, default_value_t = 30)]
    clusters: usize,
    /// API servers that they share
    #[arg(long, default_value_t = 3)]
    servers: usize,
    /// Seconds between two faults, on average
    #[arg(long, default_value_t = 2.0)]
    every: f64,
    /// What is random follows from it
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// If something is wrong, the seed's audit log goes here
    #[arg(long, default_value = "soak.audit.log")]
    out: PathBuf,
    /// What `cargo bench` passes on
    #[arg(long, hide = true)]
    bench: bool,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let plan = Plan {
        length: Duration::from_secs_f64(arguments.minutes * 60.0),
        every: Duration::from_secs_f64(arguments.every),
        clusters: arguments.clusters,
        nodes: 3,
        servers: arguments.servers,
        pace: Pace::QUICK,
        seed: arguments.seed,
    };
    println!("starting a seed with {} clusters", plan.clusters);
    let mut soak = Soak::prepare(plan).await?;
    let findings = soak.run(|what| println!("{what}")).await?;
    println!(
        "{} targets were scaled down, {} up; a replica has {} files and sockets open; {} things are \
         wrong",
        findings.down,
        findings.up,
        soak.open_files()?,
        findings.wrong.len()
    );
    if findings.wrong.is_empty() {
        return Ok(());
    }
    std::fs::write(&arguments.out, soak.audit_log()?)?;
    println!("{}", findings.wrong.join("\n"));
    bail!("{} has the whole story", arguments.out.display())
}
