//! `kelpie prober`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, ValueHint, value_parser};
use kelpie_config::ProberConfig;
use kelpie_kube::client::ClusterClient;
use kelpie_kube::leader::{ElectionSettings, LeaseName};
pub(crate) use kelpie_prober::LEADER_LEASE as LEASE;
use kelpie_prober::{ProberOptions, RecordSettings};
use prometheus_client::registry::Registry;
use tracing::info;

use crate::cli::Invocation;
use crate::component::{
    self, ElectionFlags, LoggingFlags, Loop, SeedFlags, ServingFlags, identity,
};
use crate::exit::ExitStatus;
use crate::go_flags::go_bools;
use crate::{config_file, log, open_files, signals};

/// At a shutdown, the lines of the record that are queued get this long to be written.
const RECORD_PATIENCE: Duration = Duration::from_secs(1);

/// The loop whose heartbeat livez checks.
pub(crate) const TURNING: Loop = Loop::of_seed("fleet");

/// Fence the controllers of clusters whose nodes are cut off, and restore them afterwards
///
/// Watches the node leases of every cluster of a seed. When the kubelets of a cluster lose their
/// API server, the controllers named in the configuration are scaled down before the first node
/// turns Unknown. When the nodes are back, they are scaled up to exactly what they were.
///
/// It accepts the configuration file, the flags and the RBAC of Gardener's dependency-watchdog.
/// Flags may have a single dash, and booleans may be written as --flag=true.
///
/// The metrics address also serves /debug/state, which `kelpie explain` reads, to clients on the
/// same host. The health address serves /livez, /readyz and, like dependency-watchdog, /healthz.
#[derive(Args)]
#[command(
    verbatim_doc_comment,
    mut_args(go_bools(&["dry_run", "fresh_connections", "allow_local_clusters"]))
)]
pub(crate) struct Prober {
    /// Configuration file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    config_file: PathBuf,

    /// Decide and report everything, but write nothing
    #[arg(long, hide_default_value = true)]
    dry_run: bool,

    /// Open new connections to the clusters in every round
    #[arg(long, hide_default_value = true)]
    fresh_connections: bool,

    /// Connect to clusters on loopback, link-local and cloud metadata addresses, which are refused
    /// otherwise
    #[arg(long, hide_default_value = true)]
    allow_local_clusters: bool,

    /// Record what the prober sees and decides in this folder, for `kelpie replay`
    ///
    /// Each replica needs a folder of its own. The record contains names of clusters and nodes and
    /// the configuration, but no credentials. It never delays a fence: if the disk is too slow,
    /// lines are lost, and the record says so.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    record: Option<PathBuf>,

    /// Size at which a file of the record is followed by the next one, in megabytes
    #[arg(
        long,
        value_name = "MB",
        default_value_t = 64,
        value_parser = value_parser!(u64).range(1..=65_536)
    )]
    record_file_size: u64,

    /// Number of files of the record; the oldest are deleted
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = 16,
        value_parser = value_parser!(u16).range(2..)
    )]
    record_files: u16,

    #[command(flatten)]
    seed: SeedFlags,

    #[command(flatten)]
    serving: ServingFlags,

    #[command(flatten)]
    election: ElectionFlags,

    #[command(flatten)]
    logging: LoggingFlags,
}

/// Returns the settings of an election with the leader Lease of this configuration.
pub(crate) fn with_lease(
    election: ElectionSettings,
    config: &ProberConfig,
    invocation: Invocation,
) -> ElectionSettings {
    ElectionSettings {
        name: lease_name(config, invocation),
        ..election
    }
}

/// Returns the name of the leader Lease. In the place of dependency-watchdog it is that of
/// dependency-watchdog, which does not know Leases by name.
fn lease_name(config: &ProberConfig, invocation: Invocation) -> String {
    match (invocation, &config.shard) {
        (Invocation::DependencyWatchdog, None) => LEASE.to_owned(),
        _ => kelpie_prober::leader_lease(config),
    }
}

/// Creates the registry of the metrics. The name of the set of probes labels all of them.
fn registry(name: &str) -> Registry {
    if name.is_empty() {
        return Registry::default();
    }
    let label = ("probe_set".into(), name.to_owned().into());
    Registry::with_labels(std::iter::once(label))
}

impl Prober {
    pub(crate) fn run(self, invocation: Invocation) -> Result<ExitStatus> {
        self.logging.start();
        let election = self.election.check(LEASE)?;
        let config = config_file::prober(&self.config_file, invocation)?;
        let election = election.map(|election| with_lease(election, &config, invocation));
        log::name_lines(&config.name);
        let lease = lease_name(&config, invocation);
        component::run(self.serve(config, election, lease))?;
        Ok(ExitStatus::Success)
    }

    async fn serve(
        self,
        config: ProberConfig,
        election: Option<ElectionSettings>,
        lease: String,
    ) -> Result<()> {
        let shutdown = signals::shutdown_token()?;
        let seed = ClusterClient::connect(&self.seed.options("prober")).await?;
        let mut registry = registry(&config.name);
        let options = ProberOptions {
            dry_run: self.dry_run,
            fresh_connections: self.fresh_connections,
            allow_local_clusters: self.allow_local_clusters,
            election,
            lease: LeaseName {
                namespace: self.election.namespace().to_owned(),
                name: lease,
            },
            identity: identity(),
            event_namespace: self.election.namespace().to_owned(),
        };
        let clusters = config.namespace.clone();
        let server = seed.server().to_owned();
        let replica = options.identity.clone();
        let mut prober = kelpie_prober::Prober::new(config, options, seed, &mut registry)
            .with_open_files_limit(open_files::raise_limit());
        let mut record_end = None;
        if let Some(settings) = self.record_settings() {
            let recording = prober.recording(&settings, &replica);
            let (recorded, end) = recording
                .with_context(|| format!("cannot record in {}", settings.directory.display()))?;
            prober = recorded;
            record_end = Some(end);
        }
        let serving = &self.serving;
        let served = serving.open(registry, prober.routes(), &TURNING, self.dry_run);
        let served = served.await?;
        info!(
            dry_run = self.dry_run,
            "starting; watches {} at {server}",
            clusters.as_deref().unwrap_or("all clusters of the seed")
        );
        let run = |heartbeat, ready| prober.run(shutdown, heartbeat, ready);
        Box::pin(served.during(run)).await;
        if let Some(end) = record_end {
            end.wait(RECORD_PATIENCE);
        }
        Ok(())
    }

    fn record_settings(&self) -> Option<RecordSettings> {
        Some(RecordSettings {
            directory: self.record.clone()?,
            file_bytes: self.record_file_size * 1_000_000,
            files: self.record_files.into(),
            queue_bytes: RecordSettings::QUEUE_BYTES,
        })
    }
}
