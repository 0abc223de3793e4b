//! What happens, told in lines.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use kelpie_sim::scenario::Incident;
use kelpie_sim::{Happening, Row, What};

use super::plot::Plot;
use super::state::State;

/// A line of the story.
#[derive(Debug)]
pub(super) struct Line {
    at: Duration,
    text: String,
    style: Style,
}

/// Who tells it.
pub(super) struct Story {
    incidents: Vec<Incident>,
    nodes: usize,
    /// Of each cluster: how it is, and whether it was ever fenced.
    clusters: Vec<(State, bool)>,
    fences: Fences,
}

/// How many fences there were.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fences {
    pub(super) all: usize,
    /// Of them those after the deadline.
    pub(super) late: usize,
}

impl Fences {
    /// Without a margin there was no deadline: nodes are back already, or lost already.
    fn add(&mut self, margin: Option<f64>, unknown: usize) {
        self.all += 1;
        if margin.map_or(unknown > 0, |margin| margin < 0.0) {
            self.late += 1;
        }
    }
}

impl Story {
    pub(super) fn new(plot: &Plot) -> Self {
        Self {
            incidents: plot.scenario.incidents.clone(),
            nodes: plot.plan.nodes,
            clusters: vec![(State::Healthy, false); plot.plan.clusters],
            fences: Fences::default(),
        }
    }

    /// What there is to tell of a frame that ends at `at`.
    pub(super) fn go_on(
        &mut self,
        at: Duration,
        happened: &[Happening],
        fleet: &[Row],
    ) -> Vec<Line> {
        let mut lines = Vec::new();
        let mut tell = |text: String, style| lines.push(Line { at, text, style });
        for happening in happened {
            match &happening.what {
                What::FaultBegan { fault } => {
                    let style = colour(AnsiColor::Yellow).bold();
                    tell(self.fault(fault, fleet), style);
                }
                What::FaultEnded { fault } => {
                    let incident = self.incident(fault);
                    let fault = incident.map_or(fault.clone(), |one| one.fault.to_string());
                    tell(format!("over: {fault}"), Style::new().bold());
                }
                _ => {}
            }
        }
        for (text, style) in damage(happened) {
            tell(text, style);
        }
        for (row, (state, was_fenced)) in fleet.iter().zip(&mut self.clusters) {
            let before = *state;
            *state = State::of(row, self.nodes, *was_fenced);
            let cluster = &row.cluster;
            match (before, *state) {
                (State::Fenced(_), State::Fenced(_)) | (State::Restored, State::Restored) => {}
                (_, State::Fenced(margin)) => {
                    *was_fenced = true;
                    self.fences.add(margin, row.unknown);
                    let text = format!("{cluster}: {}", fenced(margin, row.unknown));
                    tell(text, state.style());
                }
                (_, State::Restored) => {
                    tell(format!("{cluster}: restored, all as it was"), state.style());
                }
                _ => {}
            }
        }
        lines
    }

    /// How the clusters are, in the order of the fleet.
    pub(super) fn states(&self) -> impl Iterator<Item = State> {
        self.clusters.iter().map(|(state, _)| *state)
    }

    /// Something is about to be decided.
    pub(super) fn is_tense(&self) -> bool {
        self.states().any(State::is_tense)
    }

    /// Those of which was told so far.
    pub(super) fn fences(&self) -> Fences {
        self.fences
    }

    /// The landscape names incidents by their words.
    fn incident(&self, words: &str) -> Option<&Incident> {
        self.incidents.iter().find(|one| one.to_string() == words)
    }

    /// `partition of all nodes in 5 of 12 clusters for 15 min`.
    fn fault(&self, words: &str, fleet: &[Row]) -> String {
        let Some(incident) = self.incident(words) else {
            return words.to_owned();
        };
        let mut text = incident.fault.to_string();
        if incident.fault.is_deed() {
            return text;
        }
        if !incident.fault.is_everywhere() {
            let meant = fleet.iter().filter(|row| row.faults.contains(&text));
            text = match (meant.count(), fleet.len()) {
                (meant, all) if meant == all => format!("{text} in all clusters"),
                (meant, all) => format!("{text} in {meant} of {all} clusters"),
            };
        }
        format!("{text} for {}", span(incident.lasts.unwrap_or_default()))
    }
}

fn span(time: Duration) -> String {
    match time.as_secs() {
        seconds if seconds >= 60 && seconds.is_multiple_of(60) => format!("{} min", seconds / 60),
        seconds => format!("{seconds} s"),
    }
}

fn fenced(margin: Option<f64>, unknown: usize) -> String {
    match margin {
        None if unknown > 0 => format!("fenced, too late for {unknown} nodes"),
        None => "fenced".to_owned(),
        Some(margin) if margin < 0.0 => format!("fenced, {:.1} s after its deadline", -margin),
        Some(margin) => format!("fenced, {margin:.1} s before its deadline"),
    }
}

/// What was broken, and what came back, by cluster.
fn damage(happened: &[Happening]) -> Vec<(String, Style)> {
    let mut counts = BTreeMap::<(&Arc<str>, &str), (u64, Style)>::new();
    for happening in happened {
        let (cluster, words, count, style) = match &happening.what {
            What::NodeUnknown { cluster, .. } => {
                (cluster, "nodes turned Unknown", 1, AnsiColor::Red)
            }
            What::MachineReplaced { cluster, .. } => {
                (cluster, "machines given up and replaced", 1, AnsiColor::Red)
            }
            What::PodsEvicted { cluster, count, .. } => {
                (cluster, "pods evicted", *count, AnsiColor::Red)
            }
            What::NodeReady { cluster, .. } => (cluster, "nodes Ready again", 1, AnsiColor::Green),
            _ => continue,
        };
        let entry = counts.entry((cluster, words));
        entry.or_insert((0, colour(style))).0 += count;
    }
    let line = |((cluster, words), (count, style)): ((&Arc<str>, &str), (u64, Style))| {
        (format!("{cluster}: {count} {words}"), style)
    };
    counts.into_iter().map(line).collect()
}

fn colour(colour: AnsiColor) -> Style {
    Style::new().fg_color(Some(colour.into()))
}

/// `t+01:31`.
pub(super) struct Stamp(pub(super) Duration);

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        write!(f, "t+{:02}:{:02}", seconds / 60, seconds % 60)
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, text, style } = self;
        write!(f, "{} {style}{text}{style:#}", Stamp(*at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_late_if_its_deadline_was_past_or_nodes_were_lost_already() {
        let mut fences = Fences::default();
        for (margin, unknown, words, late) in [
            (Some(7.94), 0, "fenced, 7.9 s before its deadline", 0),
            (Some(-1.2), 0, "fenced, 1.2 s after its deadline", 1),
            (None, 3, "fenced, too late for 3 nodes", 2),
            (None, 0, "fenced", 2),
        ] {
            fences.add(margin, unknown);
            assert_eq!(fenced(margin, unknown), words);
            assert_eq!(fences.late, late, "{words}");
        }
        assert_eq!(fences.all, 4);
    }

    #[test]
    fn times_are_told_as_people_do() {
        let text = |seconds| span(Duration::from_secs(seconds));
        assert_eq!([text(20), text(90), text(900)], ["20 s", "90 s", "15 min"]);
        assert_eq!(Stamp(Duration::from_millis(91_999)).to_string(), "t+01:31");
    }
}
