//! The lines of a record: one JSON object each.

use std::io;
use std::time::Duration;

use kelpie_config::ProberConfig;
use kelpie_core::prober::replay::{EvaluatorState, RecordedRound};
use kelpie_core::prober::{Decision, Machines, NodeSet, Verdict};
use kelpie_core::{Time, fnv1a};
use serde::{Deserialize, Serialize};

use super::lease_lines::LeaseLine;

/// The version of the format. A reader refuses any other.
pub(super) const FORMAT: u32 = 1;

/// The first line of every file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Header {
    /// The version of the format.
    #[serde(rename = "kelpieRecord")]
    pub format: u32,
    /// The version of the recorded prober.
    pub kelpie: String,
    /// The recorded replica.
    pub replica: String,
    /// The start of the recorded process.
    pub started: Time,
    /// A hash of the configuration.
    pub config_digest: String,
    /// The effective configuration in the format of its file. It contains no secrets.
    pub config: serde_json::Value,
}

impl Header {
    pub(super) fn new(config: &ProberConfig, replica: &str, started: Time) -> io::Result<Self> {
        let config = serde_json::to_value(config)?;
        Ok(Self {
            format: FORMAT,
            kelpie: env!("CARGO_PKG_VERSION").to_owned(),
            replica: replica.to_owned(),
            started,
            config_digest: hex(fnv1a(config.to_string().into_bytes())),
            config,
        })
    }

    pub(super) fn to_line(&self) -> io::Result<Vec<u8>> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        Ok(line)
    }
}

/// A line after the header.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Line {
    /// The cluster; `None` if the line is about the record itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cluster: Option<String>,
    #[serde(flatten)]
    pub(super) body: Body,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Body {
    /// The state of the evaluator before the next input.
    #[serde(rename_all = "camelCase")]
    State {
        /// No input was lost since the last line of this cluster.
        follows: bool,
        #[serde(flatten)]
        state: Box<EvaluatorState>,
    },
    /// The cluster's own grace period.
    Grace {
        own: Option<Duration>,
    },
    Machines {
        machines: Option<Machines>,
        current: bool,
    },
    Leases(LeaseLine),
    #[serde(rename_all = "camelCase")]
    Nodes {
        read_at: Time,
        nodes: NodeSet,
    },
    Round(Box<RoundLine>),
    Call(CallLine),
    /// The probe of the cluster has ended.
    Ended {},
    /// This number of lines could not be written.
    Lost {
        lines: u64,
    },
}

/// A round and the decision on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RoundLine {
    #[serde(flatten)]
    pub(super) round: RecordedRound,
    pub(super) verdict: Verdict,
    /// The digest of the whole decision, see [`decision_digest`].
    pub(super) digest: String,
    /// The whole decision, whenever the verdict or the kind of rule has changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) decision: Option<Decision>,
}

/// A call of a fence or a release, and its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CallLine {
    /// The instant of the response.
    pub at: Time,
    /// The target.
    pub target: String,
    /// The call.
    pub call: String,
    /// The result.
    pub result: String,
}

/// Returns a hash of everything in a decision. Equal decisions have equal JSON, byte for byte.
pub(super) fn decision_digest(decision: &Decision) -> serde_json::Result<String> {
    let json = serde_json::to_vec(decision)?;
    let until = decision.evidence_until.map_or(i64::MIN, Time::as_micros);
    let evidence = [until, decision.evidence_at.as_micros()];
    let evidence = evidence.into_iter().flat_map(i64::to_be_bytes);
    Ok(hex(fnv1a(json.into_iter().chain(evidence))))
}

fn hex(hash: u64) -> String {
    format!("{hash:016x}")
}
