//! The fleet as a table.

use anstyle::Style;
use kelpie_sim::{Controller, Row};

use super::state::State;

/// More clusters are only counted: a terminal has 24 lines.
const MOST: usize = 13;

/// The lines of the table, none wider than 80 columns.
pub(super) fn lines(fleet: &[Row], states: impl Iterator<Item = State>) -> Vec<String> {
    let head = Style::new().bold();
    let mut lines = vec![format!(
        "{head}{:<20}{:<20}{:<5}{:<5}{:<5}{}{head:#}",
        "CLUSTER", "NODES", "KCM", "MCM", "CA", "STATE"
    )];
    let mut rows = fleet.iter().zip(states);
    lines.extend(
        rows.by_ref()
            .take(MOST)
            .map(|(row, state)| line(row, state)),
    );
    let rest: Vec<State> = rows.map(|(_, state)| state).collect();
    if !rest.is_empty() {
        let healthy = rest.iter().filter(|state| **state == State::Healthy);
        let healthy = healthy.count();
        lines.push(format!(
            "and {} more, {healthy} of them healthy",
            rest.len()
        ));
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
