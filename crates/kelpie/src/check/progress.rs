//! A progress line for long checks, on terminals only.

use std::io::{self, IsTerminal};

use crate::terminal;

/// A line on standard error that is overwritten in place and erased on drop.
pub(super) struct Progress {
    all: usize,
    done: usize,
    is_shown: bool,
}

impl Progress {
    /// Up to this number of clusters no line is shown: the check ends before it could be read.
    const FEW: usize = 16;

    pub(super) fn new(all: usize) -> Self {
        Self {
            all,
            done: 0,
            is_shown: all > Self::FEW && io::stderr().is_terminal(),
        }
    }

    /// Counts one more cluster as checked.
    pub(super) fn advance(&mut self) {
        self.done += 1;
        let Self { all, done, .. } = *self;
        self.show(&format!("checked {done} of {all} clusters"));
    }

    fn show(&self, text: &str) {
        if self.is_shown {
            // A check must not fail because its progress cannot be shown.
            let _ = terminal::stderr(&format!("\r\u{1b}[2K{text}"));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.show("");
    }
}
