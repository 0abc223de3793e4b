//! What happens, told in lines.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use kelpie_sim::scenario::Incident;
use kelpie_sim::{Happening, Row, Turn, What};

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
    clusters: Vec<Seen>,
    deeds: Deeds,
}

/// What was seen of a cluster.
#[derive(Clone, Copy, Debug)]
struct Seen {
    state: State,
    was_fenced: bool,
    /// Its API server has, and does not run again yet.
    has_crashed: bool,
}

/// What Kelpie did.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Deeds {
    pub(super) fences: u32,
    /// Of them those after the deadline.
    pub(super) late: u32,
    /// Crashing pods that were deleted.
    pub(super) weeded: u32,
}

impl Deeds {
    /// Without a margin there was no deadline: nodes are back already, or lost already.
    fn add_fence(&mut self, margin: Option<f64>, unknown: usize) {
        self.fences += 1;
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
            clusters: vec![
                Seen {
                    state: State::Healthy,
                    was_fenced: false,
                    has_crashed: false,
                };
                plot.plan.clusters
            ],
            deeds: Deeds::default(),
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
        for (turn, clusters) in turns(happened) {
            match turn {
                Turn::Crashed(wait) => {
                    let who = who(&clusters, "API server crashes", "API servers crash");
                    let text = format!("{who}, to be started again in {}", span(wait));
                    tell(text, colour(AnsiColor::Yellow));
                }
                Turn::Replaced => {
                    let (one, many) = ("crashing pod deleted", "crashing pods deleted");
                    let text = format!("{}, made anew", who(&clusters, one, many));
                    tell(text, colour(AnsiColor::Cyan));
                    self.deeds.weeded += u32::try_from(clusters.len()).unwrap_or(u32::MAX);
                }
                // Whether it stays is seen by the fleet.
                Turn::Started => {}
            }
            for (row, seen) in fleet.iter().zip(&mut self.clusters) {
                seen.has_crashed |= clusters.contains(&&*row.cluster);
            }
        }
        let mut back = Vec::new();
        for (row, seen) in fleet.iter().zip(&mut self.clusters) {
            if seen.has_crashed && !row.is_down {
                seen.has_crashed = false;
                back.push(&*row.cluster);
            }
        }
        if !back.is_empty() {
            let text = who(&back, "API server runs again", "API servers run again");
            tell(text, colour(AnsiColor::Green));
        }
        for (row, seen) in fleet.iter().zip(&mut self.clusters) {
            let (before, was_fenced) = (seen.state, &mut seen.was_fenced);
            let state = State::of(row, self.nodes, *was_fenced);
            seen.state = state;
            let cluster = &row.cluster;
            match (before, state) {
                (State::Fenced(_), State::Fenced(_)) | (State::Restored, State::Restored) => {}
                (_, State::Fenced(margin)) => {
                    *was_fenced = true;
                    self.deeds.add_fence(margin, row.unknown);
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
        self.clusters.iter().map(|seen| seen.state)
    }

    /// Something is about to be decided.
    pub(super) fn is_tense(&self) -> bool {
        self.states().any(State::is_tense)
    }

    /// Those of which was told so far.
    pub(super) fn deeds(&self) -> Deeds {
        self.deeds
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
        None => "fenced, with its nodes on their way back".to_owned(),
        Some(margin) if margin < 0.0 => format!("fenced, {:.1} s after its deadline", -margin),
        Some(margin) => format!("fenced, {margin:.1} s before its deadline"),
    }
}

/// What became of API servers that need etcd, with the clusters to which the same happened.
fn turns(happened: &[Happening]) -> Vec<(Turn, Vec<&str>)> {
    let mut turns: Vec<(Turn, Vec<&str>)> = Vec::new();
    for happening in happened {
        let What::Dependant { cluster, turn } = &happening.what else {
            continue;
        };
        match turns.iter_mut().find(|(known, _)| known == turn) {
            Some((_, clusters)) => clusters.push(cluster),
            None => turns.push((*turn, vec![cluster])),
        }
    }
    turns
}

/// `shoot--a--b: API server crashes`, or `3 API servers crash`.
fn who(clusters: &[&str], one: &str, many: &str) -> String {
    match clusters {
        [cluster] => format!("{cluster}: {one}"),
        _ => format!("{} {many}", clusters.len()),
    }
}

/// What was broken, and what came back, by cluster.
fn damage(happened: &[Happening]) -> Vec<(String, Style)> {
    let mut counts = BTreeMap::<(&Arc<str>, (&str, &str)), (u64, Style)>::new();
    for happening in happened {
        let (cluster, words, count, style) = match &happening.what {
            What::NodeUnknown { cluster, .. } => {
                (cluster, ("node", "turned Unknown"), 1, AnsiColor::Red)
            }
            What::MachineReplaced { cluster, .. } => {
                let words = ("machine", "given up and replaced");
                (cluster, words, 1, AnsiColor::Red)
            }
            What::PodsEvicted { cluster, count, .. } => {
                (cluster, ("pod", "evicted"), *count, AnsiColor::Red)
            }
            What::NodeReady { cluster, .. } => {
                (cluster, ("node", "Ready again"), 1, AnsiColor::Green)
            }
            _ => continue,
        };
        let entry = counts.entry((cluster, words));
        entry.or_insert((0, colour(style))).0 += count;
    }
    let mut lines = Vec::new();
    for ((cluster, (what, fate)), (count, style)) in counts {
        let plural = if count == 1 { "" } else { "s" };
        lines.push((format!("{cluster}: {count} {what}{plural} {fate}"), style));
    }
    lines
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
        let mut deeds = Deeds::default();
        for (margin, unknown, words, late) in [
            (Some(7.94), 0, "fenced, 7.9 s before its deadline", 0),
            (Some(-1.2), 0, "fenced, 1.2 s after its deadline", 1),
            (None, 3, "fenced, too late for 3 nodes", 2),
            (None, 0, "fenced, with its nodes on their way back", 2),
        ] {
            deeds.add_fence(margin, unknown);
            assert_eq!(fenced(margin, unknown), words);
            assert_eq!(deeds.late, late, "{words}");
        }
        assert_eq!(deeds.fences, 4);
    }

    #[test]
    fn times_are_told_as_people_do() {
        let text = |seconds| span(Duration::from_secs(seconds));
        assert_eq!([text(20), text(90), text(900)], ["20 s", "90 s", "15 min"]);
        assert_eq!(Stamp(Duration::from_millis(91_999)).to_string(), "t+01:31");
    }
}
