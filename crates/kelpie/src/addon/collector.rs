//! The `kelpie addon collector` command.

mod allowlist;
mod flag_values;
mod forwarding;
mod match_file;
mod status_reporter;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use kelpie_addon::StatusWriter;
use kelpie_collector::{Collector, CollectorSettings, DecodedSample, TickOutcome};
use kelpie_kube::SystemClock;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;
use tracing::info;

use self::forwarding::ForwardingFlags;
use self::status_reporter::StatusReporter;
use super::report::ComponentArg;
use super::spoke::SpokeFlags;
use crate::bind::BindAddress;
use crate::component::{self, Loop, PlainLoggingFlags};
use crate::exit::ExitStatus;
use crate::{signals, terminal};

/// The loop that livez checks. It sends a heartbeat every few seconds, also during a tick.
const COLLECTOR_LOOP: Loop = Loop {
    name: "loop",
    longest_turn: Duration::from_mins(1),
    ready: "collector",
};

const EXAMPLES: &str = "\
Examples:
  Show what would be sent, without a hub:
    kelpie addon collector --from http://localhost:9090 --match '{job=\"api\"}' --once --dry-run
  Forward once from one Prometheus to another, which has --web.enable-remote-write-receiver:
    kelpie addon collector --from http://localhost:9090 --to http://hub:9090 --match up --once
  Forward every minute, with a label for the cluster:
    kelpie addon collector --from http://localhost:9090 --to http://hub:9090 \\
      --allowlist metrics_list.yaml --label cluster=spoke-1 --interval 1m

Exit codes:
  0  it was stopped; with --once, the tick succeeded
  1  it failed; the reason is printed
  2  the command line is invalid";

/// Forward metrics from a Prometheus to a hub by remote write
///
/// At every interval it federates the series that the selectors match, evaluates the recording
/// rules, injects and elides labels, renames metrics, and writes to the hub. A sample that the hub
/// has is not sent again. Responses are streamed: memory depends on the number of series, not on
/// the size of a response.
///
/// The operator deploys it with --component. Then it also reports in the addon's status whether
/// forwarding works: a success at once, a failure after three in a row and --degrade-after. Without
/// --component it works alone and needs no Kubernetes.
///
/// Federation has no stale markers and no native histograms: let queries on the hub look back
/// for two intervals or more. docs/concepts/collector.md has the rest.
#[derive(Args)]
#[command(verbatim_doc_comment, after_long_help = EXAMPLES)]
pub(super) struct CollectorCommand {
    /// Run one tick now and exit; serve and report nothing
    #[arg(long)]
    once: bool,

    /// Print what would be sent, in the text format; send nothing to the hub
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    forwarding: ForwardingFlags,

    /// Report as this collector of the addon
    #[arg(long, value_name = "COMPONENT", help_heading = "Status")]
    component: Option<ComponentArg>,

    /// Write no status conditions, for the hub's own cluster
    #[arg(long, help_heading = "Status")]
    no_status: bool,

    /// Rollout that this collector belongs to
    #[arg(
        long,
        value_name = "HASH",
        env = "KELPIE_ADDON_ROLLOUT",
        help_heading = "Status"
    )]
    rollout: Option<String>,

    /// UID of the addon that this collector was deployed for
    #[arg(
        long,
        value_name = "UID",
        env = "KELPIE_ADDON_UID",
        help_heading = "Status"
    )]
    uid: Option<String>,

    #[command(flatten)]
    spoke: SpokeFlags,

    /// Serve /metrics, /livez, /readyz and /debug/state on this address; 0 to disable
    #[arg(
        long,
        value_name = "ADDR",
        default_value = "127.0.0.1:9002",
        help_heading = "Serving"
    )]
    listen: BindAddress,

    #[command(flatten)]
    logging: PlainLoggingFlags,
}

impl CollectorCommand {
    pub(super) fn run(self) -> Result<ExitStatus> {
        // Logging starts first, because reading the flags may log warnings.
        self.logging.start();
        let settings = self.forwarding.settings(self.component, self.dry_run)?;
        if self.once {
            component::run(self.once(settings))?;
        } else {
            component::run(self.serve(settings))?;
            info!("stopped");
        }
        Ok(ExitStatus::Success)
    }

    fn collector(settings: CollectorSettings, registry: &mut Registry) -> Result<Collector> {
        let wall = SystemClock::default();
        let clock = move || wall.now();
        // A failure to write to stdout cannot be reported anywhere.
        let show = |sample: &DecodedSample| drop(terminal::stdout(&format!("{sample}\n")));
        Ok(Collector::new(settings, clock, show, registry)?)
    }

