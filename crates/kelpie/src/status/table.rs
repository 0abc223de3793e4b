//! The clusters of a fleet as a table.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};
use kelpie_core::prober::overview::{ClusterSummary, FleetState, ReplicaPart, Severity};
use kelpie_core::{PauseSwitch, Time, truncated};

use super::Fleet;
use crate::printable::{length, printable, readable_instants};

/// The longest reason in a narrow table, in characters.
const NARROW: usize = 72;

/// Formats the probers in a line each, and the clusters in a row each.
pub(super) fn table(fleet: &Fleet, is_wide: bool) -> String {
    let mut text = String::new();
    for prober in &fleet.probers {
        describe_prober(&mut text, prober);
    }
    if fleet.clusters.is_empty() {
        text.push_str("no clusters\n");
        return text;
    }
    text.push('\n');
    // All clusters of one prober are as old as its answer.
    let now = fleet.probers.iter().map(|prober| prober.replica.at).max();
    let now = now.unwrap_or(Time::MIN);
    let cells: Vec<_> = fleet
        .clusters
        .iter()
        .map(|cluster| (cluster.condition.severity(), row(cluster, now, is_wide)))
        .collect();
    let header = [
        "CLUSTER", "STATE", "SINCE", "NODES", "SILENT", "MARGIN", "WHY",
    ];
    let mut widths = header.map(str::len);
    for (_, row) in &cells {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    write_row(
        &mut text,
        &header.map(str::to_owned),
        &widths,
        Style::new().bold(),
    );
    for (severity, row) in &cells {
        write_row(&mut text, row, &widths, style(*severity));
    }
    text
}

fn describe_prober(text: &mut String, prober: &FleetState) {
    let FleetState { replica, fleet, .. } = prober;
    let part = match replica.part {
        ReplicaPart::Leader => "leader",
        ReplicaPart::Standby => "STANDBY, which may be behind the leader",
        ReplicaPart::DryRun => "dry run",
    };
    let shard = replica
        .shard
        .as_deref()
        .map(|shard| format!(", shard {shard}"));
    let shard = shard.unwrap_or_default();
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "{}",
        printable(&format!(
            "{} ({part}{shard}, {})",
            replica.identity, replica.version
        ))
    );
    if replica.pause != PauseSwitch::Off {
        let loud = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
        let pause = printable(&readable_instants(&replica.pause.to_string()));
        let _ = writeln!(text, "{loud}{pause}{loud:#}");
    }
    if let Some(why) = &replica.waiting {
        let loud = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
        let _ = writeln!(text, "{loud}{}{loud:#}", printable(why));
    }
    let counts = fleet.counts.iter();
    let counts = counts.map(|(condition, count)| format!("{count} {condition}").to_lowercase());
    let counts: Vec<_> = counts.collect();
    let _ = writeln!(text, "{} clusters: {}", fleet.clusters, counts.join(", "));
}

fn row(cluster: &ClusterSummary, now: Time, is_wide: bool) -> [String; 7] {
    let margin = cluster.margin_seconds;
    let why = match (&cluster.problem, is_wide) {
        (Some(problem), true) => format!("{} ({problem})", cluster.sentence),
        (_, true) => cluster.sentence.clone(),
        (_, false) => truncated(&cluster.sentence, NARROW),
    };
    [
        cluster.id.clone(),
        cluster.condition.to_string(),
        length(now.since(cluster.since)),
        cluster.nodes.to_string(),
        cluster.silent.to_string(),
        margin.map_or_else(|| "-".to_owned(), |margin| format!("{margin:.1} s")),
        why,
    ]
    .map(|cell| printable(&cell))
}

/// Writes a row. The last column is not padded.
fn write_row(text: &mut String, row: &[String; 7], widths: &[usize; 7], style: Style) {
    let _ = write!(text, "{style}");
    for (index, (cell, width)) in row.iter().zip(widths).enumerate() {
        if index + 1 == row.len() {
            let _ = write!(text, "{cell}");
        } else {
            let _ = write!(text, "{cell:<width$}  ");
        }
    }
    let _ = writeln!(text, "{style:#}");
}

fn style(severity: Severity) -> Style {
    let color = match severity {
        Severity::Critical => AnsiColor::Red,
        Severity::Warning => AnsiColor::Yellow,
        Severity::Notice => AnsiColor::Cyan,
        Severity::Fine => return Style::new(),
    };
    Style::new().fg_color(Some(color.into()))
}
