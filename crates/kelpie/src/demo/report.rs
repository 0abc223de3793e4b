//! The report at the end: the damage with and without Kelpie.

use std::fmt::Write;

use anstyle::Style;
use anyhow::Result;
use kelpie_sim::Damage;
use serde::Serialize;

use super::setup::DemoSetup;
use super::timeline::ActionCounts;
use crate::summary::pluralize;

/// The damage of two simulations with the same setup.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DamageReport<'a> {
    scenario: &'a str,
    #[serde(rename = "seed")]
    rng_seed: u64,
    clusters: usize,
    nodes: usize,
    with: Damage,
    without: Damage,
    #[serde(skip)]
    actions: ActionCounts,
}

impl<'a> DamageReport<'a> {
    /// Takes the damage with Kelpie, which did `actions`, and the damage without.
    pub(super) fn new(
        setup: &'a DemoSetup,
        actions: ActionCounts,
        (with, without): (Damage, Damage),
    ) -> Self {
        Self {
            scenario: &setup.scenario.name,
            rng_seed: setup.plan.rng_seed,
            clusters: setup.plan.clusters,
            nodes: setup.plan.nodes,
            with,
            without,
            actions,
        }
    }

    pub(super) fn json(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    pub(super) fn text(&self) -> String {
        let bold = Style::new().bold();
        let mut text = format!(
            "\n{bold}{:<24}{:>14}{:>16}{bold:#}\n",
            "result", "with Kelpie", "without"
        );
        let count = |number: u64| number.to_string();
        let Self { with, without, .. } = self;
        let mut rows = vec![
            (
                "nodes turned Unknown",
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
        let downtime = [with, without].map(|damage| damage.api_seconds_lost);
        if downtime.into_iter().any(|seconds| seconds > 0.0) {
            let [with, without] = downtime.map(minutes);
            rows.push(("API server downtime, min", with, without));
        }
        let [with, without] = [with, without].map(|damage| damage.seconds_to_normal.map(minutes));
        let never = || "never".to_owned();
        rows.push((
            "recovery time, min",
            with.unwrap_or_else(never),
            without.unwrap_or_else(never),
        ));
        for (label, with, without) in rows {
            let _ = writeln!(text, "{label:<24}{with:>14}{without:>16}");
        }
        let _ = writeln!(text, "\n{}", self.fence_summary());
        if self.actions.weeded > 0 {
            let pods = pluralize(
                self.actions.weeded,
                "crash-looping pod",
                "crash-looping pods",
            );
            let _ = writeln!(text, "{pods} deleted and recreated once etcd was back.");
        }
        text
    }

    /// Describes the fences with their smallest margin.
    fn fence_summary(&self) -> String {
        let ActionCounts { fences, late, .. } = self.actions;
        if fences == 0 {
            return "Nothing was fenced.".to_owned();
        }
        let fence_count = pluralize(fences, "fence", "fences");
        if late > 0 {
            return format!("{fence_count}, {late} too late.");
        }
        let margins = self.with.margins.iter().copied();
        match margins.reduce(f64::min) {
            Some(margin) if fences == 1 => {
                format!("{fence_count}, in time: {margin:.1} s before its deadline.")
            }
            Some(margin) => {
                format!(
                    "{fence_count}, all in time: at least {margin:.1} s before their deadlines."
                )
            }
            None => format!("{fence_count}, none too late."),
        }
    }
}

fn minutes(seconds: f64) -> String {
    format!("{:.1}", seconds / 60.0)
}
