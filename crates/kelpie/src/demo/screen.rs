//! Where the story is shown.

use std::collections::VecDeque;
use std::fmt::Write;
use std::io::{self, IsTerminal};
use std::time::Duration;

use anstream::{AutoStream, ColorChoice};
use anstyle::Style;
use kelpie_sim::Row;

use super::plot::Plot;
use super::stage::Stage;
use super::story::{Line, Stamp, Story};
use super::table;
use crate::terminal;

/// The screen is drawn so often: quicker than the eye minds, slower than a terminal does.
const REDRAW: Duration = Duration::from_millis(100);

/// So many lines of the story stay on it.
const RECENT: usize = 5;

/// So many lines has a terminal that does not say.
const HEIGHT: usize = 24;

/// Where the story is shown.
pub(super) enum Screen {
    /// Nowhere.
    Dark,
    /// Line after line.
    Lines,
    /// On a terminal, drawn over and over.
    Live(Canvas),
}

/// What there is to see.
pub(super) struct Scene<'a> {
    at: Duration,
    story: &'a Story,
    fleet: &'a [Row],
}

/// What is on the terminal.
#[derive(Default)]
pub(super) struct Canvas {
    recent: VecDeque<Line>,
    /// So many lines were drawn the last time.
    height: usize,
    /// When that was.
    drawn: Duration,
}

impl Screen {
    /// Live where standard output is a terminal that understands it.
    pub(super) fn fitting() -> Self {
        let stdout = io::stdout();
        // Without colours all escapes are left out, also those that move the cursor.
        if stdout.is_terminal() && AutoStream::choice(&stdout) != ColorChoice::Never {
            Self::Live(Canvas::default())
        } else {
            Self::Lines
        }
    }

    /// Says what is about to be seen.
    pub(super) fn open(&self, plot: &Plot) -> io::Result<()> {
        if let Self::Dark = self {
            return Ok(());
        }
        let bold = Style::new().bold();
        let [title, summary] = plot.title();
        terminal::stdout_while_read(&format!("{bold}{title}{bold:#}\n{summary}\n\n"))
    }

    /// A frame was played that gave these lines; `due` is the wall's time.
    pub(super) fn show(
        &mut self,
        scene: &Scene<'_>,
        lines: Vec<Line>,
        due: Duration,
    ) -> io::Result<()> {
        match self {
            Self::Dark => Ok(()),
            Self::Lines => {
                for line in lines {
                    terminal::stdout_while_read(&format!("{line}\n"))?;
                }
                Ok(())
            }
            Self::Live(canvas) => {
                canvas.remember(lines);
                if canvas.height > 0 && due < canvas.drawn + REDRAW {
                    return Ok(());
                }
                canvas.drawn = due;
                terminal::stdout_while_read(&canvas.draw(scene))
            }
        }
    }

    /// That was the last frame.
    pub(super) fn close(&mut self, scene: &Scene<'_>) -> io::Result<()> {
        match self {
            Self::Dark | Self::Lines => Ok(()),
            Self::Live(canvas) => terminal::stdout_while_read(&canvas.draw(scene)),
        }
    }
}

impl<'a> Scene<'a> {
    pub(super) fn of(stage: &Stage, story: &'a Story, fleet: &'a [Row]) -> Self {
        let at = stage.elapsed();
        Self { at, story, fleet }
    }
}

impl Canvas {
    fn remember(&mut self, lines: Vec<Line>) {
        self.recent.extend(lines);
        let many = self.recent.len().saturating_sub(RECENT);
        self.recent.drain(..many);
    }

    /// Everything in one piece, over what was drawn before.
    fn draw(&mut self, scene: &Scene<'_>) -> String {
        let (room, told) = rooms(terminal::height().unwrap_or(HEIGHT));
        let mut lines = table::lines(scene.fleet, scene.story.states(), room);
        lines.push(String::new());
        lines.push(format!("{} now", Stamp(scene.at)));
        let first = self.recent.len().saturating_sub(told);
        lines.extend(self.recent.iter().skip(first).map(Line::to_string));
        let mut text = String::new();
        if self.height > 0 {
            let _ = write!(text, "\u{1b}[{}A", self.height);
        }
        // Lines that a narrow terminal would wrap are cut.
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

/// How many lines of a screen are the table's, and how many the story's. Between them are its time and a
/// free line, below all is the cursor: what has left the screen cannot be drawn over.
fn rooms(height: usize) -> (usize, usize) {
    let room = height.saturating_sub(3);
    let told = RECENT.min(room.saturating_sub(table::LOWEST));
    (room - told, told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_story_makes_room_for_the_table_on_a_low_screen() {
        assert_eq!(rooms(24), (16, 5));
        assert_eq!(rooms(12), (4, 5));
        assert_eq!(rooms(10), (4, 3));
        assert_eq!(rooms(7), (4, 0));
        assert_eq!(rooms(2), (0, 0));
    }
}
