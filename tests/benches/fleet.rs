//! What a prober costs while nothing happens: memory, processor time, requests.
//!
//! A real seed API server with many clusters, all of them on one real shoot API server whose kubelets
//! renew their leases. Any prober can be measured: everything after `--peer` is its command line, with
//! `{config}` and `{kubeconfig}` for the two files.

#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Parser;
use futures_util::{StreamExt, TryStreamExt, stream};
use kelpie_e2e::landscape::{self, Contender, Kubelets, Pace, ProberConfig, Seed};
use kelpie_e2e::process::Process;
use kelpie_e2e::{ApiServer, wire};
use tokio::time::{Instant, sleep};

/// Objects are made by so many hands.
const HANDS: usize = 16;

/// Cost of a healthy fleet
#[derive(Parser)]
struct Arguments {
    /// Clusters of the seed
    #[arg(long, default_value_t = 200)]
    clusters: u32,
    /// Nodes of each cluster
    #[arg(long, default_value_t = 50)]
    nodes: usize,
    /// How long is measured, in seconds
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// How long the prober settles before that, in seconds
    #[arg(long, default_value_t = 45)]
    settle: u64,
    /// Another prober's command line instead of ours; its metrics are not read
    #[arg(long, num_args = 1.., allow_hyphen_values = true, value_name = "COMMAND")]
    peer: Vec<String>,
    /// What `cargo bench` passes on
    #[arg(long, hide = true)]
    bench: bool,
}

/// What a process has used up to now.
struct Meter {
    at: Instant,
    processor: Duration,
    requests: f64,
    bytes: f64,
    connections: f64,
    rounds: f64,
    seed_requests: f64,
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = Arguments::parse();
    // `cargo bench` adds its flag at the end, where it would be a word of the peer's command line.
    arguments.peer.retain(|word| word != "--bench");
    let Arguments {
        clusters, nodes, ..
    } = arguments;
    println!("starting a seed with {clusters} clusters of {nodes} nodes");
    let seed = Seed::start().await?;
    let shoot = ApiServer::start(&seed.plane.etcd, "shoot").await?;
    let client = shoot.client(&shoot.admin()).await?;
    let kubelets = Kubelets::start(&client, nodes, Pace::REAL).await?;
    let tenant = landscape::tenant(&client, &shoot, "dwd").await?;
    let kubeconfig = shoot.kubeconfig(&tenant);
    let names = kubelets.nodes();
    let make = async |number: u32| -> Result<()> {
        let name = format!("shoot--bench--{number:04}");
        let made = seed.shoot(&name, &kubeconfig, &names).await?;
        made.deploy([1, 1, 1]).await
    };
    let made = stream::iter(0..clusters).map(make).buffer_unordered(HANDS);
    made.try_collect::<()>().await?;

    let config = ProberConfig::shipped(Pace::REAL);
    let admin = seed.kubeconfig(&seed.plane.api.admin())?;
    let prober = Contender::start(&arguments.peer, &config, &admin, None).await?;
    let (process, url) = (&prober.process, prober.url.as_deref());
    println!("settling for {} s", arguments.settle);
    sleep(Duration::from_secs(arguments.settle)).await;
    let before = Meter::read(process, url).await?;
    println!("measuring for {} s", arguments.seconds);
    sleep(Duration::from_secs(arguments.seconds)).await;
    let after = Meter::read(process, url).await?;
    report(&arguments, process, &before, &after)
}

impl Meter {
    async fn read(process: &Process, url: Option<&str>) -> Result<Self> {
        let text = match url {
            Some(url) => wire::get(url, "/metrics").await?.body,
            None => String::new(),
        };
        let sum = |name: &str| -> f64 {
            let lines = text.lines().filter(|line| line.starts_with(name));
            let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
            values.sum()
        };
        Ok(Self {
            at: Instant::now(),
            processor: process.processor_time()?,
            requests: sum("kelpie_prober_requests_total"),
            bytes: sum("kelpie_prober_received_bytes_total"),
            connections: sum("kelpie_prober_connections_total"),
            rounds: sum("kelpie_prober_round_duration_seconds_count"),
            seed_requests: sum("kelpie_prober_seed_requests_total"),
        })
    }
}

fn report(arguments: &Arguments, process: &Process, before: &Meter, after: &Meter) -> Result<()> {
    let seconds = (after.at - before.at).as_secs_f64();
    let milliseconds = after
        .processor
        .saturating_sub(before.processor)
        .as_secs_f64()
        * 1_000.0;
    let resident = f64::from(u32::try_from(process.resident()? / 1_000)?);
    println!("\n| clusters x nodes | resident | processor per second |");
    println!("|---|---|---|");
    println!(
        "| {} x {} | {:.1} MB | {:.1} ms |",
        arguments.clusters,
        arguments.nodes,
        resident / 1e3,
        milliseconds / seconds,
    );
    if !arguments.peer.is_empty() {
        return Ok(());
    }
    let rounds = after.rounds - before.rounds;
    ensure!(rounds > 0.0, "no round ended:\n{}", process.log_tail());
    println!("\n| per healthy round | |\n|---|---|");
    println!(
        "| requests to the cluster | {:.2} |",
        (after.requests - before.requests) / rounds
    );
    println!(
        "| bytes read from it | {:.0} |",
        (after.bytes - before.bytes) / rounds
    );
    println!(
        "| connections opened | {:.3} |",
        (after.connections - before.connections) / rounds
    );
    println!(
        "| requests to the seed | {:.3} |",
        (after.seed_requests - before.seed_requests) / rounds
    );
    println!(
        "| processor time | {:.0} us |",
        milliseconds * 1_000.0 / rounds
    );
    println!(
        "| rounds per cluster and minute | {:.1} |",
        rounds / seconds * 60.0 / f64::from(arguments.clusters)
    );
    Ok(())
}
