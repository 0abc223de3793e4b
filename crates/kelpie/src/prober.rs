//! `kelpie prober`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use clap::{Args, ValueHint};
use kelpie_config::{GoDuration, ProberConfig};
use kelpie_health::{Health, Pulse, Readiness, ReadyHandle, Settings};
use kelpie_kube::leader::ElectionSettings;
use kelpie_kube::seed::{Seed, SeedOptions};
use kelpie_prober::Options;
use prometheus_client::registry::Registry;
use tokio::runtime;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::bind::BindAddress;
use crate::cli::Guise;
use crate::exit::Outcome;
use crate::go_flags::{boolean, zap_level};
use crate::log::{self, LogFormat, LogLevel};
use crate::{config_file, signals};

/// The Lease of the leader, as dependency-watchdog calls it: the two never act at the same time.
pub(crate) const LEASE: &str = "dwd-prober-leader-election";
/// The loop that follows the seed turns at least every 5 s.
const LONGEST_TURN: Duration = Duration::from_mins(1);

/// Fence the controllers of clusters whose nodes are cut off, and restore them afterwards
///
/// Watches the node leases of every cluster of a seed. When the kubelets of a cluster lose their
/// API server, the controllers named in the configuration are scaled down before the first node
/// turns Unknown; when the nodes are back, they are scaled up to exactly what they were.
///
/// It takes the configuration file, the flags and the RBAC of Gardener's dependency-watchdog.
/// Flags may be written with one dash, and booleans as --flag=true.
///
/// The metrics address also serves /debug/state, which `kelpie explain` reads; the health address
/// serves /livez, /readyz and, as dependency-watchdog does, /healthz.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Prober {
    /// The configuration file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    config_file: PathBuf,

    /// Decide and report everything, write nothing
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_value = "false",
        default_missing_value = "true",
        hide_default_value = true,
        value_parser = boolean
    )]
    dry_run: bool,

    /// Connect to the clusters anew in every round
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_value = "false",
        default_missing_value = "true",
        hide_default_value = true,
        value_parser = boolean
    )]
    fresh_connections: bool,

    #[command(flatten)]
    seed: SeedFlags,

    #[command(flatten)]
    serving: ServingFlags,

    #[command(flatten)]
    election: ElectionFlags,

    #[command(flatten)]
    logging: LoggingFlags,
}

/// How the seed is reached.
#[derive(Args)]
#[command(next_help_heading = "Seed")]
pub(crate) struct SeedFlags {
    /// The seed's kubeconfig [default: $KUBECONFIG, in-cluster, ~/.kube/config]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    kubeconfig: Option<PathBuf>,

    /// Routine requests to the seed per second; fencing calls are never held back
    #[arg(long, value_name = "QPS", default_value_t = 5.0)]
    kube_api_qps: f32,

    /// Routine requests to the seed that may come at once
    #[arg(long, value_name = "N", default_value_t = 10)]
    kube_api_burst: u32,

    /// Accepted for dependency-watchdog's sake: every cluster has its own task
    #[arg(long, value_name = "N", default_value_t = 1, hide_default_value = true)]
    concurrent_reconciles: u32,
}

/// What is served, and where.
#[derive(Args)]
#[command(next_help_heading = "Serving (HOST:PORT; :PORT for all interfaces; 0 for nothing)")]
struct ServingFlags {
    /// Where /metrics and /debug/state are
    #[arg(
        long = "metrics-bind-addr",
        value_name = "ADDR",
        default_value = ":9643"
    )]
    metrics: BindAddress,

    /// Where /livez, /readyz and /healthz are
    #[arg(
        long = "health-bind-addr",
        value_name = "ADDR",
        default_value = ":9644"
    )]
    health: BindAddress,

    /// Accepted for dependency-watchdog's sake: nothing is served there
    #[arg(long = "pprof-bind-addr", value_name = "ADDR")]
    _pprof: Option<String>,
}

/// Who acts.
#[derive(Args)]
#[command(next_help_heading = "Leader election")]
pub(crate) struct ElectionFlags {
    /// Act only while leading; a replica that does not lead observes, and takes over without a gap
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_value = "false",
        default_missing_value = "true",
        value_parser = boolean
    )]
    enable_leader_election: bool,

    /// The namespace of the Lease, and of Events about Clusters
    #[arg(long, value_name = "NAMESPACE", default_value = "garden")]
    leader_election_namespace: String,

    /// How long the others wait after the last renewal they saw
    #[arg(long, value_name = "DURATION", default_value = "15s")]
    leader_elect_lease_duration: GoDuration,

    /// How long the leader acts after its last renewal
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    leader_elect_renew_deadline: GoDuration,

    /// How often it renews, and the others look
    #[arg(long, value_name = "DURATION", default_value = "2s")]
    leader_elect_retry_period: GoDuration,
}

/// What is logged, and how; zap's flags are understood too.
#[derive(Args)]
#[command(next_help_heading = "Logging")]
struct LoggingFlags {
    /// How a line looks [default: text]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<LogFormat>,

