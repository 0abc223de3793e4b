//! The table of clusters on a terminal.

use std::collections::BTreeMap;

use anstyle::Style;
use kelpie_sim::{ClusterSnapshot, ControllerReplicas, Platform};

use super::cluster_phase::ClusterPhase;

/// The minimum height: a heading, two clusters, and the counts of the others.
pub(super) const MIN_LINES: usize = 4;

/// Returns the lines of the table, at most `max_lines` but at least [`MIN_LINES`], none wider than
/// 80 columns. Clusters that do not fit are only counted.
pub(super) fn lines(
    (clusters, platform): (&[ClusterSnapshot], Platform),
    phases: impl Iterator<Item = ClusterPhase>,
    max_lines: usize,
) -> Vec<String> {
    let row_count = match max_lines.max(MIN_LINES) - 1 {
        available if available >= clusters.len() => clusters.len(),
        available => available - 1,
    };
    let controllers = match platform {
        Platform::Gardener => ["KCM", "MCM", "CA"],
        Platform::ClusterApi => ["KCM", "MHC", ""],
    };
    let bold = Style::new().bold();
    let mut lines = vec![format!(
        "{bold}{:<20}{:<20}{:<5}{:<5}{:<5}{}{bold:#}",
        "CLUSTER", "NODES", controllers[0], controllers[1], controllers[2], "STATE"
    )];
    let mut rows = clusters.iter().zip(phases);
    lines.extend(
        rows.by_ref()
            .take(row_count)
            .map(|(snapshot, phase)| line(snapshot, phase)),
    );
    let mut rest = BTreeMap::<&str, usize>::new();
    for (_, phase) in rows {
        *rest.entry(phase.name()).or_default() += 1;
    }
    if !rest.is_empty() {
        let count = |(name, count): (&str, usize)| format!("{count} {name}");
        let counts: Vec<String> = rest.into_iter().map(count).collect();
        lines.push(format!("and {}", counts.join(", ")));
    }
    lines
}

fn line(snapshot: &ClusterSnapshot, phase: ClusterPhase) -> String {
    let nodes = match snapshot.unknown {
        0 => format!("{} ready", snapshot.ready),
        unknown => format!("{} ready, {unknown} unknown", snapshot.ready),
    };
    let pods = |index: usize| {
        let controller = snapshot.controllers.get(index);
        let present = |replicas: &ControllerReplicas| replicas.present.to_string();
        controller.map_or_else(String::new, present)
    };
    let style = phase.style();
    format!(
        "{:<20}{nodes:<20}{:<5}{:<5}{:<5}{style}{}{style:#}",
        snapshot.cluster,
        pods(0),
        pods(1),
        pods(2),
        phase.description()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_fleet_fits_and_is_counted() {
        let controller = ControllerReplicas {
            wanted: 1,
            present: 1,
            usual: 1,
        };
        let snapshot = ClusterSnapshot {
            cluster: "shoot--sim--c0000".to_owned(),
            ready: 400,
            unknown: 100,
            cut_off: 0,
            held: 0,
            is_down: false,
            controllers: vec![controller; 3],
            faults: Vec::new(),
            deadline: None,
            is_fenced: false,
            margin: None,
        };
        let clusters = vec![snapshot; 40];
        let phases = (0..40).map(|number| match number {
            0..30 => ClusterPhase::Fenced(Some(12.3)),
            _ => ClusterPhase::Restoring,
        });
        let lines = lines((&clusters, Platform::Gardener), phases, 15);
        assert_eq!(lines.len(), 15);
        let plain = lines.iter().map(|line| anstream::adapter::strip_str(line));
        let plain: Vec<String> = plain.map(|line| line.to_string()).collect();
        assert!(plain.iter().all(|line| line.len() <= 80), "{plain:#?}");
        assert_eq!(plain[14], "and 10 being restored, 17 fenced");
    }
}
