//! What it came to, with Kelpie and without.

use std::fmt::Write;

use anstyle::Style;
use anyhow::Result;
use kelpie_sim::Damage;
use serde::Serialize;

use super::plot::Plot;
use super::story::Fences;

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
    #[serde(skip)]
    fences: Fences,
}

impl<'a> Report<'a> {
    pub(super) fn new(plot: &'a Plot, (with, fences): (Damage, Fences), without: Damage) -> Self {
        Self {
            scenario: &plot.scenario.name,
            seed: plot.plan.seed,
            clusters: plot.plan.clusters,
            nodes: plot.plan.nodes,
            with,
            without,
            fences,
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
        let _ = writeln!(text, "\n{}", self.closeness());
        text
    }

    /// How close it was.
    fn closeness(&self) -> String {
        let Fences { all, late } = self.fences;
        let fences = match all {
            0 => return "Nothing was fenced.".to_owned(),
            1 => "1 fence".to_owned(),
            count => format!("{count} fences"),
        };
        if late > 0 {
            return format!("{fences}, {late} of them too late.");
        }
        let margins = self.with.margins.iter().copied();
        match margins.reduce(f64::min) {
            Some(least) => format!("{fences}, each in time: {least:.1} s or more to spare."),
            None => format!("{fences}, none too late."),
        }
    }
}

fn minutes(damage: &Damage) -> String {
    let seconds = damage.seconds_to_normal;
    seconds.map_or("never".to_owned(), |seconds| {
        format!("{:.1}", seconds / 60.0)
    })
}