    /// What is worth a line: error, warn, info, debug, or zap's number
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = zap_level)]
    zap_log_level: LogLevel,

    /// The same as --log-format: json, or console for text
    #[arg(long, value_name = "ENCODER")]
    zap_encoder: Option<String>,

    /// Accepted for dependency-watchdog's sake
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_parser = boolean
    )]
    zap_devel: Option<bool>,

    /// Accepted for dependency-watchdog's sake
    #[arg(long, value_name = "LEVEL")]
    zap_stacktrace_level: Option<String>,

    /// Accepted for dependency-watchdog's sake: times are RFC 3339
    #[arg(long, value_name = "ENCODING")]
    zap_time_encoding: Option<String>,
}

impl Prober {
    pub(crate) fn run(self, guise: Guise) -> Result<Outcome> {
        self.logging.start();
        let election = self.election.check()?;
        let config = config_file::prober(&self.config_file, guise)?;
        kelpie_net::install_crypto();
        let runtime = runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .context("cannot start the runtime")?;
        runtime.block_on(self.serve(config, election))?;
        Ok(Outcome::Success)
    }

    async fn serve(self, config: ProberConfig, election: Option<ElectionSettings>) -> Result<()> {
        let shutdown = signals::shutdown()?;
        let seed = Seed::connect(&self.seed.options("prober")).await?;
        let mut registry = Registry::default();
        let options = Options {
            dry_run: self.dry_run,
            fresh_connections: self.fresh_connections,
            election,
            identity: identity(),
            event_namespace: self.election.leader_election_namespace.clone(),
        };
        let clusters = config.namespace.clone();
        let prober = kelpie_prober::Prober::new(config, options, seed, &mut registry);

        let (health, pulse, ready) = checks(&mut registry)?;

        let numbers = kelpie_health::metrics(Arc::new(registry)).merge(prober.routes());
        let checks = kelpie_health::routes(health.clone()).merge(kelpie_health::healthz(health));
        // Answers are given until the very end: the probes drain first.
        let answered_to_the_end = CancellationToken::new();
        let over = &answered_to_the_end;
        let ServingFlags {
            metrics, health, ..
        } = &self.serving;
        serve(metrics, "metrics", numbers, over).await?;
        serve(health, "health", checks, over).await?;
        info!(
            dry_run = self.dry_run,
            "watching over {}",
            clusters.as_deref().unwrap_or("all clusters of the seed")
        );
        prober.run(shutdown, pulse, ready).await;
        answered_to_the_end.cancel();
        info!("ended");
        Ok(())
    }
}

/// Serves pages in the background until `over`, if they are to be served at all.
pub(crate) async fn serve(
    address: &BindAddress,
    what: &str,
    pages: Router,
    over: &CancellationToken,
) -> Result<()> {
    if let Some(listener) = address.listen(&format!("--{what}-bind-addr")).await? {
        info!("listening on http://{} for {what}", listener.local_addr()?);
        let over = over.clone().cancelled_owned();
        tokio::spawn(kelpie_health::serve(listener, pages, over));
    }
    Ok(())
}

impl SeedFlags {
    pub(crate) fn options(&self, component: &str) -> SeedOptions {
        SeedOptions {
            kubeconfig: self.kubeconfig.clone(),
            qps: self.kube_api_qps,
            burst: self.kube_api_burst,
            user_agent: format!("kelpie/{} ({component})", env!("CARGO_PKG_VERSION")),
        }
    }
}

impl ElectionFlags {
    /// Where the leader is elected, if it is.
    pub(crate) fn check(&self) -> Result<Option<ElectionSettings>> {
        let settings = ElectionSettings {
            namespace: self.leader_election_namespace.clone(),
            name: LEASE.to_owned(),
            identity: identity(),
            lease_duration: self.leader_elect_lease_duration.0,
            renew_deadline: self.leader_elect_renew_deadline.0,
            retry_period: self.leader_elect_retry_period.0,
        };
        let wrong = if settings.lease_duration <= settings.renew_deadline {
            Some("--leader-elect-lease-duration must be longer than --leader-elect-renew-deadline")
        } else if settings.renew_deadline <= settings.retry_period {
            Some("--leader-elect-renew-deadline must be longer than --leader-elect-retry-period")
        } else if settings.retry_period.is_zero() {
            Some("--leader-elect-retry-period must be longer than 0s")
        } else {
            None
        };
        if let Some(wrong) = wrong {
            return Err(crate::cli::usage_error(wrong));
        }
        Ok(self.enable_leader_election.then_some(settings))
    }
}

impl LoggingFlags {
    fn start(&self) {
        let by_zap = match self.zap_encoder.as_deref() {
            Some("json") => Some(LogFormat::Json),
            _ => None,
        };
        let format = self.log_format.or(by_zap).unwrap_or(LogFormat::Text);
        log::start(format, self.zap_log_level);
    }
}

/// The checks of livez and readyz, with their handles.
pub(crate) fn checks(registry: &mut Registry) -> Result<(Health, Pulse, ReadyHandle)> {
    let mut checks = Health::builder(Settings::default(), registry);
    let pulse = Pulse::new(LONGEST_TURN);
    let readiness = Readiness::new();
    let ready = readiness.handle("seed");
    checks.livez("fleet", pulse.clone());
    checks.readyz("components", readiness);
    Ok((checks.build()?, pulse, ready))
}

/// A name that no other replica has.
pub(crate) fn identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = match host.trim() {
        "" => "kelpie",
        host => host,
    };
    format!("{host}_{}", std::process::id())
}
