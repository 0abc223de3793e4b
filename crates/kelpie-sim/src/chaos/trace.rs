//! Everything that happened, as lines.

use std::collections::VecDeque;
use std::env;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Write, stdout};

use crate::actor::Turn;
use crate::landscape::{Happening, What};

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

/// A hash of everything that was requested and changed in a run, independent of wording.
///
/// FNV-1a, so that it stays the same across Rust versions.
pub(super) struct Fingerprint(u64);

impl Fingerprint {
    pub(super) fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    pub(super) fn add(&mut self, event: &Happening) {
        let at = event.at.as_micros();
        match &event.what {
            // Their texts are prose; when they begin follows from the scenario.
            What::FaultBegan { .. } | What::FaultEnded { .. } => {}
            What::Call {
                server,
                user,
                verb,
                path,
                status,
                ..
            } => self.line(&format!("{at} {server} {user} {verb} {path} {status}")),
            What::NodeUnknown { cluster, node } => self.line(&format!("{at} u {cluster} {node}")),
            What::NodeReady { cluster, node } => self.line(&format!("{at} r {cluster} {node}")),
            What::NodeJoined { cluster, node } => self.line(&format!("{at} j {cluster} {node}")),
            What::MachineReplaced { cluster, node } => {
                self.line(&format!("{at} m {cluster} {node}"));
            }
            What::PodsEvicted {
                cluster,
                node,
                count,
            } => self.line(&format!("{at} e {cluster} {node} {count}")),
            What::Pods {
                cluster,
                controller,
                count,
            } => self.line(&format!("{at} p {cluster} {controller} {count}")),
            What::Dependant { cluster, turn } => {
                let turn = match turn {
                    Turn::Started => 0,
                    Turn::Crashed(_) => 1,
                    Turn::Replaced => 2,
                };
                self.line(&format!("{at} d {cluster} {turn}"));
            }
        }
    }

    pub(super) fn line(&mut self, line: &str) {
        for byte in line.bytes().chain([b'\n']) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    pub(super) fn finish(&self) -> u64 {
        self.0
    }
}
