//! `kelpie addon collector`.

mod allowlist;
mod forwarding;
mod pairs;
mod voice;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use kelpie_addon::{Reporter, StatusWriter};
use kelpie_collector::{Collector as Worker, Outcome as Tick, Sample, Settings};
use kelpie_kube::WallClock;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;
use tracing::info;

use self::forwarding::ForwardingFlags;
use self::voice::Voice;
use super::report::Component;
use super::spoke::SpokeFlags;
use crate::bind::BindAddress;
use crate::component::{self, Loop, PlainLoggingFlags};
use crate::exit::Outcome;
use crate::{signals, terminal};

/// The loop that must not stop: it beats every few seconds, also within a tick.
const TURNING: Loop = Loop {
    name: "loop",
    longest_turn: Duration::from_mins(1),
    ready: "collector",
};

const EXAMPLES: &str = "\
Examples:
  What would be sent, without a hub:
    kelpie addon collector --from http://localhost:9090 --match '{job=\"api\"}' --once --dry-run
  Once, from one Prometheus to another (which runs with --web.enable-remote-write-receiver):
    kelpie addon collector --from http://localhost:9090 --to http://hub:9090 --match up --once
  Every minute, with a label that says whose samples they are:
    kelpie addon collector --from http://localhost:9090 --to http://hub:9090 \\
      --allowlist metrics_list.yaml --label cluster=spoke-1 --interval 1m

Exit codes:
  0  it was told to end; with --once: the tick succeeded
  1  it did not; the reason is told
  2  the command line was wrong";

/// Forward metrics: from a Prometheus, by remote write, to a hub
///
/// At every interval it federates what the selectors match, evaluates the recording rules, injects
/// labels, renames and elides, and writes to the hub. A sample that the hub has is not sent again.
/// What is read is streamed: memory depends on the number of series, never on the size of a body.
///
/// The operator deploys it with --component; then it also reports in the addon's status whether
/// forwarding works: a success at once, a failure after three in a row and --degrade-after. Without
/// --component it stands alone, and needs no Kubernetes.
///
/// Federation carries no stale markers and no native histograms: let queries on the hub look back
/// for two intervals or more. docs/collector.md has the rest.
#[derive(Args)]
#[command(verbatim_doc_comment, after_long_help = EXAMPLES)]
pub(super) struct Collector {
    #[command(flatten)]
    forwarding: ForwardingFlags,

    /// One tick, now; nothing is served or reported
    #[arg(long)]
    once: bool,

    /// Print what would be sent, in the text format; the hub is not asked
    #[arg(long)]
    dry_run: bool,

    /// Which collector of the addon this is
    #[arg(long, value_name = "COMPONENT", help_heading = "Status")]
    component: Option<Component>,

    /// Touch no condition, for the hub's own cluster
    #[arg(long, help_heading = "Status")]
    no_status: bool,

    /// The rollout that this collector belongs to
    #[arg(
        long,
        value_name = "HASH",
        env = "KELPIE_ADDON_ROLLOUT",
        help_heading = "Status"
    )]
    rollout: Option<String>,

    /// The uid of the addon that this collector was deployed for
    #[arg(
        long,
        value_name = "UID",
        env = "KELPIE_ADDON_UID",
        help_heading = "Status"
    )]
    uid: Option<String>,

    #[command(flatten)]
    spoke: SpokeFlags,

    /// Serve /metrics, /livez, /readyz and /debug/state here; 0 for nothing
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

impl Collector {
    pub(super) fn run(self) -> Result<Outcome> {
        // The log comes first: reading the flags may have something to say.
        self.logging.start();
        let settings = self.forwarding.settings(self.component, self.dry_run)?;
        if self.once {
            component::run(self.once(settings))?;
        } else {
            component::run(self.serve(settings))?;
            info!("ended");
        }
        Ok(Outcome::Success)
    }

    fn worker(settings: Settings, registry: &mut Registry) -> Result<Worker> {
        let wall = WallClock::default();
        let clock = move || wall.now();
        // Nobody is left to tell if this fails.
        let show = |sample: &Sample| drop(terminal::stdout(&format!("{sample}\n")));
        Ok(Worker::new(settings, clock, show, registry)?)
    }

    async fn once(&self, settings: Settings) -> Result<()> {
        let mut worker = Self::worker(settings, &mut Registry::default())?;
        let shutdown = signals::shutdown()?;
        let Some(tick) = shutdown.run_until_cancelled(worker.tick()).await else {
            bail!("it was ended before the tick was over");
        };
        match &tick.result {
            Ok(_) if self.dry_run => Ok(()),
            Ok(_) => terminal::stdout(&summary(&tick)).context("cannot write the answer"),
            Err(why) => bail!("{why}"),
        }
    }

    async fn serve(&self, settings: Settings) -> Result<()> {
        let shutdown = signals::shutdown()?;
        let mut registry = Registry::default();
        let worker = Self::worker(settings, &mut registry)?;
        let (health, pulse, ready) = TURNING.checks(&mut registry)?;
        // Answers are given until the very end.
        let over = CancellationToken::new();
        if let Some(listener) = self.listen.listen("--listen").await? {
            let pages = kelpie_health::metrics(Arc::new(registry))
                .merge(worker.routes())
                .merge(kelpie_health::routes(health.clone()))
                .merge(kelpie_health::healthz(health))
                .fallback(kelpie_health::not_found);
            info!("listening on http://{}", listener.local_addr()?);
            let over = over.clone().cancelled_owned();
            tokio::spawn(kelpie_health::serve(listener, pages, over));
        }
        if let Some(voice) = self.voice().await? {
            tokio::spawn(voice.run(worker.words()));
        }
        worker.run(shutdown, pulse, ready).await;
        over.cancel();
        Ok(())
    }

    /// Who tells the addon's status, if anybody does.
    async fn voice(&self) -> Result<Option<Voice>> {
        let Some(component) = self.component else {
            return Ok(None);
        };
        if self.no_status || self.dry_run {
            return Ok(None);
        }
        let spoke = self.spoke.connect("collector").await?;
        let writer = StatusWriter::new(spoke.objects(), self.spoke.addon());
        let reporter = Reporter::new(writer, self.uid.clone());
        let rollout = self.rollout.clone();
        Ok(Some(Voice::new(reporter, component.into(), rollout)))
    }
}

fn summary(tick: &Tick) -> String {
    let (accepted, refused) = (tick.accepted, tick.refused());
    match (accepted, refused) {
        (0, 0) => "nothing matched: there was nothing to send\n".to_owned(),
        (accepted, 0) => format!("{accepted} samples sent\n"),
        (accepted, refused) => format!("{accepted} samples sent, {refused} refused by the hub\n"),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        collector: Collector,
    }

    fn parse(flags: &[&str]) -> Collector {
        Alone::parse_from([&["kelpie"], flags].concat()).collector
    }

    #[test]
    fn what_the_operator_writes_is_understood() {
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
        assert!(to.identity.is_some() && to.roots.is_some());
    }

    #[test]
    fn a_label_that_is_given_is_not_elided() {
        let flags = ["--from=http://a", "--to=http://b", "--match=up"];
        for more in ["--label=prometheus=p", "--elide-label="] {
            let collector = parse(&[&flags[..], &[more]].concat());
            assert!(collector.forwarding.settings(None, false).is_ok(), "{more}");
        }
    }
}
