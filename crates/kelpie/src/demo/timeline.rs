//! Describes what happens in a simulation, line by line.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use kelpie_sim::scenario::{Fault, Incident};
use kelpie_sim::{ClusterSnapshot, LandscapePlan, Platform, PodTransition, SimEvent, SimEventKind};

use super::cluster_phase::ClusterPhase;
use super::leadership::{ChangedReplica, Leadership, ReplicaName};
use super::setup::DemoSetup;
use super::watchdog::{ReplicaChange, ReplicaState};

/// A line of the timeline, such as `t+01:25 shoot--a: fenced 5.5 s before its deadline`.
#[derive(Debug)]
pub(super) struct TimelineLine {
    at: Duration,
    text: String,
    style: Style,
}

/// Turns events and snapshots into lines, and counts Kelpie's actions.
pub(super) struct Timeline {
    incidents: Vec<Incident>,
    plan: LandscapePlan,
    /// In the order of the snapshots.
    clusters: Vec<TrackedCluster>,
    /// The replicas of the prober.
    pub(super) leadership: Leadership,
    /// Kelpie's actions so far.
    pub(super) actions: ActionCounts,
}

/// The state of a cluster at the last update.
#[derive(Clone, Copy, Debug)]
struct TrackedCluster {
    phase: ClusterPhase,
    was_fenced: bool,
    /// True while the MachineHealthCheck is paused.
    is_paused: bool,
    /// True from a crash of the API server until it runs again.
    has_crashed: bool,
}

/// The number of Kelpie's actions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ActionCounts {
    pub(super) fences: u32,
    /// The times that a cluster's nodes were held by the guard.
    pub(super) holds: u32,
    /// The times that a cluster's MachineHealthCheck was paused.
    pub(super) pauses: u32,
    /// The fences after their deadline.
    pub(super) late: u32,
    /// The fences by a replica that was not the leader.
    pub(super) by_standby: u32,
    /// The crash-looping pods that were deleted.
    pub(super) weeded: u32,
}

impl ActionCounts {
    /// Counts a fence. Without a margin there was no deadline: the nodes are already back, or
    /// already Unknown.
    fn add_fence(&mut self, margin: Option<f64>, unknown: usize, replica: Option<&ReplicaName>) {
        self.fences += 1;
        if replica.is_some_and(ReplicaName::is_standby) {
            self.by_standby += 1;
        }
        if margin.map_or(unknown > 0, |margin| margin < 0.0) {
            self.late += 1;
        }
    }
}

impl Timeline {
    pub(super) fn new(setup: &DemoSetup) -> Self {
        Self {
            incidents: setup.scenario.incidents.clone(),
            plan: setup.plan.clone(),
            clusters: vec![
                TrackedCluster {
                    phase: ClusterPhase::Healthy,
                    was_fenced: false,
                    is_paused: false,
                    has_crashed: false,
                };
                setup.plan.clusters
            ],
            leadership: Leadership::default(),
            actions: ActionCounts::default(),
        }
    }

    /// Takes in the time before the scenario. Returns a line about the replicas, if there are
    /// several.
    pub(super) fn begin(
        &mut self,
        events: &[SimEvent],
        changes: &[ReplicaChange],
    ) -> Option<TimelineLine> {
        self.leadership.update(events, changes);
        Some(TimelineLine {
            at: Duration::ZERO,
            text: self.leadership.summary()?,
            style: Style::new(),
        })
    }

