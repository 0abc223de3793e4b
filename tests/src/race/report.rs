//! The results of a race, as a table and as JSON.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::{LostNode, RaceTrial};
use crate::percentiles::Percentiles;

/// Formats a Markdown table with a row per number of nodes, and one for all trials.
pub fn table(trials: &[RaceTrial]) -> String {
    let mut sizes: BTreeMap<usize, Vec<&RaceTrial>> = BTreeMap::new();
    for trial in trials {
        sizes.entry(trial.nodes).or_default().push(trial);
    }
    let pod_stop = trials
        .first()
        .map_or(Duration::ZERO, |trial| trial.pod_stop);
    let stops = pod_stops(pod_stop).map(|stop| format!("{} s", stop.as_secs_f64()));
    let mut lines = vec![
        format!(
            "| nodes | trials | without an Unknown node, pod gone after {} | nodes Unknown | fence \
             after the partition: mean, worst | pod gone before the deadline: median, worst | \
             restore: median, worst |",
            stops.join(" / ")
        ),
        "|---|---|---|---|---|---|---|".to_owned(),
    ];
    for (size, trials) in &sizes {
        lines.push(row(&size.to_string(), trials));
    }
    if sizes.len() > 1 {
        lines.push(row("all", &trials.iter().collect::<Vec<_>>()));
    }
    lines.join("\n")
}

/// Formats a Markdown table with a row per fault and number of nodes, and one per fault for all
/// its trials. Nodes that were lost count apart where a fence in time was not possible.
pub fn fault_table(trials: &[RaceTrial]) -> String {
    let mut lines = vec![
        "| second fault | nodes | trials | possible | nodes Unknown: possible, others | fence \
         after the cut: mean, worst | restored exactly | restore: median, worst |"
            .to_owned(),
        "|---|---|---|---|---|---|---|---|".to_owned(),
    ];
    let mut faults: Vec<String> = Vec::new();
    for trial in trials {
        let fault = trial.fault.to_string();
        if !faults.contains(&fault) {
            faults.push(fault);
        }
    }
    for fault in faults {
        let own = trials.iter();
        let own = own.filter(|trial| trial.fault.to_string() == fault);
        let mut sizes: BTreeMap<usize, Vec<&RaceTrial>> = BTreeMap::new();
        for trial in own.clone() {
            sizes.entry(trial.nodes).or_default().push(trial);
        }
        for (size, trials) in &sizes {
            lines.push(fault_row(&fault, &size.to_string(), trials));
        }
        if sizes.len() > 1 {
            lines.push(fault_row(&fault, "all", &own.collect::<Vec<_>>()));
        }
    }
    lines.join("\n")
}

fn fault_row(fault: &str, name: &str, trials: &[&RaceTrial]) -> String {
    let lost = |possible: bool| {
        let own = trials.iter();
        let own = own.filter(|trial| trial.is_winnable == possible);
        let unknown: usize = own.clone().map(|trial| trial.unknown_count()).sum();
        let nodes: usize = own.map(|trial| trial.nodes).sum();
        format!("{unknown} of {nodes}")
    };
    let count =
        |predicate: fn(&RaceTrial) -> bool| trials.iter().filter(|trial| predicate(trial)).count();
    let fences = trials.iter().filter_map(|trial| trial.fence_latency());
    let fences = Percentiles::new(fences.map(|time| time.as_secs_f64()));
    let restores = trials.iter().filter_map(|trial| trial.restore);
    let restores = Percentiles::new(restores.map(|time| time.as_secs_f64()));
    format!(
        "| {fault} | {name} | {} | {} | {}, {} | {}, {} | {} | {}, {} |",
        trials.len(),
        count(|trial| trial.is_winnable),
        lost(true),
        lost(false),
        fences.mean(),
        fences.percentile(100),
        count(|trial| trial.is_restored_exactly),
        restores.percentile(50),
        restores.percentile(100),
    )
}

/// Formats a Markdown table that compares the clusters with and without a guard.
pub fn lone_node_table(lost: &[LostNode]) -> String {
    let row = |name: &str, is_guarded: bool| {
        let own = lost.iter().filter(|lost| lost.is_guarded == is_guarded);
        let times = own.map(|lost| lost.unknown_after.as_secs_f64());
        let times = Percentiles::new(times);
        let (median, worst) = (times.percentile(50), times.percentile(100));
        format!("| {name} | {median} | {worst} |")
    };
    [
        "| one node dies | Unknown after its last renewal, seconds: median | worst |".to_owned(),
        "|---|---|---|".to_owned(),
        row("with a guard", true),
        row("without", false),
    ]
    .join("\n")
}

