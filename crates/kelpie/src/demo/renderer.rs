//! Prints the demo: nothing, lines, or a live table.

use std::collections::VecDeque;
use std::fmt::Write;
use std::io::{self, IsTerminal};
use std::time::Duration;

use anstream::{AutoStream, ColorChoice};
use anstyle::Style;
use kelpie_sim::{ClusterSnapshot, Platform};

use super::setup::DemoSetup;
use super::timeline::{ScenarioTime, Timeline, TimelineLine};
use super::{cluster_table, terminal};

/// The time between two redraws: fast enough to look smooth, slow enough for a terminal.
const REDRAW: Duration = Duration::from_millis(100);

/// The number of timeline lines that stay on the screen.
const RECENT: usize = 5;

/// The assumed height of a terminal that does not report its own.
const HEIGHT: usize = 24;

/// Explains the columns of the table.
const LEGEND: &str =
    "KCM, MCM: kube- and machine-controller-manager; CA: cluster-autoscaler (pods)";
/// The same with Cluster API.
const CLUSTER_API_LEGEND: &str = "KCM: kube-controller-manager; MHC: MachineHealthCheck, 0: paused";

/// The way in which the demo is printed.
pub(super) enum Renderer {
    Silent,
    /// Prints each line of the timeline once.
    Lines,
    /// Redraws a terminal in place.
    Live(LiveDisplay),
}

/// The state to draw.
pub(super) struct DemoFrame<'a> {
    pub(super) elapsed: Duration,
    pub(super) timeline: &'a Timeline,
    pub(super) clusters: &'a [ClusterSnapshot],
}

/// The content of the terminal.
#[derive(Default)]
pub(super) struct LiveDisplay {
    recent: VecDeque<TimelineLine>,
    /// The number of lines at the last redraw.
    height: usize,
    /// The time of the last redraw, as real time since the start.
    drawn_at: Duration,
}

impl Renderer {
    /// Chooses [`Live`](Self::Live) if standard output is a terminal that can move the cursor.
    pub(super) fn for_stdout() -> Self {
        let stdout = io::stdout();
        // Without colours all escape sequences are removed, including those that move the cursor.
        if stdout.is_terminal() && AutoStream::choice(&stdout) != ColorChoice::Never {
            Self::Live(LiveDisplay::default())
        } else {
            Self::Lines
        }
    }

    pub(super) fn print_header(&self, setup: &DemoSetup) -> io::Result<()> {
        let gap = match self {
            Self::Silent => return Ok(()),
            Self::Lines => "\n",
            // With the default setup, header and table just fit a terminal of 24 lines.
            Self::Live(_) => "",
        };
        let bold = Style::new().bold();
        let [title, summary, deadline] = setup.header();
        // The file may have none.
        let summary = match &*summary {
            "" => String::new(),
            summary => format!("{summary}\n"),
        };
        terminal::write(&format!(
            "{bold}{title}{bold:#}\n{summary}{deadline}\n{gap}"
        ))
    }

    /// Shows a frame and the lines that it added to the timeline. `due` is the real time since the
    /// start.
    pub(super) fn render(
        &mut self,
        frame: &DemoFrame<'_>,
        lines: Vec<TimelineLine>,
        due: Duration,
    ) -> io::Result<()> {
        match self {
            Self::Silent => Ok(()),
            Self::Lines => {
                for line in lines {
                    terminal::write(&format!("{line}\n"))?;
                }
                Ok(())
            }
            Self::Live(display) => {
                display.push(lines);
                if display.height > 0 && due < display.drawn_at + REDRAW {
                    return Ok(());
                }
                display.drawn_at = due;
                terminal::write(&display.draw(frame))
            }
        }
    }

    /// Shows the last frame.
    pub(super) fn finish(&mut self, frame: &DemoFrame<'_>) -> io::Result<()> {
        match self {
            Self::Silent | Self::Lines => Ok(()),
            Self::Live(display) => terminal::write(&display.draw(frame)),
        }
    }
}

impl LiveDisplay {
    fn push(&mut self, lines: Vec<TimelineLine>) {
        self.recent.extend(lines);
        let surplus = self.recent.len().saturating_sub(RECENT);
        self.recent.drain(..surplus);
    }

    /// Returns the whole content, preceded by escape sequences that overwrite the last one.
    fn draw(&mut self, frame: &DemoFrame<'_>) -> String {
        let (table_height, recent) = split_height(terminal::height().unwrap_or(HEIGHT));
        let mut lines = {
            let clusters = (frame.clusters, frame.timeline.platform());
            cluster_table::lines(clusters, frame.timeline.phases(), table_height)
        };
        let dimmed = Style::new().dimmed();
        let legend = match frame.timeline.platform() {
            Platform::Gardener => LEGEND,
            Platform::ClusterApi => CLUSTER_API_LEGEND,
        };
        lines.push(format!("{dimmed}{legend}{dimmed:#}"));
        let replicas = frame.timeline.leadership.summary();
        let replicas = replicas.map_or_else(String::new, |summary| format!(": {summary}"));
        lines.push(format!("{} now{replicas}", ScenarioTime(frame.elapsed)));
        let first = self.recent.len().saturating_sub(recent);
        lines.extend(self.recent.iter().skip(first).map(TimelineLine::to_string));
        let mut text = String::new();
        if self.height > 0 {
            let _ = write!(text, "\u{1b}[{}A", self.height);
        }
        // A narrow terminal cuts long lines instead of wrapping them.
        text.push_str("\r\u{1b}[?7l");
        for line in &lines {
            text.push_str(line);
            text.push_str("\u{1b}[K\n");
        }
        text.push_str("\u{1b}[J\u{1b}[?7h");
        self.height = lines.len();
        text
    }
}

/// Returns how many lines of a terminal the table gets, and how many the timeline. Between them are
/// the legend and the time, and below them the cursor. Lines that have scrolled off cannot be
/// redrawn.
fn split_height(height: usize) -> (usize, usize) {
    let available = height.saturating_sub(3);
    let recent = RECENT.min(available.saturating_sub(cluster_table::MIN_LINES));
    (available - recent, recent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_terminal_shows_less_timeline() {
        assert_eq!(split_height(24), (16, 5));
        assert_eq!(split_height(12), (4, 5));
        assert_eq!(split_height(10), (4, 3));
        assert_eq!(split_height(7), (4, 0));
        assert_eq!(split_height(2), (0, 0));
    }

    #[test]
    fn legend_fits_80_columns() {
        assert!(LEGEND.len() <= 80, "{}", LEGEND.len());
    }
}
