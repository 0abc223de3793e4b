//! What it came to, with Kelpie and without.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};
use anyhow::Result;
use kelpie_sim::Damage;
use serde::Serialize;

use super::plot::Plot;

/// The damage of the same scenario and seed, twice.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report<'a> {
    scenario: &'a str,
    seed: u64,
    clusters: usize,
    nodes: usize,
    with: Damage,
    without: Damage,
}

impl<'a> Report<'a> {
    pub(super) fn new(plot: &'a Plot, with: Damage, without: Damage) -> Self {
        Self {
            scenario: &plot.scenario.name,
            seed: plot.plan.seed,
            clusters: plot.plan.clusters,
            nodes: plot.plan.nodes,
            with,
            without,
        }
    }

    pub(super) fn json(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    pub(super) fn text(&self) -> String {
        let bold = Style::new().bold();
        let mut text = format!(
            "\n{bold}{:<24}{:>14}{:>16}{bold:#}\n",
            "what it came to", "with Kelpie", "without"
        );
        let count = |number: u64| number.to_string();
        let Self { with, without, .. } = self;
        for (words, with, without) in [
            (
                "nodes gone Unknown",
                count(with.nodes_unknown),
                count(without.nodes_unknown),
            ),
            (
                "machines replaced",
                count(with.machines_replaced),
                count(without.machines_replaced),
            ),
            (
                "pods evicted",
                count(with.pods_evicted),
                count(without.pods_evicted),
            ),
            ("minutes to normal", minutes(with), minutes(without)),
        ] {
            let _ = writeln!(text, "{words:<24}{with:>14}{without:>16}");
        }
        let _ = writeln!(text, "\n{}", self.fences());
        text
    }

    /// How close it was.
    fn fences(&self) -> String {
        let margins = &self.with.margins;
        let least = margins.iter().copied().reduce(f64::min);
        let most = margins.iter().copied().reduce(f64::max);
        let (Some(least), Some(most)) = (least, most) else {
            return "Nothing was fenced.".to_owned();
        };
        let late = margins.iter().filter(|margin| **margin < 0.0).count();
        let fences = match margins.len() {
            1 => "1 fence".to_owned(),
            count => format!("{count} fences"),
        };
        if late > 0 {
            let red = Style::new().fg_color(Some(AnsiColor::Red.into()));
            return format!("{fences}, {red}{late} after the deadline{red:#}.");
        }
        format!(
            "{fences}, each before its deadline: by {least:.1} s at least, {most:.1} s at most."
        )
    }
}

fn minutes(damage: &Damage) -> String {
    let seconds = damage.seconds_to_normal;
    seconds.map_or("never".to_owned(), |seconds| {
        format!("{:.1}", seconds / 60.0)
    })
}
