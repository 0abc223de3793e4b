//! The cost of a prober for healthy clusters: memory, CPU time, requests.
//!
//! The seed has a real API server, and all clusters share another one, whose kubelets renew their
//! leases. `--peer` measures another prober: everything after it is the command line, with
//! `{config}` and `{kubeconfig}` for the two files.

#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Parser;
use futures_util::{StreamExt, TryStreamExt, stream};
use kelpie_e2e::landscape::{self, AnyProber, Kubelets, ProberConfigFile, SeedCluster, Timings};
use kelpie_e2e::process::ServerProcess;
use kelpie_e2e::{KubeApiServer, plain_http};
use tokio::time::{Instant, sleep};

/// The number of clusters that are created concurrently.
const CONCURRENCY: usize = 16;

/// Cost of healthy clusters
#[derive(Parser)]
struct FleetArgs {
    /// Number of shoot clusters
    #[arg(long, default_value_t = 200)]
    clusters: u32,
    /// Number of nodes of each cluster
    #[arg(long, default_value_t = 50)]
    nodes: usize,
    /// Length of the measurement in seconds
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Seconds to wait before the measurement
    #[arg(long, default_value_t = 45)]
    settle: u64,
    /// Command line of another prober to run instead of Kelpie; its metrics are not read
    #[arg(long, num_args = 1.., allow_hyphen_values = true, value_name = "COMMAND")]
    peer: Vec<String>,
    /// Passed by `cargo bench`, and ignored
    #[arg(long, hide = true)]
    bench: bool,
}

/// The counters of a prober at one time.
struct ProberUsage {
    at: Instant,
    cpu_time: Duration,
    requests: f64,
    bytes: f64,
    connections: f64,
    rounds: f64,
    seed_requests: f64,
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut args = FleetArgs::parse();
    // `cargo bench` appends its flag, where it would become part of the peer's command line.
    args.peer.retain(|word| word != "--bench");
    let FleetArgs {
        clusters, nodes, ..
    } = args;
    println!("starting a seed with {clusters} clusters of {nodes} nodes");
    let seed = SeedCluster::start().await?;
    let shoot = KubeApiServer::start(&seed.control_plane.etcd, "shoot").await?;
    let client = shoot.client(&shoot.admin()).await?;
    let kubelets = Kubelets::start(&client, nodes, Timings::REAL).await?;
    let tenant = landscape::create_tenant_user(&client, &shoot, "dwd").await?;
    let kubeconfig = shoot.kubeconfig(&tenant);
    let names = kubelets.nodes();
    let create = async |number: u32| -> Result<()> {
        let name = format!("shoot--bench--{number:04}");
        let cluster = seed.create_cluster(&name, &kubeconfig, &names).await?;
        cluster.create_targets([1, 1, 1]).await
    };
    let created = stream::iter(0..clusters)
        .map(create)
        .buffer_unordered(CONCURRENCY);
    created.try_collect::<()>().await?;

    let config = ProberConfigFile::gardener_targets(Timings::REAL);
    let admin = seed.kubeconfig_file(&seed.control_plane.api.admin())?;
    let prober = AnyProber::start(&args.peer, &config, &admin, None).await?;
    let (process, url) = (&prober.process, prober.url.as_deref());
    println!("waiting for {} s", args.settle);
    sleep(Duration::from_secs(args.settle)).await;
    let before = ProberUsage::read(process, url).await?;
    println!("measuring for {} s", args.seconds);
    sleep(Duration::from_secs(args.seconds)).await;
    let after = ProberUsage::read(process, url).await?;
    report(&args, process, &before, &after)
}

impl ProberUsage {
    async fn read(process: &ServerProcess, url: Option<&str>) -> Result<Self> {
        let text = match url {
            Some(url) => plain_http::get(url, "/metrics").await?.body,
            None => String::new(),
        };
        let sum = |name: &str| -> f64 {
            let lines = text.lines().filter(|line| line.starts_with(name));
            let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
            values.sum()
        };
        Ok(Self {
            at: Instant::now(),
            cpu_time: process.cpu_time()?,
            requests: sum("kelpie_prober_requests_total"),
            bytes: sum("kelpie_prober_received_bytes_total"),
            connections: sum("kelpie_prober_connections_total"),
            rounds: sum("kelpie_prober_round_duration_seconds_count"),
            seed_requests: sum("kelpie_prober_seed_requests_total"),
        })
    }
}

fn report(
    args: &FleetArgs,
    process: &ServerProcess,
    before: &ProberUsage,
    after: &ProberUsage,
) -> Result<()> {
    let seconds = (after.at - before.at).as_secs_f64();
    let milliseconds = after.cpu_time.saturating_sub(before.cpu_time).as_secs_f64() * 1_000.0;
    let resident = f64::from(u32::try_from(process.resident_bytes()? / 1_000)?);
    println!("\n| clusters x nodes | resident | CPU time per second |");
    println!("|---|---|---|");
    println!(
        "| {} x {} | {:.1} MB | {:.1} ms |",
        args.clusters,
        args.nodes,
        resident / 1e3,
        milliseconds / seconds,
    );
    if !args.peer.is_empty() {
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
    println!("| CPU time | {:.0} us |", milliseconds * 1_000.0 / rounds);
    println!(
        "| rounds per cluster and minute | {:.1} |",
        rounds / seconds * 60.0 / f64::from(args.clusters)
    );
    Ok(())
}
