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
    replicas: u16,
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
            replicas: setup.replicas,
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
        let mut row = |label: &str, show: fn(&Damage) -> String| {
            let (with, without) = (show(&self.with), show(&self.without));
            let _ = writeln!(text, "{label:<24}{with:>14}{without:>16}");
        };
        row("nodes turned Unknown", |damage| {
            damage.nodes_unknown.to_string()
        });
        row("machines replaced", |damage| {
            damage.machines_replaced.to_string()
        });
        row("pods evicted", |damage| damage.pods_evicted.to_string());
        if self.with.api_seconds_lost > 0.0 || self.without.api_seconds_lost > 0.0 {
            row("API server downtime, min", |damage| {
                minutes(damage.api_seconds_lost)
            });
        }
        row("recovery time, min", |damage| {
            damage
                .seconds_to_normal
                .map_or_else(|| "never".to_owned(), minutes)
        });
        let _ = writeln!(text, "\n{}", self.fence_summary());
        if self.actions.by_standby > 0 {
            let _ = writeln!(text, "Made by a standby: {}.", self.actions.by_standby);
        }
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
        let ActionCounts {
            fences,
            late,
            holds,
            pauses,
            ..
        } = self.actions;
        if pauses > 0 {
            let times = pluralize(pauses, "time", "times");
            let held = match holds {
                0 => String::new(),
                _ => format!(" The guard held the nodes of a cluster {holds} times."),
            };
            return format!(
                "Nothing was scaled. The MachineHealthCheck of a cluster was paused {times}.{held}"
            );
        }
        if fences == 0 && holds > 0 {
            let times = pluralize(holds, "time", "times");
            return format!("Nothing was scaled. The guard held the nodes of a cluster {times}.");
        }
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