    /// Returns the lines for a frame that ends at `at`. `events` and `changes` are those of the
    /// frame, and `snapshots` the clusters at its end.
    pub(super) fn update(
        &mut self,
        at: Duration,
        events: &[SimEvent],
        changes: &[ReplicaChange],
        snapshots: &[ClusterSnapshot],
    ) -> Vec<TimelineLine> {
        let mut lines = Vec::new();
        let mut add = |text: String, style| lines.push(TimelineLine { at, text, style });
        let (mut changed, leader_changes) = self.leadership.update(events, changes);
        for event in events {
            match &event.kind {
                SimEventKind::FaultBegan { fault } => {
                    let style = colour(AnsiColor::Yellow).bold();
                    add(self.describe_fault(fault, &mut changed), style);
                }
                SimEventKind::FaultEnded { fault } => {
                    let text = self.describe_end(fault, &mut changed);
                    add(text, Style::new().bold());
                }
                _ => {}
            }
        }
        for text in leader_changes {
            add(text, colour(AnsiColor::Cyan));
        }
        for (text, style) in describe_damage(events) {
            add(text, style);
        }
        for (transition, clusters) in group_transitions(events) {
            match transition {
                PodTransition::Crashed(wait) => {
                    let crashed =
                        name_or_count(&clusters, "API server crashed", "API servers crashed");
                    let text = format!("{crashed}; next restart in {}", format_duration(wait));
                    add(text, colour(AnsiColor::Yellow));
                }
                PodTransition::Replaced => {
                    let (one, many) = ("crash-looping pod deleted", "crash-looping pods deleted");
                    let text = format!("{} and recreated", name_or_count(&clusters, one, many));
                    add(text, colour(AnsiColor::Cyan));
                    self.actions.weeded += u32::try_from(clusters.len()).unwrap_or(u32::MAX);
                }
                // The pod may crash again. The snapshots show when the API server runs.
                PodTransition::Started => {}
            }
            for (snapshot, tracked) in snapshots.iter().zip(&mut self.clusters) {
                tracked.has_crashed |= clusters.contains(&&*snapshot.cluster);
            }
        }
        let mut recovered = Vec::new();
        for (snapshot, tracked) in snapshots.iter().zip(&mut self.clusters) {
            if tracked.has_crashed && !snapshot.is_down {
                tracked.has_crashed = false;
                recovered.push(&*snapshot.cluster);
            }
        }
        if !recovered.is_empty() {
            let (one, many) = ("API server running again", "API servers running again");
            let text = name_or_count(&recovered, one, many);
            add(text, colour(AnsiColor::Green));
        }
        for (text, style) in self.describe_pauses(snapshots) {
            add(text, style);
        }
        for (snapshot, tracked) in snapshots.iter().zip(&mut self.clusters) {
            let (before, was_fenced) = (tracked.phase, &mut tracked.was_fenced);
            let phase = ClusterPhase::of(snapshot, self.plan.nodes, *was_fenced);
            tracked.phase = phase;
            let cluster = &snapshot.cluster;
            match (before, phase) {
                (ClusterPhase::Fenced(_), ClusterPhase::Fenced(_))
                | (ClusterPhase::Held, ClusterPhase::Held)
                | (ClusterPhase::Restored, ClusterPhase::Restored) => {}
                (_, ClusterPhase::Fenced(margin)) => {
                    *was_fenced = true;
                    let replica = self.leadership.fenced_by(cluster);
                    self.actions.add_fence(margin, snapshot.unknown, replica);
                    let text = describe_fence(margin, snapshot.unknown, replica);
                    add(format!("{cluster}: {text}"), phase.style());
                }
                (_, ClusterPhase::Held) => {
                    self.actions.holds += 1;
                    let text = format!(
                        "{cluster}: past its deadline; the guard holds {} of {} nodes",
                        snapshot.held, self.plan.nodes
                    );
                    add(text, phase.style());
                }
                (ClusterPhase::Held, ClusterPhase::Healthy) => {
                    let text = format!("{cluster}: healthy again, nothing to restore");
                    add(text, colour(AnsiColor::Green));
                }
                (_, ClusterPhase::Restored) => {
                    let text = format!("{cluster}: restored, all controllers as before");
                    add(text, phase.style());
                }
                _ => {}
            }
        }
        lines
    }

    /// Describes the MachineHealthChecks that were paused or resumed.
    fn describe_pauses(&mut self, snapshots: &[ClusterSnapshot]) -> Vec<(String, Style)> {
        if self.plan.platform != Platform::ClusterApi {
            return Vec::new();
        }
        let mut lines = Vec::new();
        for (snapshot, tracked) in snapshots.iter().zip(&mut self.clusters) {
            let health_check = snapshot.controllers.last();
            let is_paused = health_check.is_some_and(|check| check.present == 0);
            let was_paused = std::mem::replace(&mut tracked.is_paused, is_paused);
            let (change, style) = match (was_paused, is_paused) {
                (false, true) => {
                    self.actions.pauses += 1;
                    ("paused; no machine is replaced", colour(AnsiColor::Cyan))
                }
                (true, false) => ("resumed", colour(AnsiColor::Green)),
                _ => continue,
            };
            let cluster = &snapshot.cluster;
            lines.push((format!("{cluster}: MachineHealthCheck {change}"), style));
        }
        lines
    }

    /// Returns the platform of the clusters.
    pub(super) fn platform(&self) -> Platform {
        self.plan.platform
    }

