//! One prober over thousands of healthy clusters: memory, CPU time, late rounds, open files.
//!
//! The API servers of all clusters are simulated, in this process and behind real TLS: each
//! cluster has its own token and so its own connections, and shares one of a few servers, with
//! their nodes, with many others. The seed's API server is real unless `--simulated-seed` is given.

#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use futures_util::{StreamExt, TryStreamExt, stream};
use kelpie_e2e::landscape::{
    AnyProber, Kubelets, ProberConfigFile, SeedCluster, ShootCluster, Timings, rest,
};
use kelpie_e2e::{Credentials, SimApiServer, open_files, plain_http, poll};
use kelpie_sim::server::{ServerHooks, UserInfo};
use kube::Client;
use serde_json::json;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

/// The number of clusters that are created concurrently, each with a connection per node. A
/// simulated seed accepts 256 connections at a time.
const CONCURRENCY: usize = 8;

/// The number of clusters between two messages about the progress.
const PROGRESS: u32 = 500;

/// Cost of a prober over thousands of clusters
#[derive(Parser)]
struct ScaleArgs {
    /// Number of shoot clusters
    #[arg(long, default_value_t = 1_000)]
    clusters: u32,
    /// Number of nodes of each cluster
    #[arg(long, default_value_t = 20)]
    nodes: usize,
    /// Number of clusters that share a simulated API server
    #[arg(long, default_value_t = 250)]
    share: u32,
    /// Factor of all durations (grace period, renewals, interval): the prober has this many times
    /// fewer rounds, so that a small machine bears more clusters
    #[arg(long, default_value_t = 1)]
    stretch: u32,
    /// Simulate the seed's API server, too
    #[arg(long)]
    simulated_seed: bool,
    /// Length of the measurement in seconds
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Seconds to wait between the first round of the last cluster and the measurement
    #[arg(long, default_value_t = 60)]
    settle: u64,
    /// Command line of another build of Kelpie, with {config} and {kubeconfig} for the two files
    #[arg(long, value_name = "COMMAND")]
    prober: Option<String>,
    /// File for the log of the prober
    #[arg(long, default_value = "scale.log")]
    log: PathBuf,
    /// Passed by `cargo bench`, and ignored
    #[arg(long, hide = true)]
    bench: bool,
}

/// The seed cluster with all control planes.
enum ScaleSeed {
    Real(Box<SeedCluster>),
    Simulated(Box<SimApiServer>),
}

/// The counters of the prober at one time.
struct ScaleUsage {
    at: Instant,
    cpu_time: Duration,
    metrics: String,
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = ScaleArgs::parse();
    println!(
        "open files: at most {} per process",
        open_files::raise_limit()?
    );
    let timings = stretched(args.stretch);
    let seed = ScaleSeed::start(args.simulated_seed).await?;
    let (client, folder) = (seed.client().await?, TempDir::new()?);
    let kubeconfig = folder.path().join("kubeconfig");
    fs::write(&kubeconfig, seed.kubeconfig())?;
    // The limits that Gardener configures: so many clusters do not get their first answer at once.
    let config = ProberConfigFile::gardener_targets(timings)
        .line("initialDelay: 30s")
        .line("probeTimeout: 30s")
        .line("internalProbeFailureBackoffDuration: 30s");
    let log = Some(args.log.as_path());
    let command = args.prober.clone().unwrap_or_default();
    let command: Vec<String> = command.split_whitespace().map(str::to_owned).collect();

    let empty = AnyProber::start(&command, &config, &kubeconfig, log).await?;
    sleep(Duration::from_secs(5)).await;
    let empty_bytes = empty.process.resident_bytes()?;
    drop(empty);

    let servers = ShootServers::start(&args, timings).await?;
    let started = Instant::now();
    let created = stream::iter(0..args.clusters)
        .map(async |number: u32| {
            if number.is_multiple_of(PROGRESS) {
                println!("created {number} clusters");
            }
            servers.create_cluster(&client, number).await
        })
        .buffer_unordered(CONCURRENCY);
    created.try_collect::<()>().await?;
    println!("created all in {:.0} s", started.elapsed().as_secs_f64());

    let started = Instant::now();
    let prober = AnyProber::start(&command, &config, &kubeconfig, log).await?;
    let ready = poll::until(
        "a round of each cluster",
        Duration::from_mins(10),
        async || {
            let usage = ScaleUsage::read(&prober).await?;
            let all = f64::from(args.clusters);
            let is_ready = usage.sum("kelpie_prober_active_probes") >= all
                && usage.sum("kelpie_prober_round_duration_seconds_count") >= all;
            sleep(Duration::from_secs(1)).await;
            Ok(is_ready.then_some(()))
        },
    );
    ready.await.with_context(|| prober.process.log_tail())?;
    let warm_up = started.elapsed();
    println!(
        "all probed after {:.1} s, waiting for {} s",
        warm_up.as_secs_f64(),
        args.settle
    );
    sleep(Duration::from_secs(args.settle)).await;
    let before = ScaleUsage::read(&prober).await?;
    println!("measuring for {} s", args.seconds);
    sleep(Duration::from_secs(args.seconds)).await;
    let after = ScaleUsage::read(&prober).await?;
    report(&args, &prober, empty_bytes, warm_up, &before, &after)
}

/// The real durations, each multiplied by `factor`.
fn stretched(factor: u32) -> Timings {
    let Timings {
        grace,
        renewal,
        reserve,
        interval,
    } = Timings::REAL;
    Timings {
        grace: grace * factor,
        renewal: renewal * factor,
        reserve,
        interval: interval * factor,
    }
}

