//! The two questions a supervisor asks.

use std::fmt;

use prometheus_client::encoding::{EncodeLabelValue, LabelValueEncoder};

/// A group of checks with an endpoint of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Group {
    /// Does the process need a restart? Never answered from memory.
    Livez,
    /// Should it get traffic? Slow is not unready, so a late check repeats its last result.
    Readyz,
}

impl Group {
    /// Both, in the order in which they are documented.
    pub const ALL: [Self; 2] = [Self::Livez, Self::Readyz];

    /// As in the path, the log and the metric label `type`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Livez => "livez",
            Self::Readyz => "readyz",
        }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl EncodeLabelValue for Group {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
        self.as_str().encode(encoder)
    }
}
