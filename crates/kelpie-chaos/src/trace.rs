//! The trace of a run, as text and as a fingerprint.

use std::collections::VecDeque;
use std::env;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Write, stdout};

use kelpie_sim::{PodTransition, SimEvent, SimEventKind};

/// The number of lines that are kept.
const MAX_LINES: usize = 5_000;

#[derive(Default)]
pub(crate) struct Trace {
    last: VecDeque<String>,
    digest: DefaultHasher,
    lines: usize,
    prints: bool,
}

impl Trace {
    /// Creates a trace, which also prints its lines if `KELPIE_SIM_TRACE` is set.
    pub(crate) fn new() -> Self {
        Self {
            prints: env::var_os("KELPIE_SIM_TRACE").is_some(),
            ..Self::default()
        }
    }

    pub(crate) fn add(&mut self, line: String) {
        if self.prints {
            // A closed pipe is no reason to fail.
            let _ = writeln!(stdout(), "{line}");
        }
        line.hash(&mut self.digest);
        self.lines += 1;
        self.last.push_back(line);
        if self.last.len() > MAX_LINES {
            self.last.pop_front();
        }
    }

    /// Returns the last lines, the number of all lines, and a hash of all lines.
    pub(crate) fn finish(&mut self) -> (Vec<String>, usize, u64) {
        let last = std::mem::take(&mut self.last);
        (last.into(), self.lines, self.digest.finish())
    }
}

/// A hash of every request and change of a run, independent of wording.
///
/// FNV-1a, so that it stays the same across Rust versions.
pub(crate) struct Fingerprint(u64);

impl Fingerprint {
    pub(crate) fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    pub(crate) fn add(&mut self, event: &SimEvent) {
        let at = event.at.as_micros();
        match &event.kind {
            // Their texts are prose, and their times follow from the scenario.
            SimEventKind::FaultBegan { .. } | SimEventKind::FaultEnded { .. } => {}
            SimEventKind::Request {
                server,
                user,
                verb,
                path,
                status,
                ..
            } => self.add_line(&format!("{at} {server} {user} {verb} {path} {status}")),
            SimEventKind::NodeUnknown { cluster, node } => {
                self.add_line(&format!("{at} u {cluster} {node}"));
            }
            SimEventKind::NodeReady { cluster, node } => {
                self.add_line(&format!("{at} r {cluster} {node}"));
            }
            SimEventKind::NodeJoined { cluster, node } => {
                self.add_line(&format!("{at} j {cluster} {node}"));
            }
            SimEventKind::MachineReplaced { cluster, node } => {
                self.add_line(&format!("{at} m {cluster} {node}"));
            }
            SimEventKind::PodsEvicted {
                cluster,
                node,
                count,
            } => self.add_line(&format!("{at} e {cluster} {node} {count}")),
            SimEventKind::ControllerScaled {
                cluster,
                controller,
                count,
            } => self.add_line(&format!("{at} p {cluster} {controller} {count}")),
            SimEventKind::ApiServerPod {
                cluster,
                transition,
            } => {
                let transition = match transition {
                    PodTransition::Started => 0,
                    PodTransition::Crashed(_) => 1,
                    PodTransition::Replaced => 2,
                };
                self.add_line(&format!("{at} d {cluster} {transition}"));
            }
        }
    }

    pub(crate) fn add_line(&mut self, line: &str) {
        for byte in line.bytes().chain([b'\n']) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    pub(crate) fn finish(&self) -> u64 {
        self.0
    }
}
