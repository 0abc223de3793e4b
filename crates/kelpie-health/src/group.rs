//! The two groups of checks.

use std::fmt;

/// A group of checks, served at an endpoint of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CheckGroup {
    /// Tells the kubelet whether to restart the process. Results are never reused.
    Livez,
    /// Tells whether the process should receive traffic.
    ///
    /// Slow is not unready, so a late check reports its last result again.
    Readyz,
}

impl CheckGroup {
    /// Both groups, in the order in which they are documented.
    pub const ALL: [Self; 2] = [Self::Livez, Self::Readyz];

    /// Returns the name used in paths, in the log and in the metric label `type`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Livez => "livez",
            Self::Readyz => "readyz",
        }
    }
}

impl fmt::Display for CheckGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