    async fn once(&self, settings: CollectorSettings) -> Result<()> {
        let mut collector = Self::collector(settings, &mut Registry::default())?;
        let shutdown = signals::shutdown_token()?;
        let Some(outcome) = shutdown.run_until_cancelled(collector.tick()).await else {
            bail!("stopped before the end of the tick");
        };
        match &outcome.result {
            Ok(_) if self.dry_run => Ok(()),
            Ok(_) => terminal::stdout(&summary(&outcome)).context("cannot write the result"),
            Err(failure) => bail!("{failure}"),
        }
    }

    async fn serve(&self, settings: CollectorSettings) -> Result<()> {
        let shutdown = signals::shutdown_token()?;
        let mut registry = Registry::default();
        let collector = Self::collector(settings, &mut registry)?;
        let (health, heartbeat, ready) = COLLECTOR_LOOP.checks(&mut registry)?;
        // The pages are served until the collector has ended.
        let served = CancellationToken::new();
        if let Some(listener) = self.listen.listen("--listen").await? {
            let pages = kelpie_health::metrics(Arc::new(registry))
                .merge(kelpie_health::loopback_only(collector.routes()))
                .merge(kelpie_health::routes(health.clone()))
                .merge(kelpie_health::healthz(health))
                .fallback(kelpie_health::not_found);
            info!("listening on http://{}", listener.local_addr()?);
            let served = served.clone().cancelled_owned();
            tokio::spawn(kelpie_health::serve(listener, pages, served));
        }
        if let Some(reporter) = self.status_reporter().await? {
            tokio::spawn(reporter.run(collector.reports()));
        }
        collector.run(shutdown, heartbeat, ready).await;
        served.cancel();
        Ok(())
    }

    /// Returns the reporter for the addon's status, or `None` if nothing is to be reported.
    async fn status_reporter(&self) -> Result<Option<StatusReporter>> {
        let Some(component) = self.component else {
            return Ok(None);
        };
        if self.no_status || self.dry_run {
            return Ok(None);
        }
        let spoke = self.spoke.connect("collector").await?;
        let writer = StatusWriter::new(spoke.objects(), self.spoke.addon());
        Ok(Some(StatusReporter {
            writer,
            uid: self.uid.clone(),
            component: component.into(),
            rollout: self.rollout.clone(),
            logged_rejection: String::new(),
        }))
    }
}

fn summary(outcome: &TickOutcome) -> String {
    match (outcome.accepted, outcome.refused()) {
        (0, 0) => "nothing matched: nothing to send\n".to_owned(),
        (accepted, 0) => format!("{accepted} samples sent\n"),
        (accepted, refused) => format!("{accepted} samples sent, {refused} refused by the hub\n"),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct CollectorTestCli {
        #[command(flatten)]
        collector: CollectorCommand,
    }

    fn parse(flags: &[&str]) -> CollectorCommand {
        CollectorTestCli::parse_from([&["kelpie"], flags].concat()).collector
    }

    #[test]
    fn operator_flags_are_accepted() {
        let collector = parse(&[
            "--component=uwl",
            "--namespace=n",
            "--name=observability-addon",
            "--from=https://prometheus.example:9092",
            "--to-upload=https://hub.example/api/v1/receive",
            "--to-upload-cert=/tls/client/tls.crt",
            "--to-upload-key=/tls/client/tls.key",
            "--to-upload-ca=/tls/hub/ca.crt",
            "--interval=300s",
            "--limit-bytes=1073741824",
            "--worker-number=2",
            "--listen=:8080",
            "--label=cluster=spoke-1",
            "--label=clusterID=spoke-1",
            "--no-status",
            "--rename=old=new",
            "--recordingrule={\"name\":\"r\",\"query\":\"sum(up)\"}",
            "--match={__name__=\"up\"}",
            "--match={__name__=~\"a.*\"}",
        ]);
        assert!(collector.no_status);
        let settings = collector.forwarding.settings(collector.component, false);
        let settings = settings.unwrap();
        assert_eq!(settings.cluster.as_deref(), Some("spoke-1"));
        assert_eq!(settings.interval, Duration::from_mins(5));
        assert_eq!((settings.workers, settings.matchers.len()), (2, 2));
        assert_eq!(settings.recording_rules[0].query, "sum(up)");
        let to = settings.to.unwrap();
        assert_eq!(to.url, "https://hub.example/api/v1/receive");
        assert!(to.identity_files.is_some() && to.ca_file.is_some());
    }

    #[test]
    fn injected_label_is_not_elided() {
        let flags = ["--from=http://a", "--to=http://b", "--match=up"];
        for more in ["--label=prometheus=p", "--elide-label="] {
            let collector = parse(&[&flags[..], &[more]].concat());
            assert!(collector.forwarding.settings(None, false).is_ok(), "{more}");
        }
    }
}
