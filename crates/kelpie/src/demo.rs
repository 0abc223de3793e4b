//! `kelpie demo`.
//!
//! Reading order: a [`stage`] is a simulated landscape with a scenario and, if somebody watches over
//! it, the real prober and weeder as a [`watchdog`]; a [`pace`] says how fast it is played. What happens there
//! becomes a [`story`], by the [`state`] of each cluster; a [`screen`] shows it, on a terminal
//! with the fleet as a [`table`]. What it came to is the [`report`]. Then one may [`keep`] the stage.

mod interrupt;
mod keep;
mod pace;
mod plot;
mod report;
mod screen;
mod stage;
mod state;
mod story;
mod table;
mod watchdog;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use kelpie_core::Time;
use kelpie_kube::WallClock;
use kelpie_sim::Plan;

use self::interrupt::Interrupt;
use self::pace::{Mood, Pace};
use self::plot::Plot;
use self::report::Report;
use self::screen::{Scene, Screen};
use self::stage::Stage;
use self::story::{Deeds, Story};
use crate::exit::Outcome;
use crate::terminal;

/// Show in a minute what Kelpie does, on a simulated fleet: no cluster, no network
///
/// The real prober and weeder watch over simulated clusters, in the same process and faster than
/// real time. Something goes wrong there, by the script of a scenario; the terminal shows how the
/// clusters that are cut off are fenced, how long before their deadlines, and restored. Then the
/// same is played once more without Kelpie, and the damage is compared. The figures come from what
/// happened there; the same seed gives the same story.
///
/// Scenarios are files, which docs/scenarios.md describes. These come with Kelpie:
///   partition    nodes of a third of the clusters are cut off
///   zone         two of three zones are
///   flapping     nodes come and go
///   api-outage   API servers are gone; nothing is to be fenced
///   clock-step   clocks are wrong, and a partition
///   rotation     kubeconfigs are rotated, and a partition
///   etcd-outage  etcds are gone, API servers crash; the weeder gets them back
///   seed-wide    nodes of all clusters are cut off at once
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Demo {
    /// What goes wrong: one of the names above, or a file
    #[arg(long, value_name = "NAME|FILE", default_value = "partition")]
    scenario: String,

    /// How many clusters there are
    #[arg(long, value_name = "N", default_value = "12", value_parser = clap::value_parser!(u16).range(1..=1_000))]
    clusters: u16,

    /// How many nodes each of them has
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u16).range(1..=500))]
    nodes: u16,

    /// Decides everything that is left to chance
    #[arg(long, value_name = "N", default_value = "0")]
    seed: u64,

    /// So many times as fast as real time [default: a minute for all, slower where it matters]
    #[arg(long, value_name = "N", value_parser = pace::speed, conflicts_with = "once")]
    speed: Option<f64>,

    /// Play it as fast as this machine can
    #[arg(long)]
    once: bool,

    /// Stay up when the story is over, with a kubeconfig for kubectl, until Ctrl-C
    #[arg(long)]
    keep: bool,

    /// How to answer; json is one object, and played as with --once
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people
    Text,
    /// For scripts: the damage with and without Kelpie
    Json,
}

impl Demo {
    pub(crate) fn run(&self) -> Result<Outcome> {
        if self.keep && self.output == Output::Json {
            let wrong = "--keep has more to say than the one object of --output json";
            return Err(crate::cli::usage_error(wrong));
        }
        match self.play() {
            Err(error) if terminal::has_left(&error) => Ok(Outcome::Success),
            result => result,
        }
    }

    fn play(&self) -> Result<Outcome> {
        let plot = self.plot()?;
        let interrupt = Interrupt::listen()?;
        let now = WallClock::default().now();
        let Some((mut stage, deeds)) = self.tell(&plot, now, &interrupt)? else {
            return Ok(Outcome::Interrupted);
        };
        let mut unwatched = Stage::unwatched(&plot, now)?;
        if !unwatched.begin(&plot, interrupt.token())? {
            return Ok(Outcome::Interrupted);
        }
        while !unwatched.is_over() {
            unwatched.play()?;
            if interrupt.is_told() {
                return Ok(Outcome::Interrupted);
            }
        }
        let damage = (stage.damage(), unwatched.damage());
        let report = Report::new(&plot, deeds, damage);
        let text = match self.output {
            Output::Text => report.text(),
            Output::Json => report.json()?,
        };
        terminal::stdout_while_read(&text).context("cannot write the report")?;
        if self.keep {
            stage.catch_up(interrupt.token())?;
            keep::keep(&stage, interrupt.token())?;
        }
        Ok(Outcome::Success)
    }

    fn plot(&self) -> Result<Plot> {
        let plan = Plan {
            seed: self.seed,
            ..Plan::of(self.clusters.into(), self.nodes.into())
        };
        Plot::new(plan, plot::find(&self.scenario)?)
    }

    /// Plays it with Kelpie and shows it; gives the stage as it is then, and what Kelpie did. `None`:
    /// somebody has seen enough.
    fn tell(
        &self,
        plot: &Plot,
        now: Time,
        interrupt: &Interrupt,
    ) -> Result<Option<(Stage, Deeds)>> {
        let is_silent = self.output == Output::Json;
        let mut pace = match self.speed {
            _ if self.once || is_silent => Pace::unbounded(),
            Some(speed) => Pace::steady(speed),
            None => Pace::of_a_story(plot.scenario.length),
        };
        let mut screen = match (is_silent, self.once) {
            (true, _) => Screen::Dark,
            (false, true) => Screen::Lines,
            (false, false) => Screen::fitting(),
        };
        screen.open(plot).context("cannot write the story")?;
        let mut stage = Stage::watched(plot, now)?;
        if !stage.begin(plot, interrupt.token())? {
            return Ok(None);
        }
        let mut story = Story::new(plot);
        while !stage.is_over() {
            stage.play()?;
            let fleet = stage.fleet();
            let lines = story.go_on(stage.elapsed(), &stage.take_happenings(), &fleet);
            pace.step(stage::FRAME, mood(&stage, &story));
            screen
                .show(&Scene::of(&stage, &story, &fleet), lines, pace.due())
                .context("cannot write the story")?;
            if interrupt.is_told_within(pace.wait()) {
                return Ok(None);
            }
        }
        screen
            .close(&Scene::of(&stage, &story, &stage.fleet()))
            .context("cannot write the story")?;
        let deeds = story.deeds();
        Ok(Some((stage, deeds)))
    }
}

fn mood(stage: &Stage, story: &Story) -> Mood {
    if stage.is_normal() {
        Mood::Over
    } else if story.is_tense() {
        Mood::Tense
    } else {
        Mood::Calm
    }
}