/// Returns all trials, with the command line of the prober.
pub fn json(command: &[String], trials: &[RaceTrial]) -> Value {
    json!({
        "prober": command,
        "trials": trials.iter().map(RaceTrial::json).collect::<Vec<_>>(),
    })
}

/// A second less than `pod_stop`, `pod_stop`, and a second more.
fn pod_stops(pod_stop: Duration) -> [Duration; 3] {
    let second = Duration::from_secs(1);
    [pod_stop.saturating_sub(second), pod_stop, pod_stop + second]
}

fn row(name: &str, trials: &[&RaceTrial]) -> String {
    let without_unknown = |stop: Duration| {
        let won = trials.iter();
        let won = won.filter(|trial| trial.unknown_within(stop) == 0);
        won.count().to_string()
    };
    let pod_stop = trials
        .first()
        .map_or(Duration::ZERO, |trial| trial.pod_stop);
    let unknown: usize = trials.iter().map(|trial| trial.unknown_count()).sum();
    let nodes: usize = trials.iter().map(|trial| trial.nodes).sum();
    let fences = trials.iter().filter_map(|trial| trial.fence_latency());
    let fences = Percentiles::new(fences.map(|time| time.as_secs_f64()));
    let margins = Percentiles::new(trials.iter().filter_map(|trial| trial.margin()));
    let restores = trials.iter().filter_map(|trial| trial.restore);
    let restores = Percentiles::new(restores.map(|time| time.as_secs_f64()));
    format!(
        "| {name} | {} | {} | {unknown} of {nodes} | {}, {} | {}, {} | {}, {} |",
        trials.len(),
        pod_stops(pod_stop).map(without_unknown).join(" / "),
        fences.mean(),
        fences.percentile(100),
        margins.percentile(50),
        margins.percentile(0),
        restores.percentile(50),
        restores.percentile(100),
    )
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::race::RaceFault;

    fn trial(nodes: usize, fence: u64, unknown: &[u64]) -> RaceTrial {
        let partitioned_at = Instant::now();
        RaceTrial {
            cluster: "a".into(),
            nodes,
            fault: RaceFault::None,
            is_winnable: true,
            partitioned_at,
            deadline: partitioned_at + Duration::from_secs(32),
            fenced_at: Some(partitioned_at + Duration::from_secs(fence)),
            pod_stop: Duration::from_secs(2),
            unknown: unknown
                .iter()
                .map(|at| ("n".to_owned(), partitioned_at + Duration::from_secs(*at)))
                .collect(),
            baseline: Duration::ZERO,
            restore: Some(Duration::from_secs(6)),
            is_restored_exactly: true,
        }
    }

    #[test]
    fn fault_table_counts_impossible_trials_apart() {
        let fault = RaceFault::SeedLatency(Duration::from_secs(3));
        let lost = |is_winnable| RaceTrial {
            fault,
            is_winnable,
            is_restored_exactly: false,
            ..trial(20, 33, &[34, 34])
        };
        let trials = [trial(3, 26, &[]), lost(true), lost(false)];
        let table = fault_table(&trials);
        let rows: Vec<&str> = table.lines().skip(2).collect();
        assert_eq!(
            rows,
            [
                "| none | 3 | 1 | 1 | 0 of 3, 0 of 0 | 26.0 s, 26.0 s | 1 | 6.0 s, 6.0 s |",
                "| seed-latency=3s | 20 | 2 | 1 | 2 of 20, 2 of 20 | 33.0 s, 33.0 s | 0 | 6.0 s, \
                 6.0 s |",
            ]
        );
    }

    #[test]
    fn table_has_a_row_per_size() {
        let trials = [trial(3, 26, &[]), trial(20, 28, &[]), trial(20, 33, &[34])];
        let table = table(&trials);
        let rows: Vec<&str> = table.lines().skip(2).collect();
        assert_eq!(
            rows,
            [
                "| 3 | 1 | 1 / 1 / 1 | 0 of 3 | 26.0 s, 26.0 s | 4.0 s, 4.0 s | 6.0 s, 6.0 s |",
                "| 20 | 2 | 1 / 1 / 1 | 1 of 40 | 30.5 s, 33.0 s | -3.0 s, -3.0 s | 6.0 s, 6.0 s |",
                "| all | 3 | 2 / 2 / 2 | 1 of 43 | 29.0 s, 33.0 s | 2.0 s, -3.0 s | 6.0 s, 6.0 s |",
            ]
        );
        assert!(table.contains("pod gone after 1 s / 2 s / 3 s"), "{table}");
    }
}
