//! How far a long check is, on a terminal only.

use std::io::{self, IsTerminal};

use crate::terminal;

/// A line that is written over, and gone at the end.
pub(super) struct Progress {
    all: usize,
    done: usize,
    is_shown: bool,
}

impl Progress {
    /// Few are over before anybody has read the line.
    const FEW: usize = 16;

    pub(super) fn new(all: usize) -> Self {
        Self {
            all,
            done: 0,
            is_shown: all > Self::FEW && io::stderr().is_terminal(),
        }
    }

    /// One more is done.
    pub(super) fn advance(&mut self) {
        self.done += 1;
        let Self { all, done, .. } = *self;
        self.show(&format!("checked {done} of {all} clusters"));
    }

    fn show(&self, text: &str) {
        if self.is_shown {
            // The answer matters, not this.
            let _ = terminal::stderr(&format!("\r\u{1b}[2K{text}"));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.show("");
    }
}
