//! `kelpie demo`.
//!
//! A [`simulation`] runs a scenario on simulated clusters in virtual time, with the real prober and
//! weeder (the [`watchdog`]) or without them. [`playback`] relates virtual time to real time. After
//! each frame the [`timeline`] turns events, the [`leadership`] of the replicas and the
//! [`cluster_phase`] of each cluster into lines, which the [`renderer`] prints; on a terminal it
//! also draws the [`cluster_table`]. The [`report`] compares the damage with and without Kelpie.
//! With `--keep`, [`keep_running`] then serves the simulated clusters.

mod cluster_phase;
mod cluster_table;
mod interrupt;
mod keep_running;
mod leadership;
mod playback;
mod renderer;
mod report;
mod setup;
mod simulation;
mod terminal;
mod timeline;
mod watchdog;

use std::mem;

use anyhow::{Context, Result};
use clap::Args;
use kelpie_core::Time;
use kelpie_kube::SystemClock;
use kelpie_sim::scenario::MAX_REPLICAS;
use kelpie_sim::{LandscapePlan, Platform};

use self::interrupt::Interrupt;
use self::playback::{FrameSpeed, Playback};
use self::renderer::{DemoFrame, Renderer};
use self::report::DamageReport;
use self::setup::DemoSetup;
use self::simulation::Simulation;
use self::timeline::{ActionCounts, Timeline};
use self::watchdog::Protection;
use crate::exit::ExitStatus;
use crate::output_format::OutputFormat;

/// See Kelpie at work for a minute, on simulated clusters; needs no cluster and no network
///
/// The real prober and weeder watch over simulated clusters, in this process and faster than real
/// time. A scenario breaks something there. The demo shows which clusters are cut off, how long
/// before its deadline each is fenced, and when it is restored. Then it runs the same scenario
/// without Kelpie and compares the damage. All figures are measured in the simulation; the same
/// --seed gives the same run.
///
/// A cluster's deadline is the instant at which its first node can turn Unknown. The columns KCM,
/// MCM and CA show the running pods of kube-controller-manager, machine-controller-manager and
/// cluster-autoscaler.
///
/// With --replicas 2, two replicas elect a leader, as in production. The faults `crash` and `pause`
/// hit the leader of the prober. Any replica may fence: a standby stops kube-controller-manager if
/// the leader has fenced nothing a second after the standby's own verdict. Only the leader
/// restores.
///
/// With --guard, the prober scales nothing: a policy in each cluster keeps kube-controller-manager
/// from turning nodes Unknown that fell silent together, see docs/concepts/guard.md.
///
/// With --source cluster-api, the seed is a management cluster of Cluster API. The prober pauses
/// the MachineHealthChecks of a cluster that is cut off, so that no machine is replaced. Their
/// column is MHC. Only the guard keeps the nodes from turning Unknown there.
///
/// A scenario is a file, see docs/reference/scenarios.md. Built-in scenarios:
///   partition    the nodes of a third of the clusters are cut off
///   zone         two of three zones are cut off
///   flapping     nodes are cut off and reconnected repeatedly
///   api-outage   API servers are down; nothing must be fenced
///   clock-step   clocks are wrong, and nodes are cut off
///   rotation     kubeconfigs are rotated, and nodes are cut off
///   etcd-outage  etcd is down and API servers crash; the weeder restarts them
///   seed-wide    the nodes of all clusters are cut off at once
///   slow-seed    the seed's API server becomes slow, and nodes are cut off
///   failover     the leader of two replicas dies, and nodes are cut off
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Demo {
    /// Scenario: one of the names above, or a file
    #[arg(long, value_name = "NAME|FILE", default_value = "partition")]
    scenario: String,

    /// Number of clusters
    #[arg(
        long,
        value_name = "N",
        default_value = "12",
        value_parser = parse_count::<1_000>
    )]
    clusters: u16,

    /// Number of nodes per cluster
    #[arg(
        long,
        value_name = "N",
        default_value = "5",
        value_parser = parse_count::<500>
    )]
    nodes: u16,

    /// Number of replicas of the prober and of the weeder, up to 3 [default: 1; in failover, 2]
    #[arg(long, value_name = "N", value_parser = parse_count::<MAX_REPLICAS>)]
    replicas: Option<u16>,

    /// Guard the nodes instead of scaling controllers: nothing has to be restored
    #[arg(long)]
    guard: bool,

    /// Platform of the clusters: `cluster-api` has no controllers to scale, but MachineHealthChecks
    #[arg(long, value_name = "SOURCE", default_value = "gardener")]
    source: DemoSource,

    /// Seed of the random number generator
    #[arg(long, value_name = "N", default_value = "0")]
    seed: u64,

    /// Speed-up factor [default: about a minute in total, slower while a deadline is near]
    #[arg(long, value_name = "N", value_parser = playback::parse_speed, conflicts_with = "once")]
    speed: Option<f64>,

    /// Run as fast as possible
    #[arg(long)]
    once: bool,

    /// Keep the simulated clusters running afterwards, with a kubeconfig for kubectl, until Ctrl-C
    #[arg(long)]
    keep: bool,

    /// Output format; json prints the damage with and without Kelpie, and implies --once
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: OutputFormat,
}