impl ScaleSeed {
    async fn start(simulated: bool) -> Result<Self> {
        if !simulated {
            return Ok(Self::Real(Box::new(SeedCluster::start().await?)));
        }
        let seed = SimApiServer::start(ServerHooks::default()).await?;
        let client = seed.client(&Credentials::admin()).await?;
        for (group, plural, kind, scope) in [
            (
                "extensions.gardener.cloud",
                "clusters",
                "Cluster",
                "Cluster",
            ),
            ("machine.sapcloud.io", "machines", "Machine", "Namespaced"),
        ] {
            let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
            let definition = json!({
                "metadata": { "name": format!("{plural}.{group}") },
                "spec": {
                    "group": group,
                    "scope": scope,
                    "names": { "kind": kind, "plural": plural, "singular": kind.to_lowercase(),
                        "listKind": format!("{kind}List") },
                    "versions": [{ "name": "v1alpha1", "served": true, "storage": true,
                        "schema": { "openAPIV3Schema": schema } }],
                },
            });
            let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
            rest::create(&client, path, &definition).await?;
        }
        let garden = json!({ "metadata": { "name": "garden" } });
        rest::create(&client, "/api/v1/namespaces", &garden).await?;
        Ok(Self::Simulated(Box::new(seed)))
    }

    async fn client(&self) -> Result<Client> {
        match self {
            Self::Real(seed) => Ok(seed.client.clone()),
            Self::Simulated(seed) => seed.client(&Credentials::admin()).await,
        }
    }

    fn kubeconfig(&self) -> String {
        let admin = Credentials::admin();
        match self {
            Self::Real(seed) => seed.control_plane.api.kubeconfig(&admin),
            Self::Simulated(seed) => seed.kubeconfig(&admin),
        }
    }
}

/// The API servers that the clusters share, with their nodes. Each accepts 256 connections at a
/// time.
struct ShootServers(Vec<(SimApiServer, Kubelets)>);

impl ShootServers {
    async fn start(args: &ScaleArgs, timings: Timings) -> Result<Self> {
        let mut servers = Vec::new();
        for _ in 0..args.clusters.div_ceil(args.share.max(1)) {
            let server = SimApiServer::start(ServerHooks::default()).await?;
            let client = server.client(&Credentials::admin()).await?;
            let kubelets = Kubelets::start(&client, args.nodes, timings).await?;
            servers.push((server, kubelets));
        }
        Ok(Self(servers))
    }

    /// Creates a cluster in the seed, with a token of its own for one of the servers.
    async fn create_cluster(&self, seed: &Client, number: u32) -> Result<()> {
        let (server, kubelets) = &self.0[number as usize % self.0.len()];
        let token = format!("token-of-cluster-{number}");
        server.server.users().add_token(&token, UserInfo::admin());
        let kubeconfig = server.kubeconfig(&Credentials::Token(token));
        let name = format!("shoot--scale--{number:05}");
        let cluster = ShootCluster::create(seed, &name, &kubeconfig, &kubelets.nodes()).await?;
        cluster.create_targets([1, 1, 1]).await
    }
}

impl ScaleUsage {
    async fn read(prober: &AnyProber) -> Result<Self> {
        let url = prober.url.as_deref().context("no metrics")?;
        Ok(Self {
            at: Instant::now(),
            cpu_time: prober.process.cpu_time()?,
            metrics: plain_http::get(url, "/metrics").await?.body,
        })
    }

    /// The sum of all series whose name begins like this.
    fn sum(&self, name: &str) -> f64 {
        let lines = self.metrics.lines().filter(|line| line.starts_with(name));
        let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        values.sum()
    }
}

fn report(
    args: &ScaleArgs,
    prober: &AnyProber,
    empty_bytes: u64,
    warm_up: Duration,
    before: &ScaleUsage,
    after: &ScaleUsage,
) -> Result<()> {
    let seconds = (after.at - before.at).as_secs_f64();
    let clusters = f64::from(args.clusters);
    let increase = |name: &str| after.sum(name) - before.sum(name);
    let rounds = increase("kelpie_prober_round_duration_seconds_count");
    ensure!(
        rounds > 0.0,
        "no round ended:\n{}",
        prober.process.log_tail()
    );
    let milliseconds = after.cpu_time.saturating_sub(before.cpu_time).as_secs_f64() * 1e3;
    let bytes = prober.process.resident_bytes()?;
    let kilobytes = |bytes: u64| -> Result<f64> { Ok(f64::from(u32::try_from(bytes / 1_000)?)) };
    let own = kilobytes(bytes)? - kilobytes(empty_bytes)?;
    println!(
        "\n| {} clusters of {} nodes | |\n|---|---|",
        args.clusters, args.nodes
    );
    println!("| resident | {:.1} MB |", kilobytes(bytes)? / 1e3);
    println!(
        "| resident without clusters | {:.1} MB |",
        kilobytes(empty_bytes)? / 1e3
    );
    println!("| per cluster | {:.1} KB |", own / clusters);
    println!("| CPU time per second | {:.1} ms |", milliseconds / seconds);
    println!(
        "| CPU time per round | {:.0} us |",
        milliseconds * 1e3 / rounds
    );
    println!("| rounds per second | {:.1} |", rounds / seconds);
    let late = increase("kelpie_prober_rounds_late_total");
    println!("| rounds more than 250 ms late | {late:.0} of {rounds:.0} |");
    let mean = increase("kelpie_prober_round_duration_seconds_sum") * 1e3 / rounds;
    println!("| duration of a round: mean | {mean:.1} ms |");
    println!(
        "| files and sockets open | {} |",
        prober.process.open_files()?
    );
    println!(
        "| first round of all clusters after | {:.1} s |",
        warm_up.as_secs_f64()
    );
    let factor = args.stretch;
    println!("| durations, times those of Gardener | {factor} |");
    Ok(())
}
