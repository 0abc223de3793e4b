//! The fleet as a table.

use std::collections::BTreeMap;

use anstyle::Style;
use kelpie_sim::{Controller, Row};

use super::state::State;

/// A table has at least so many lines: a head, two clusters, and how many there are beside them.
pub(super) const LOWEST: usize = 4;

/// The lines of the table, so many at most and at least [`LOWEST`], none wider than 80 columns: clusters that do
/// not fit are only counted.
pub(super) fn lines(
    fleet: &[Row],
    states: impl Iterator<Item = State>,
    most: usize,
) -> Vec<String> {
    let room = match most.max(LOWEST) - 1 {
        room if room >= fleet.len() => fleet.len(),
        room => room - 1,
    };
    let head = Style::new().bold();
    let mut lines = vec![format!(
        "{head}{:<20}{:<20}{:<5}{:<5}{:<5}{}{head:#}",
        "CLUSTER", "NODES", "KCM", "MCM", "CA", "STATE"
    )];
    let mut rows = fleet.iter().zip(states);
    lines.extend(
        rows.by_ref()
            .take(room)
            .map(|(row, state)| line(row, state)),
    );
    let mut rest = BTreeMap::<&str, usize>::new();
    for (_, state) in rows {
        *rest.entry(state.name()).or_default() += 1;
    }
    if !rest.is_empty() {
        let count = |(name, count): (&str, usize)| format!("{count} {name}");
        let counts: Vec<String> = rest.into_iter().map(count).collect();
        lines.push(format!("and {}", counts.join(", ")));
    }
    lines
}

fn line(row: &Row, state: State) -> String {
    let nodes = match row.unknown {
        0 => format!("{} ready", row.ready),
        unknown => format!("{} ready, {unknown} unknown", row.ready),
    };
    let count = |index: usize| {
        let one = row.controllers.get(index);
        one.map_or(0, |one: &Controller| one.present)
    };
    let style = state.style();
    format!(
        "{:<20}{nodes:<20}{:<5}{:<5}{:<5}{style}{}{style:#}",
        row.cluster,
        count(0),
        count(1),
        count(2),
        state.words()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_fleet_fits_a_terminal_and_nobody_is_left_out() {
        let controller = Controller {
            wanted: 1,
            present: 1,
            usual: 1,
        };
        let row = Row {
            cluster: "shoot--sim--c0000".to_owned(),
            ready: 400,
            unknown: 100,
            cut_off: 0,
            is_down: false,
            controllers: vec![controller; 3],
            faults: Vec::new(),
            deadline: None,
            is_fenced: false,
            margin: None,
        };
        let fleet = vec![row; 40];
        let states = (0..40).map(|number| match number {
            0..30 => State::Fenced(Some(12.3)),
            _ => State::Restoring,
        });
        let lines = lines(&fleet, states, 15);
        assert_eq!(lines.len(), 15);
        let plain = lines.iter().map(|line| anstream::adapter::strip_str(line));
        let plain: Vec<String> = plain.map(|line| line.to_string()).collect();
        assert!(plain.iter().all(|line| line.len() <= 80), "{plain:#?}");
        assert_eq!(plain[14], "and 10 being restored, 17 fenced");
    }
}
