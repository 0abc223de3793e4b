//! What it came to, with Kelpie and without.

use std::fmt::Write;

use anstyle::Style;
use anyhow::Result;
use kelpie_sim::Damage;
use serde::Serialize;

use super::plot::Plot;
use super::story::Deeds;
use crate::summary::counted;

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
    deeds: Deeds,
}

impl<'a> Report<'a> {
    /// With Kelpie, who did these deeds, and without.
    pub(super) fn new(plot: &'a Plot, deeds: Deeds, (with, without): (Damage, Damage)) -> Self {
        Self {
            scenario: &plot.scenario.name,
            seed: plot.plan.seed,
            clusters: plot.plan.clusters,
            nodes: plot.plan.nodes,
            with,
            without,
            deeds,
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
        let mut rows = vec![
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
        ];
        let lost = [with, without].map(|damage| damage.api_seconds_lost);
        if lost.into_iter().any(|lost| lost > 0.0) {
            let [with, without] = lost.map(minutes);
            rows.push(("API server minutes lost", with, without));
        }
        let [with, without] = [with, without].map(|damage| damage.seconds_to_normal.map(minutes));
        let never = || "never".to_owned();
        rows.push((
            "minutes to normal",
            with.unwrap_or_else(never),
            without.unwrap_or_else(never),
        ));
        for (words, with, without) in rows {
            let _ = writeln!(text, "{words:<24}{with:>14}{without:>16}");
        }
        let _ = writeln!(text, "\n{}", self.closeness());
        if self.deeds.weeded > 0 {
            let pods = counted(self.deeds.weeded, "crashing pod", "crashing pods");
            let _ = writeln!(
                text,
                "{pods} deleted when etcd was back, and made anew at once."
            );
        }
        text
    }

    /// How close it was.
    fn closeness(&self) -> String {
        let Deeds { fences, late, .. } = self.deeds;
        if fences == 0 {
            return "Nothing was fenced.".to_owned();
        }
        let fences = counted(fences, "fence", "fences");
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

fn minutes(seconds: f64) -> String {
    format!("{:.1}", seconds / 60.0)
}