    /// Returns the phases of the clusters, in the order of the snapshots.
    pub(super) fn phases(&self) -> impl Iterator<Item = ClusterPhase> {
        self.clusters.iter().map(|tracked| tracked.phase)
    }

    /// Returns true if a fence or a restore is about to happen in a cluster.
    pub(super) fn is_critical(&self) -> bool {
        self.phases().any(ClusterPhase::is_critical)
    }

    /// Finds an incident by its text, which is how events refer to it.
    fn incident(&self, text: &str) -> Option<&Incident> {
        self.incidents
            .iter()
            .find(|incident| incident.to_string() == text)
    }

    /// Describes the fault of the incident with this text, such as `partition of all nodes in 5 of
    /// 12 clusters for 15 min`. A fault of the watchdog names the replica that it hit.
    fn describe_fault(&self, text: &str, changed: &mut Vec<ChangedReplica>) -> String {
        let Some(incident) = self.incident(text) else {
            return text.to_owned();
        };
        let mut fault = incident.fault.to_string();
        if incident.fault.is_instant() {
            return fault;
        }
        let lasts = incident.lasts.unwrap_or_default();
        let duration = format_duration(lasts);
        match incident.fault {
            Fault::Crash => {
                let delay = format_delay(lasts);
                let crashed = take_changed(changed, ReplicaState::Crashed)
                    .map(|replica| format!("{replica} crashed; a new one starts {delay}"));
                return crashed.unwrap_or_else(|| "no prober is left to crash".to_owned());
            }
            Fault::Pause => {
                let paused = take_changed(changed, ReplicaState::Paused)
                    .map(|replica| format!("{replica} is paused for {duration}"));
                return paused.unwrap_or_else(|| "no prober is left to pause".to_owned());
            }
            _ => {}
        }
        if !incident.fault.is_global() {
            let affected = self.plan.cluster_numbers(&incident.clusters).len();
            fault = match (affected, self.plan.clusters) {
                (affected, all) if affected == all => format!("{fault} in all clusters"),
                (affected, all) => format!("{fault} in {affected} of {all} clusters"),
            };
        }
        format!("{fault} for {duration}")
    }

    /// Describes the end of the incident with this text.
    fn describe_end(&self, text: &str, changed: &mut Vec<ChangedReplica>) -> String {
        let fault = self.incident(text).map(|incident| &incident.fault);
        let replica = match fault {
            Some(Fault::Crash) => take_changed(changed, ReplicaState::Started)
                .map(|replica| format!("{} started", replica.new_name())),
            Some(Fault::Pause) => take_changed(changed, ReplicaState::Resumed)
                .map(|replica| format!("{} runs again", replica.name())),
            _ => None,
        };
        replica.unwrap_or_else(|| {
            let fault = fault.map_or_else(|| text.to_owned(), Fault::to_string);
            format!("ended: {fault}")
        })
    }
}

/// Takes the first replica that changed to this state.
fn take_changed(changed: &mut Vec<ChangedReplica>, state: ReplicaState) -> Option<ReplicaName> {
    let index = changed.iter().position(|(own, _)| *own == state)?;
    Some(changed.remove(index).1)
}

/// Formats a delay as `in 15 min` or `at once`.
fn format_delay(delay: Duration) -> String {
    if delay.is_zero() {
        return "at once".to_owned();
    }
    format!("in {}", format_duration(delay))
}

/// Formats full minutes as `15 min`, other durations as `90 s` or `0.5 s`.
fn format_duration(duration: Duration) -> String {
    match duration.as_secs() {
        _ if duration.subsec_nanos() > 0 => format!("{} s", duration.as_secs_f64()),
        seconds if seconds >= 60 && seconds.is_multiple_of(60) => format!("{} min", seconds / 60),
        seconds => format!("{seconds} s"),
    }
}

/// Describes a fence, by this replica if there are several.
fn describe_fence(margin: Option<f64>, unknown: usize, replica: Option<&ReplicaName>) -> String {
    let by = replica.map(|replica| format!(" by {replica}"));
    let by = by.unwrap_or_default();
    match margin {
        None if unknown > 0 => format!("fenced{by} too late for {unknown} nodes"),
        None => format!("fenced{by} while its nodes were reconnecting"),
        Some(margin) if margin < 0.0 => format!("fenced{by} {:.1} s after its deadline", -margin),
        Some(margin) => format!("fenced{by} {margin:.1} s before its deadline"),
    }
}

