//! The result of a replay.

use std::collections::BTreeMap;

use kelpie_core::Time;
use kelpie_core::prober::{Decision, Verdict};
use serde::Serialize;
use serde_json::Value;

use super::line::CallLine;

/// The decisions of a record, made again.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplayReport {
    /// The version of the recorded prober.
    pub kelpie: String,
    /// The recorded replicas.
    pub replicas: Vec<String>,
    /// The number of files.
    pub files: u64,
    /// The instant of the first decision.
    pub from: Option<Time>,
    /// The instant of the last decision.
    pub to: Option<Time>,
    /// The number of decisions.
    pub decisions: u64,
    /// The decisions that the recorded configuration does not lead to. Zero, unless this version
    /// decides otherwise than the recorded one.
    pub different: u64,
    /// Those of them whose verdict differs too.
    pub different_verdicts: u64,
    /// Lines that the record lacks.
    pub lost_lines: u64,
    /// Inputs that could not be replayed, because the state before them is not in the record.
    pub skipped_lines: u64,
    /// Files whose last line is incomplete.
    pub cut_off_files: u64,
    /// The settings of the other configuration that differ.
    pub changed_settings: Vec<ChangedSetting>,
    /// Each cluster.
    pub clusters: BTreeMap<String, ClusterReport>,
}

/// A setting that differs between the recorded configuration and the other one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangedSetting {
    /// The key in the file.
    pub name: String,
    /// The recorded value.
    pub recorded: Value,
    /// The value in the other configuration.
    pub other: Value,
}

/// One cluster of a replay.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterReport {
    /// The number of decisions.
    pub decisions: u64,
    /// The decisions that the recorded configuration does not lead to.
    pub different: u64,
    /// The first of them.
    pub first_different: Option<Time>,
    /// The fences of the record.
    pub recorded: Vec<WantedFence>,
    /// The fences with the other configuration; `None` without one.
    pub other: Option<Vec<WantedFence>>,
}

/// A fence that was wanted.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WantedFence {
    /// The first decision for the fence.
    pub wanted_at: Time,
    /// The reasons of that decision.
    pub reason: String,
    /// The time that was left then to the first node that could turn Unknown, in seconds.
    pub margin_seconds: Option<f64>,
    /// The last target that was fenced. A fence that was not made has none.
    pub fenced_at: Option<Time>,
    /// The first decision to restore.
    pub released_at: Option<Time>,
}

impl ClusterReport {
    pub(super) fn decided(&mut self, at: Time, is_same: bool) {
        self.decisions += 1;
        if !is_same {
            self.different += 1;
            self.first_different.get_or_insert(at);
        }
    }

    /// Pairs the fences of both configurations that overlap in time.
    pub fn pairs(&self) -> Vec<(Option<&WantedFence>, Option<&WantedFence>)> {
        let mut others: Vec<&WantedFence> = self.other.iter().flatten().collect();
        let mut pairs = Vec::new();
        for recorded in &self.recorded {
            let other = others.iter().position(|other| recorded.overlaps(other));
            pairs.push((Some(recorded), other.map(|index| others.remove(index))));
        }
        pairs.extend(others.into_iter().map(|other| (None, Some(other))));
        let at = |pair: &(Option<&WantedFence>, Option<&WantedFence>)| {
            pair.0.or(pair.1).map(|fence| fence.wanted_at)
        };
        pairs.sort_by_key(at);
        pairs
    }
}

impl WantedFence {
    fn overlaps(&self, other: &Self) -> bool {
        let end = |fence: &Self| fence.released_at.unwrap_or(Time::MAX);
        self.wanted_at <= end(other) && other.wanted_at <= end(self)
    }
}

/// The fences of one cluster under one configuration, as the verdicts begin and end them.
#[derive(Debug, Default)]
pub(super) struct FenceLog {
    pub(super) fences: Vec<WantedFence>,
    is_open: bool,
}

impl FenceLog {
    /// Takes in a decision of a replay.
    pub(super) fn decided(&mut self, at: Time, decision: &Decision) {
        self.recorded(at, decision.verdict, decision);
    }

    /// Takes in a recorded verdict, with the same decision of a replay.
    pub(super) fn recorded(&mut self, at: Time, verdict: Verdict, decision: &Decision) {
        match verdict {
            Verdict::Fence if !self.is_open => {
                let deadline = decision.trip_deadline.or(decision.deadline);
                self.is_open = true;
                self.fences.push(WantedFence {
                    wanted_at: at,
                    reason: decision.reasons.to_string(),
                    margin_seconds: deadline.map(|deadline| seconds(at, deadline)),
                    fenced_at: None,
                    released_at: None,
                });
            }
            Verdict::Release if self.is_open => {
                self.is_open = false;
                if let Some(fence) = self.fences.last_mut() {
                    fence.released_at = Some(at);
                }
            }
            _ => {}
        }
    }

    /// Takes in a call of the recorded prober.
    pub(super) fn called(&mut self, call: &CallLine) {
        let is_fence = call.call == "fence" && call.result == "written";
        if let Some(fence) = self.fences.last_mut().filter(|_| is_fence && self.is_open) {
            fence.fenced_at = Some(call.at);
        }
    }
}

/// Returns the seconds from `from` to `to`, negative if `to` is earlier.
fn seconds(from: Time, to: Time) -> f64 {
    to.since(from).as_secs_f64() - from.since(to).as_secs_f64()
}