/// The platform of the simulated clusters.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum DemoSource {
    Gardener,
    ClusterApi,
}

impl Demo {
    pub(crate) fn run(&self) -> Result<ExitStatus> {
        if self.keep && self.output == OutputFormat::Json {
            let message = "--keep cannot be used with --output json";
            return Err(crate::cli::usage_error(message));
        }
        match self.run_both() {
            Err(error) if terminal::is_broken_pipe(&error) => Ok(ExitStatus::Success),
            result => result,
        }
    }

    /// Runs the scenario with and without Kelpie and prints the report.
    fn run_both(&self) -> Result<ExitStatus> {
        let setup = self.setup()?;
        let interrupt = Interrupt::listen()?;
        let now = SystemClock::default().now();
        let Some((mut with_kelpie, actions)) = self.run_with_kelpie(&setup, now, &interrupt)?
        else {
            return Ok(ExitStatus::Interrupted);
        };
        let mut without_kelpie = Simulation::without_watchdog(&setup, now)?;
        if !without_kelpie.start_scenario(&setup, interrupt.token())? {
            return Ok(ExitStatus::Interrupted);
        }
        while !without_kelpie.is_finished() {
            without_kelpie.step()?;
            if interrupt.is_interrupted() {
                return Ok(ExitStatus::Interrupted);
            }
        }
        let damage = (with_kelpie.damage(), without_kelpie.damage());
        let report = DamageReport::new(&setup, actions, damage);
        let text = match self.output {
            OutputFormat::Text => report.text(),
            OutputFormat::Json => report.json()?,
        };
        terminal::write(&text).context("cannot write the report")?;
        if self.keep {
            with_kelpie.catch_up(interrupt.token())?;
            keep_running::keep_running(&with_kelpie, interrupt.token())?;
        }
        Ok(ExitStatus::Success)
    }

    fn setup(&self) -> Result<DemoSetup> {
        let plan = LandscapePlan {
            rng_seed: self.seed,
            platform: match self.source {
                DemoSource::Gardener => Platform::Gardener,
                DemoSource::ClusterApi => Platform::ClusterApi,
            },
            ..LandscapePlan::with_size(self.clusters.into(), self.nodes.into())
        };
        let scenario = setup::find_scenario(&self.scenario)?;
        let protection = if self.guard {
            Protection::Guard
        } else {
            Protection::Fence
        };
        DemoSetup::new(plan, scenario, self.replicas, protection)
    }

    /// Runs the scenario with Kelpie and shows it. Returns the simulation in its final state and
    /// the counts of Kelpie's actions, or `None` if the user interrupted it.
    fn run_with_kelpie(
        &self,
        setup: &DemoSetup,
        now: Time,
        interrupt: &Interrupt,
    ) -> Result<Option<(Simulation, ActionCounts)>> {
        let is_silent = self.output == OutputFormat::Json;
        let mut playback = match self.speed {
            _ if self.once || is_silent => Playback::unlimited(),
            Some(speed) => Playback::constant(speed),
            None => Playback::adaptive(setup.scenario.length),
        };
        let mut renderer = match (is_silent, self.once) {
            (true, _) => Renderer::Silent,
            (false, true) => Renderer::Lines,
            (false, false) => Renderer::for_stdout(),
        };
        renderer
            .print_header(setup)
            .context("cannot write the output")?;
        let mut simulation = Simulation::with_watchdog(setup, now)?;
        if !simulation.start_scenario(setup, interrupt.token())? {
            return Ok(None);
        }
        let mut timeline = Timeline::new(setup);
        let (events, changes) = (simulation.take_events(), simulation.take_replica_changes());
        let mut lines = Vec::from_iter(timeline.begin(&events, &changes));
        while !simulation.is_finished() {
            simulation.step()?;
            let clusters = simulation.clusters();
            let events = simulation.take_events();
            let changes = simulation.take_replica_changes();
            lines.extend(timeline.update(simulation.elapsed, &events, &changes, &clusters));
            playback.advance(simulation::FRAME, frame_speed(&simulation, &timeline));
            let frame = DemoFrame {
                elapsed: simulation.elapsed,
                timeline: &timeline,
                clusters: &clusters,
            };
            renderer
                .render(&frame, mem::take(&mut lines), playback.due())
                .context("cannot write the output")?;
            if interrupt.wait(playback.until_due()) {
                return Ok(None);
            }
        }
        let clusters = simulation.clusters();
        let frame = DemoFrame {
            elapsed: simulation.elapsed,
            timeline: &timeline,
            clusters: &clusters,
        };
        renderer.finish(&frame).context("cannot write the output")?;
        Ok(Some((simulation, timeline.actions)))
    }
}

/// Parses a number from 1 to `MAX`.
fn parse_count<const MAX: u16>(text: &str) -> Result<u16, String> {
    let count = text.parse().ok().filter(|count| (1..=MAX).contains(count));
    count.ok_or_else(|| format!("expected a number from 1 to {MAX}"))
}

fn frame_speed(simulation: &Simulation, timeline: &Timeline) -> FrameSpeed {
    if simulation.is_back_to_normal() {
        FrameSpeed::Skip
    } else if timeline.is_critical() {
        FrameSpeed::Slow
    } else {
        FrameSpeed::Normal
    }
}