/// Groups the transitions of API server pods by kind, with the clusters of each.
fn group_transitions(events: &[SimEvent]) -> Vec<(PodTransition, Vec<&str>)> {
    let mut groups: Vec<(PodTransition, Vec<&str>)> = Vec::new();
    for event in events {
        let SimEventKind::ApiServerPod {
            cluster,
            transition,
        } = &event.kind
        else {
            continue;
        };
        match groups.iter_mut().find(|(known, _)| known == transition) {
            Some((_, clusters)) => clusters.push(cluster),
            None => groups.push((*transition, vec![cluster])),
        }
    }
    groups
}

/// Formats `shoot--a--b: API server crashed` for one cluster, `3 API servers crashed` for more.
fn name_or_count(clusters: &[&str], one: &str, many: &str) -> String {
    match clusters {
        [cluster] => format!("{cluster}: {one}"),
        _ => format!("{} {many}", clusters.len()),
    }
}

/// Describes the damage of each cluster, and the nodes that are Ready again.
fn describe_damage(events: &[SimEvent]) -> Vec<(String, Style)> {
    let mut counts = BTreeMap::<(&Arc<str>, (&str, &str)), (u64, Style)>::new();
    for event in events {
        let (cluster, words, count, style) = match &event.kind {
            SimEventKind::NodeUnknown { cluster, .. } => {
                (cluster, ("node", "turned Unknown"), 1, AnsiColor::Red)
            }
            SimEventKind::MachineReplaced { cluster, .. } => {
                (cluster, ("machine", "replaced"), 1, AnsiColor::Red)
            }
            SimEventKind::PodsEvicted { cluster, count, .. } => {
                (cluster, ("pod", "evicted"), *count, AnsiColor::Red)
            }
            SimEventKind::NodeReady { cluster, .. } => {
                (cluster, ("node", "Ready again"), 1, AnsiColor::Green)
            }
            _ => continue,
        };
        let entry = counts.entry((cluster, words));
        entry.or_insert((0, colour(style))).0 += count;
    }
    let mut lines = Vec::new();
    for ((cluster, (noun, change)), (count, style)) in counts {
        let plural = if count == 1 { "" } else { "s" };
        let text = format!("{cluster}: {count} {noun}{plural} {change}");
        lines.push((text, style));
    }
    lines
}

fn colour(colour: AnsiColor) -> Style {
    Style::new().fg_color(Some(colour.into()))
}

/// Displays a time since the start of the scenario as `t+01:31`.
pub(super) struct ScenarioTime(pub(super) Duration);

impl fmt::Display for ScenarioTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        write!(f, "t+{:02}:{:02}", seconds / 60, seconds % 60)
    }
}

impl fmt::Display for TimelineLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, text, style } = self;
        write!(f, "{} {style}{text}{style:#}", ScenarioTime(*at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::leadership::tests::pair;

    #[test]
    fn fence_is_late_after_deadline_or_unknown_nodes() {
        let mut actions = ActionCounts::default();
        for (margin, unknown, text, late) in [
            (Some(7.94), 0, "fenced 7.9 s before its deadline", 0),
            (Some(-1.2), 0, "fenced 1.2 s after its deadline", 1),
            (None, 3, "fenced too late for 3 nodes", 2),
            (None, 0, "fenced while its nodes were reconnecting", 2),
        ] {
            actions.add_fence(margin, unknown, None);
            assert_eq!(describe_fence(margin, unknown, None), text);
            assert_eq!(actions.late, late, "{text}");
        }
        assert_eq!((actions.fences, actions.by_standby), (4, 0));
        let standby = pair().name("prober-1");
        actions.add_fence(Some(4.4), 0, Some(&standby));
        assert_eq!((actions.fences, actions.by_standby), (5, 1));
        assert_eq!(
            describe_fence(Some(4.4), 0, Some(&standby)),
            "fenced by standby prober-1 4.4 s before its deadline"
        );
    }

    #[test]
    fn durations_are_readable() {
        let text = |seconds| format_duration(Duration::from_secs(seconds));
        assert_eq!([text(20), text(90), text(900)], ["20 s", "90 s", "15 min"]);
        assert_eq!(format_duration(Duration::from_millis(1_500)), "1.5 s");
        assert_eq!(
            ScenarioTime(Duration::from_millis(91_999)).to_string(),
            "t+01:31"
        );
    }
}
