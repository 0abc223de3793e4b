//! Describes what happens in a simulation, line by line.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use kelpie_sim::scenario::Incident;
use kelpie_sim::{ClusterSnapshot, PodTransition, SimEvent, SimEventKind};

use super::cluster_phase::ClusterPhase;
use super::setup::DemoSetup;

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
    nodes: usize,
    /// In the order of the snapshots.
    clusters: Vec<TrackedCluster>,
    /// Kelpie's actions so far.
    pub(super) actions: ActionCounts,
}

/// The state of a cluster at the last update.
#[derive(Clone, Copy, Debug)]
struct TrackedCluster {
    phase: ClusterPhase,
    was_fenced: bool,
    /// True from a crash of the API server until it runs again.
    has_crashed: bool,
}

/// The number of Kelpie's actions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ActionCounts {
    pub(super) fences: u32,
    /// The fences after their deadline.
    pub(super) late: u32,
    /// The crash-looping pods that were deleted.
    pub(super) weeded: u32,
}

impl ActionCounts {
    /// Counts a fence. Without a margin there was no deadline: the nodes are already back, or
    /// already Unknown.
    fn add_fence(&mut self, margin: Option<f64>, unknown: usize) {
        self.fences += 1;
        if margin.map_or(unknown > 0, |margin| margin < 0.0) {
            self.late += 1;
        }
    }
}

impl Timeline {
    pub(super) fn new(setup: &DemoSetup) -> Self {
        Self {
            incidents: setup.scenario.incidents.clone(),
            nodes: setup.plan.nodes,
            clusters: vec![
                TrackedCluster {
                    phase: ClusterPhase::Healthy,
                    was_fenced: false,
                    has_crashed: false,
                };
                setup.plan.clusters
            ],
            actions: ActionCounts::default(),
        }
    }

    /// Returns the lines for a frame that ends at `at`. `events` are those of the frame, and
    /// `snapshots` the clusters at its end.
    pub(super) fn update(
        &mut self,
        at: Duration,
        events: &[SimEvent],
        snapshots: &[ClusterSnapshot],
    ) -> Vec<TimelineLine> {
        let mut lines = Vec::new();
        let mut add = |text: String, style| lines.push(TimelineLine { at, text, style });
        for event in events {
            match &event.kind {
                SimEventKind::FaultBegan { fault } => {
                    let style = colour(AnsiColor::Yellow).bold();
                    add(self.describe_fault(fault, snapshots), style);
                }
                SimEventKind::FaultEnded { fault } => {
                    let incident = self.incident(fault);
                    let fault = incident.map_or(fault.clone(), |found| found.fault.to_string());
                    add(format!("ended: {fault}"), Style::new().bold());
                }
                _ => {}
            }
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
        for (snapshot, tracked) in snapshots.iter().zip(&mut self.clusters) {
            let (before, was_fenced) = (tracked.phase, &mut tracked.was_fenced);
            let phase = ClusterPhase::of(snapshot, self.nodes, *was_fenced);
            tracked.phase = phase;
            let cluster = &snapshot.cluster;
            match (before, phase) {
                (ClusterPhase::Fenced(_), ClusterPhase::Fenced(_))
                | (ClusterPhase::Restored, ClusterPhase::Restored) => {}
                (_, ClusterPhase::Fenced(margin)) => {
                    *was_fenced = true;
                    self.actions.add_fence(margin, snapshot.unknown);
                    let text = format!("{cluster}: {}", describe_fence(margin, snapshot.unknown));
                    add(text, phase.style());
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
    /// 12 clusters for 15 min`.
    fn describe_fault(&self, text: &str, snapshots: &[ClusterSnapshot]) -> String {
        let Some(incident) = self.incident(text) else {
            return text.to_owned();
        };
        let mut fault = incident.fault.to_string();
        if incident.fault.is_instant() {
            return fault;
        }
        if !incident.fault.is_global() {
            let affected = snapshots
                .iter()
                .filter(|snapshot| snapshot.faults.contains(&fault));
            fault = match (affected.count(), snapshots.len()) {
                (affected, all) if affected == all => format!("{fault} in all clusters"),
                (affected, all) => format!("{fault} in {affected} of {all} clusters"),
            };
        }
        let duration = format_duration(incident.lasts.unwrap_or_default());
        format!("{fault} for {duration}")
    }
}

/// Formats full minutes as `15 min`, other durations as `90 s`.
fn format_duration(duration: Duration) -> String {
    match duration.as_secs() {
        seconds if seconds >= 60 && seconds.is_multiple_of(60) => format!("{} min", seconds / 60),
        seconds => format!("{seconds} s"),
    }
}

fn describe_fence(margin: Option<f64>, unknown: usize) -> String {
    match margin {
        None if unknown > 0 => format!("fenced too late for {unknown} nodes"),
        None => "fenced while its nodes were reconnecting".to_owned(),
        Some(margin) if margin < 0.0 => format!("fenced {:.1} s after its deadline", -margin),
        Some(margin) => format!("fenced {margin:.1} s before its deadline"),
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

    #[test]
    fn fence_is_late_after_deadline_or_unknown_nodes() {
        let mut actions = ActionCounts::default();
        for (margin, unknown, text, late) in [
            (Some(7.94), 0, "fenced 7.9 s before its deadline", 0),
            (Some(-1.2), 0, "fenced 1.2 s after its deadline", 1),
            (None, 3, "fenced too late for 3 nodes", 2),
            (None, 0, "fenced while its nodes were reconnecting", 2),
        ] {
            actions.add_fence(margin, unknown);
            assert_eq!(describe_fence(margin, unknown), text);
            assert_eq!(actions.late, late, "{text}");
        }
        assert_eq!(actions.fences, 4);
    }

    #[test]
    fn durations_are_readable() {
        let text = |seconds| format_duration(Duration::from_secs(seconds));
        assert_eq!([text(20), text(90), text(900)], ["20 s", "90 s", "15 min"]);
        assert_eq!(
            ScenarioTime(Duration::from_millis(91_999)).to_string(),
            "t+01:31"
        );
    }
}
