//! The outcome of a race: a table for people, JSON for programs.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::Trial;
use crate::seconds::Seconds;

/// A row for each size of clusters, and one for all.
pub fn table(trials: &[Trial]) -> String {
    let mut sizes: BTreeMap<usize, Vec<&Trial>> = BTreeMap::new();
    for trial in trials {
        sizes.entry(trial.nodes).or_default().push(trial);
    }
    let pod_stop = trials
        .first()
        .map_or(Duration::ZERO, |trial| trial.pod_stop);
    let stops = stops(pod_stop).map(|stop| format!("{} s", stop.as_secs_f64()));
    let mut lines = vec![
        format!(
            "| nodes | trials | without an Unknown node, pod gone after {} | nodes Unknown | fence \
             after the cut: mean, worst | pod gone before the deadline: median, worst | restore: \
             median, worst |",
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

/// All trials with what they were made by.
pub fn json(command: &[String], trials: &[Trial]) -> Value {
    json!({
        "prober": command,
        "trials": trials.iter().map(Trial::json).collect::<Vec<_>>(),
    })
}

/// A second less than it takes, as long as it takes, a second more.
fn stops(pod_stop: Duration) -> [Duration; 3] {
    let second = Duration::from_secs(1);
    [pod_stop.saturating_sub(second), pod_stop, pod_stop + second]
}

fn row(name: &str, trials: &[&Trial]) -> String {
    let without = |stop: Duration| {
        let won = trials.iter().filter(|trial| trial.lost_within(stop) == 0);
        won.count().to_string()
    };
    let pod_stop = trials
        .first()
        .map_or(Duration::ZERO, |trial| trial.pod_stop);
    let lost: usize = trials.iter().map(|trial| trial.lost()).sum();
    let nodes: usize = trials.iter().map(|trial| trial.nodes).sum();
    let fences = trials.iter().filter_map(|trial| trial.fence_after());
    let fences = Seconds::of(fences.map(|time| time.as_secs_f64()));
    let margins = Seconds::of(trials.iter().filter_map(|trial| trial.margin()));
    let restores = trials.iter().filter_map(|trial| trial.restore);
    let restores = Seconds::of(restores.map(|time| time.as_secs_f64()));
    format!(
        "| {name} | {} | {} | {lost} of {nodes} | {}, {} | {}, {} | {}, {} |",
        trials.len(),
        stops(pod_stop).map(without).join(" / "),
        fences.mean(),
        fences.at(100),
        margins.at(50),
        margins.at(0),
        restores.at(50),
        restores.at(100),
    )
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[test]
    fn the_table_has_a_row_for_each_size_and_shows_what_was_lost() {
        let cut = Instant::now();
        let trial = |nodes, fence: u64, lost: &[u64]| Trial {
            shoot: "a".into(),
            nodes,
            cut,
            deadline: cut + Duration::from_secs(32),
            fence: Some(cut + Duration::from_secs(fence)),
            pod_stop: Duration::from_secs(2),
            lost: lost
                .iter()
                .map(|at| ("n".to_owned(), cut + Duration::from_secs(*at)))
                .collect(),
            machine: Duration::ZERO,
            restore: Some(Duration::from_secs(6)),
        };
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
