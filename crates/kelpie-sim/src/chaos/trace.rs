//! Everything that happened, as lines.

use std::collections::VecDeque;
use std::env;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Write, stdout};

/// The last lines are kept.
const KEPT: usize = 5_000;

#[derive(Default)]
pub(super) struct Trace {
    last: VecDeque<String>,
    digest: DefaultHasher,
    lines: usize,
    is_shown: bool,
}

impl Trace {
    /// Lines are printed as well if somebody wants to see them.
    pub(super) fn new() -> Self {
        Self {
            is_shown: env::var_os("KELPIE_SIM_TRACE").is_some(),
            ..Self::default()
        }
    }

    pub(super) fn add(&mut self, line: String) {
        if self.is_shown {
            // Who does not read it any more misses nothing.
            let _ = writeln!(stdout(), "{line}");
        }
        line.hash(&mut self.digest);
        self.lines += 1;
        self.last.push_back(line);
        if self.last.len() > KEPT {
            self.last.pop_front();
        }
    }

    /// The last lines, how many there were, and a digest of all.
    pub(super) fn finish(&mut self) -> (Vec<String>, usize, u64) {
        let last = std::mem::take(&mut self.last);
        (last.into(), self.lines, self.digest.finish())
    }
}
